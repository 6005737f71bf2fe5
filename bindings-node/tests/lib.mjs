// What the tests share.

import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

import { connect } from '../dist/index.mjs'

export { sleep }

/** Whether tests take their time. */
export const FULL = Boolean(process.env.LOCKWRIGHT_NODE_FULL)

const fresh = () => randomBytes(6).toString('hex')

let folder
function place() {
  if (folder === undefined) {
    folder = mkdtempSync(join(tmpdir(), 'lockwright-node-'))
    process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  }
  return folder
}

/** An address in this process, where nobody else is. */
export const inMemory = () => `memory://${fresh()}`

/** A fresh address of each store that other processes see. */
export function shared() {
  const redis = process.env.LOCKWRIGHT_TEST_REDIS
  const addresses = { sqlite: `sqlite://${join(place(), `${fresh()}.db`)}` }
  return redis ? { ...addresses, redis: `${redis}?prefix=node-${fresh()}:` } : addresses
}

/** A fresh address of each store. */
export const stores = () => ({ memory: inMemory(), ...shared() })

/** A client that is closed after the test. */
export async function client(t, uri, options) {
  const opened = await connect(uri, options)
  t.after(() => opened.close())
  return opened
}

/** Until it is so. */
export async function until(condition, patience = 20_000) {
  const giveUp = Date.now() + patience
  while (!(await condition())) {
    if (Date.now() > giveUp) throw new Error(`not so within ${patience} ms: ${condition}`)
    await sleep(5)
  }
}

/** Has finalizers of what nobody has any more run. */
export async function collected(condition) {
  await until(() => (globalThis.gc(), condition()))
}

/** What a program imports that uses the library. */
export const ENTRY = JSON.stringify(fileURLToPath(new URL('../dist/index.mjs', import.meta.url)))

/** How a program ends that imports the library as `lw`: its status, signal and output. */
export const program = (text, ...words) =>
  bare(`import * as lw from ${ENTRY}\nimport { setTimeout as sleep } from 'node:timers/promises'\n${text}`, ...words)

/** How a program ends that imports nothing yet. */
export function bare(text, ...words) {
  return new Promise(done => {
    const words_ = ['--input-type=module', '--expose-gc', '--eval', text, ...words]
    execFile(process.execPath, words_, { timeout: 60_000 }, (error, stdout, stderr) => {
      done({ status: error ? error.code : 0, signal: error?.signal ?? null, stdout, stderr })
    })
  })
}

/** What lies in the store for ever, in the way of others. */
export async function nothingIsLeft(uri, names) {
  const observer = await connect(uri)
  await until(async () => {
    const seen = await Promise.all(names.map(name => observer.inspect(name)))
    return seen.every(({ holder, waiters }) => holder === undefined && waiters === 0)
  })
  await observer.close()
}
