// Runs several of each example at once, on every store it knows of, and says whether they did what they promise.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = name => fileURLToPath(new URL(name, import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'lockwright-examples-'))
process.on('exit', () => rmSync(folder, { recursive: true }))

function start(url, example, ...words) {
  const env = { ...process.env, LOCKWRIGHT_URL: url, AT_LEAST: '1000' }
  const started = spawn(process.execPath, [here(example), ...words], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  started.stdout.setEncoding('utf8')
  return started
}

async function sold(url, name) {
  const file = join(folder, `${name}.json`)
  writeFileSync(file, JSON.stringify({ left: 40, fence: '0' }))
  const shops = [1, 2, 3].map(() => start(url, 'shop.mjs', '0', file))
  const ports = await Promise.all(shops.map(async shop => (await once(shop.stdout, 'data'))[0].match(/\d+/)[0]))
  const buy = async (_, i) => (await fetch(`http://127.0.0.1:${ports[i % 3]}/buy`, { method: 'POST' })).status
  const answers = await Promise.all(Array.from({ length: 60 }, buy))
  const ends = shops.map(shop => once(shop, 'exit'))
  shops.forEach(shop => shop.kill('SIGTERM'))
  for (const [code] of await Promise.all(ends)) assert.equal(code, 0)
  const of = status => answers.filter(answer => answer === status).length
  assert.deepEqual([of(200), of(409), JSON.parse(readFileSync(file)).left], [40, 20, 0])
  return 'three shops sold 40 of 40 pieces to 60 customers'
}

async function reported(url, name) {
  const log = join(folder, `${name}.log`)
  const hosts = Array.from({ length: 4 }, () => start(url, 'nightly.mjs', log))
  const said = await Promise.all(hosts.map(async host => {
    const lines = once(host.stdout, 'data')
    const [code] = await once(host, 'exit')
    assert.equal(code, 0)
    return String((await lines)[0])
  }))
  assert.deepEqual(said.sort(), ['another host does it\n', 'another host does it\n', 'another host does it\n', 'done\n'])
  assert.equal(readFileSync(log, 'utf8').split('\n').length, 2)
  return 'one of four hosts made the report'
}

const stores = { sqlite: `sqlite://${join(folder, 'locks.db')}` }
const redis = process.env.LOCKWRIGHT_TEST_REDIS
if (redis) stores.redis = `${redis}?prefix=examples-${process.pid}:`

let [passed, failed] = [0, 0]
for (const [name, url] of Object.entries(stores)) {
  for (const example of [sold, reported]) {
    try {
      console.log(`${name}: ${await example(url, name)}`)
      passed++
    } catch (error) {
      console.error(`${name}: ${error.stack}`)
      failed++
    }
  }
}
console.log(`${passed} passed, ${failed} failed`)
process.exitCode = failed === 0 ? 0 : 1
