// A page with the package, bundled and run in Chromium, over an HTTP gateway to a real Redis.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { connect } from '../../npm/dist/index.js'
import { chromium } from './chromium.mjs'

const run = promisify(execFile)
const { createClient } = createRequire(new URL('../tools/package.json', import.meta.url))('redis')
const REDIS = process.env.LOCKWRIGHT_TEST_REDIS
const ADDRESS = `${REDIS}?prefix=browser-${process.pid}-`
const at = path => fileURLToPath(new URL(path, import.meta.url))
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.wasm': 'application/wasm' }

let browser, redis, gateway, place, counted = 0

async function listening(handler) {
  const server = createServer(handler).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { url: `http://127.0.0.1:${server.address().port}`, stop: () => (server.close(), server.closeAllConnections()) }
}

async function text(request) {
  let body = ''
  for await (const part of request) body += part
  return body
}

/** A site of the files in a folder. */
function show(folder, request, response) {
  const file = request.url === '/' ? '/index.html' : request.url
  try {
    response.setHeader('content-type', TYPES[extname(file)] ?? 'text/plain').end(readFileSync(join(folder, file)))
  } catch {
    response.writeHead(404).end()
  }
}

/** The gateway. */
async function serve(request, response) {
  response.setHeader('access-control-allow-origin', '*').setHeader('access-control-allow-headers', '*')
  if (request.method === 'OPTIONS') return response.end()
  if (request.url === '/count') {
    if (request.method === 'POST') counted = Number(await text(request))
    return response.end(String(counted))
  }
  if (request.url !== '/pipeline') return response.writeHead(404).end()
  const commands = JSON.parse(await text(request))
  const answers = commands.map(words => redis.sendCommand(words).then(result => ({ result }), error => ({ error: error.message })))
  response.end(JSON.stringify(await Promise.all(answers)))
}

before(async () => {
  place = mkdtempSync(join(tmpdir(), 'lockwright-page-'))
  mkdirSync(join(place, 'node_modules/lockwright-wasm'), { recursive: true })
  for (const part of ['dist', 'wasm', 'package.json']) cpSync(at(`../../npm/${part}`), join(place, 'node_modules/lockwright-wasm', part), { recursive: true })
  cpSync(at('page.js'), join(place, 'main.js'))
  writeFileSync(join(place, 'index.html'), '<!doctype html><script type="module" src="/main.js"></script>')
  redis = createClient({ url: REDIS })
  await redis.connect()
  browser = chromium()
  // The page is of another origin than the gateway, so the browser asks first whether it may.
  gateway = await listening(serve)
})

after(async () => {
  await browser?.stop()
  gateway?.stop()
  redis?.destroy()
  rmSync(place, { recursive: true, force: true })
})

const bundlers = {
  async esbuild(out) {
    await run(at('../runtimes/node_modules/.bin/esbuild'), ['main.js', '--bundle', '--format=esm', `--outdir=${out}`], { cwd: place })
    mkdirSync(join(out, 'wasm'))
    cpSync(join(place, 'node_modules/lockwright-wasm/wasm/lockwright_bg.wasm'), join(out, 'wasm/lockwright_bg.wasm'))
    cpSync(join(place, 'index.html'), join(out, 'index.html'))
  },
  vite: out => run(at('../runtimes/node_modules/.bin/vite'), ['build', '--outDir', out], { cwd: place }),
}

for (const [name, bundle] of Object.entries(bundlers)) {
  test(`bundled by ${name}, two tabs and a Node process share locks`, async () => {
    const out = join(place, `out-${name}`)
    await bundle(out)
    const site = await listening((request, response) => show(out, request, response))
    const address = `${ADDRESS}${name}:`
    const direct = await connect(address)
    const tabs = await Promise.all([1, 2].map(() => browser.tab(site.url)))
    const [one, other] = tabs
    try {
      for (const tab of tabs) {
        await tab.run(`start(${JSON.stringify(gateway.url)}, ${JSON.stringify(address)})`)
      }
      counted = 0
      const counting = Array.from({ length: 10 }, () => direct.lock('count').using(async () => {
        const seen = Number(await (await fetch(`${gateway.url}/count`)).text())
        await fetch(`${gateway.url}/count`, { method: 'POST', body: String(seen + 1) })
      }))
      await Promise.all([...counting, ...tabs.map(tab => tab.run(`count(${JSON.stringify(`${gateway.url}/count`)}, 10)`))])
      assert.equal(counted, 30)

      const token = BigInt(await one.run(`acquire('x')`))
      assert.equal(await other.run(`tries('x')`), false)
      assert.equal(await direct.lock('x').tryAcquire(), null)
      const waiting = other.run(`acquire('x')`)
      // Requests go one behind the other, so that of the waiter was answered when this one is.
      assert.equal(await other.run(`tries('x')`), false)
      assert.equal(await one.run(`release('x')`), 'released')
      const next = BigInt(await waiting)
      assert.ok(next > token)

      const lost = other.run(`lost('x')`)
      await direct.breakLock('x', next)
      assert.equal(await lost, 'lost')
    } finally {
      await Promise.all(tabs.map(tab => tab.close()))
      await direct.close()
      site.stop()
    }
  })
}

test('of three tabs of the example one leads, and when it is closed another does', async () => {
  const example = name => cpSync(at(`../../../examples/browser/${name}`), join(place, name))
  example('main.js')
  example('index.html')
  const out = join(place, 'out-example')
  await bundlers.esbuild(out)
  const site = await listening((request, response) => {
    if (!request.url.startsWith('/locks/')) return show(out, request, response)
    request.url = request.url.slice('/locks'.length)
    return serve(request, response)
  })
  const tabs = await Promise.all([1, 2, 3].map(() => browser.tab(site.url)))
  const leading = tab => tab.run(`document.querySelector('#state').textContent === 'leads'`)
  // A tab that is closed answers no more; whether one leads is seen by who is first.
  const leads = `new Promise(told => {
    const state = document.querySelector('#state')
    const look = () => { if (state.textContent === 'leads') told(true) }
    new MutationObserver(look).observe(state, { childList: true })
    look()
  })`
  const next = async others => {
    const leader = await Promise.race(others.map(tab => tab.run(leads).then(() => tab, () => new Promise(() => {}))))
    assert.equal((await Promise.all(others.map(leading))).filter(Boolean).length, 1)
    return leader
  }
  try {
    const first = await next(tabs)
    await first.close()
    tabs.splice(tabs.indexOf(first), 1)
    const second = await next(tabs)
    assert.notEqual(second, first)
  } finally {
    await Promise.all(tabs.map(tab => tab.close()))
    site.stop()
  }
})
