// The Node package where no native library is made for the platform: it is this one then, and says so once.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { connect } from '../../../bindings-node/dist/index.mjs'

const ADDRESS = `${process.env.LOCKWRIGHT_TEST_REDIS}?prefix=fallback-${process.pid}:`
const NODE = fileURLToPath(new URL('../../../bindings-node/', import.meta.url))
const WASM = fileURLToPath(new URL('..', import.meta.url))
const ELSEWHERE = `for (const [name, value] of [['platform', 'darwin'], ['arch', 'arm64']]) Object.defineProperty(process, name, { value })`

/** What a program says that imports the package of Node's, on that platform, with `install` called with the folder of its dependencies. */
async function says(program, install) {
  const place = mkdtempSync(join(tmpdir(), 'lockwright-fallback-'))
  try {
    const packages = join(place, 'node_modules')
    mkdirSync(join(packages, 'lockwright'), { recursive: true })
    for (const part of ['dist', 'package.json']) cpSync(join(NODE, part), join(packages, 'lockwright', part), { recursive: true })
    install(packages)
    writeFileSync(join(place, 'elsewhere.cjs'), ELSEWHERE)
    writeFileSync(join(place, 'program.mjs'), program)
    const { LOCKWRIGHT_NATIVE: _, ...env } = process.env
    const { stdout, stderr } = await promisify(execFile)(process.execPath, ['--require', './elsewhere.cjs', 'program.mjs'], { cwd: place, env })
    return { said: stdout.trim().split('\n'), warned: stderr }
  } finally {
    rmSync(place, { recursive: true })
  }
}

const installed = packages => symlinkSync(WASM, join(packages, 'lockwright-wasm'))
const LOADED = `
  import { createRequire } from 'node:module'
  try {
    createRequire(import.meta.url)('lockwright')
  } catch ({ code, message }) {
    console.log(code, message)
  }
`

test('locks are had by WebAssembly and shared with the native library, and one warning says so', async () => {
  const native = await connect(ADDRESS)
  const held = await native.lock('x').acquire()
  const { said, warned } = await says(`
    import { createRequire } from 'node:module'
    import { connect, Histogram, kit, LockTimeout, Owner } from 'lockwright'
    const again = createRequire(import.meta.url)('lockwright')
    const client = await connect(${JSON.stringify(ADDRESS)})
    const code = work => work().then(() => 'fine', error => error instanceof LockTimeout ? 'LockTimeout' : error.code)
    console.log(again.connect === connect, await code(() => client.lock('x').acquire({ timeout: 50 })))
    console.log(await client.lock('y').using(guard => typeof guard.token))
    console.log(await code(async () => new Owner()), await code(async () => kit.readHeader('1')), client instanceof Histogram)
    console.log(await code(() => connect('memory://here')))
    await client.close()
  `, installed)
  await held.release()
  await native.close()
  assert.deepEqual(said, ['true LockTimeout', 'bigint', 'unsupported unsupported false', 'unsupported'])
  assert.equal(warned.match(/LockwrightWarning: lockwright has no native library for darwin-arm64, and uses lockwright-wasm/g)?.length, 1, warned)
})

test('where it is not installed, or in another version, that is told', async () => {
  const none = await says(LOADED, () => undefined)
  assert.match(none.said[0], /^unsupported .*is not published for darwin-arm64.*install lockwright-wasm/)
  const other = await says(LOADED, packages => {
    mkdirSync(join(packages, 'lockwright-wasm'))
    writeFileSync(join(packages, 'lockwright-wasm', 'package.json'), '{ "name": "lockwright-wasm", "version": "9.9.9" }')
  })
  assert.match(other.said[0], /^unsupported .*lockwright-wasm is version 9\.9\.9, and this is/)
})

test('a native library that is there and cannot be loaded is told of all the same', async () => {
  const { said } = await says(LOADED, packages => {
    installed(packages)
    writeFileSync(join(packages, 'lockwright', 'lockwright.node'), 'no library')
  })
  assert.match(said[0], /^unsupported .*Found: .*lockwright\.node/)
})
