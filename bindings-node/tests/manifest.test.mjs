// Every name that the core tells bindings of is here, under the same name in JavaScript's spelling.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'

import * as lockwright from '../dist/index.mjs'
import { native } from '../dist/native.js'

const MANIFEST = native.manifest()

/** What the package declares, without comments. */
const TYPES = ['asking', 'client', 'lock', 'guard', 'several', 'latch', 'barrier', 'shared', 'records', 'metrics', 'errors']
  .map(file => readFileSync(fileURLToPath(new URL(`../dist/${file}.d.ts`, import.meta.url)), 'utf8').replace(/\/\*[^]*?\*\//g, ''))
  .join('\n')

const camel = name => name.replace(/_(.)/g, (_, first) => first.toUpperCase())

/** The names of an interface's or a class's members in `text`, which all are indented by four. */
function members(name) {
  const [, body] = TYPES.match(new RegExp(`(?:interface|class) ${name}\\b[^{]*{\\n([^]*?)\\n}`)) ?? assert.fail(`there is no type ${name}`)
  return body.split('\n').flatMap(line => line.match(/^ {4}(?:(?:readonly|get|static|protected|private) )*(\w+)/)?.[1] ?? [])
}

/** What a language has of its own, or has elsewhere. */
const OWN = {
  // `try_upgrade` and the others are asked of a semaphore or of a part of a read/write lock, which are locks.
  Lock: { resize: 'Semaphore' },
}

describe('there is', () => {
  for (const [of, operations] of Object.entries(MANIFEST.operations)) {
    for (const [name, takes] of Object.entries(operations)) {
      test(`${of}.${camel(name)}`, () => {
        const place = OWN[of]?.[name] ?? of
        assert.equal(typeof lockwright[place].prototype[camel(name)], 'function')
        const [, parameters] = TYPES.match(new RegExp(`class ${place}\\b[^]*?\\n    ${camel(name)}(?:<[^(]*>)?\\(([^)]*)\\)`))
        for (const what of takes) {
          const given = what === 'timeout' ? 'options' : camel(what)
          assert.match(parameters, new RegExp(`\\b${given}\\b|\\bto\\b`), `${of}.${name}(${parameters})`)
        }
      })
    }
  }

  for (const [name, type] of Object.entries({ lock: 'LockOptions', connect: 'ConnectOptions', require: 'Requirements' })) {
    test(`each option of ${type}, and no other`, () => {
      const own = name === 'connect' ? ['credentials'] : []
      assert.deepEqual(members(type), [...Object.keys(MANIFEST.options[name]).map(camel), ...own])
    })
  }

  for (const [record, fields] of Object.entries(MANIFEST.records)) {
    test(`each field of ${record}, and no other`, () => assert.deepEqual(members(record).sort(), fields.map(camel).sort()))
  }

  const codes = MANIFEST.errors.map(({ code }) => code)
  for (const [type, names] of Object.entries({ LossReason: MANIFEST.losses, ReleaseOutcome: MANIFEST.outcomes, ErrorCode: codes })) {
    test(`each ${type}, and no other`, () => {
      const [, said] = TYPES.match(new RegExp(`type ${type} = (.*);`))
      assert.deepEqual(said.split(' | '), names.map(name => `'${name}'`))
    })
  }
})
