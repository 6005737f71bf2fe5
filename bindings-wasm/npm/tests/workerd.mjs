// workerd with a script and the package in it, on a free port.
import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const PACKAGE = join(dirname(fileURLToPath(import.meta.url)), '..')
// Only the program itself: what starts it waits for it in a way that outlives a signal.
export const WORKERD = join(PACKAGE, '../tests/tools/node_modules/@cloudflare/workerd-linux-64/bin/workerd')

export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise(listening => server.once('listening', listening))
  const { port } = server.address()
  await new Promise(closed => server.close(closed))
  return port
}

/** Durable Objects of this class of a script's, bound to it as LOCKS, that keep their locks in a folder. */
export function objects(name, folder) {
  return {
    bindings: `(name = "LOCKS", durableObjectNamespace = "${name}")`,
    more: `durableObjectNamespaces = [(className = "${name}", uniqueKey = "locks", enableSql = true)], durableObjectStorage = (localDisk = "disk"),`,
    services: `, (name = "disk", disk = (path = "${folder}", writable = true))`,
  }
}

/** Puts into a folder what workerd needs to serve `script`, which finds the package and what lies in its folder beside it, at a port. `more` is put into the worker, `services` beside it. */
export function configure(folder, port, script, { bindings = '', more = '', services = '' }) {
  symlinkSync(join(PACKAGE, 'dist'), join(folder, 'dist'))
  symlinkSync(join(PACKAGE, 'wasm'), join(folder, 'wasm'))
  symlinkSync(script, join(folder, 'main.js'))
  const beside = readdirSync(dirname(script)).filter(name => name.endsWith('.js') && name !== basename(script))
  for (const name of beside) symlinkSync(join(dirname(script), name), join(folder, name))
  const modules = [
    ...['main.js', ...beside].map(name => `(name = "${name}", esModule = embed "${name}")`),
    ...readdirSync(join(PACKAGE, 'dist')).filter(name => name.endsWith('.js')).map(name => `(name = "dist/${name}", esModule = embed "dist/${name}")`),
    // As a bundler finds them.
    `(name = "lockwright-wasm", esModule = "export * from './dist/workerd.js'")`,
    `(name = "lockwright-wasm/lock-server", esModule = "export * from '../dist/lock_server.js'")`,
    ...['lockwright', 'server'].flatMap(name => [
      `(name = "wasm/${name}.js", esModule = embed "wasm/${name}.js")`,
      `(name = "wasm/${name}_bg.wasm", wasm = embed "wasm/${name}_bg.wasm")`,
    ]),
  ]
  writeFileSync(join(folder, 'config.capnp'), `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .worker), (name = "internet", network = (allow = ["local"]))${services}],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  compatibilityDate = "2026-11-01",
  modules = [${modules.join(', ')}],
  bindings = [${bindings}],
  ${more}
);
`)
}

/** Serves a {@link configure | configured} script until `stop`, at a free port unless one is given. */
export async function serve(script, { port, ...options } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'lockwright-workerd-'))
  port ??= await freePort()
  configure(folder, port, script, options)
  const child = spawn(WORKERD, ['serve', join(folder, 'config.capnp'), '--verbose'], { stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr.on('data', bytes => (said += bytes))
  const ended = new Promise(resolve => child.once('exit', resolve))
  const stop = async () => {
    child.kill('SIGKILL')
    await ended
    rmSync(folder, { recursive: true, force: true })
  }
  const url = `http://127.0.0.1:${port}`
  for (let left = 1_000; ; left--) {
    // Any answer says that it listens.
    const answer = await fetch(`${url}/`).catch(() => undefined)
    if (answer !== undefined) {
      await answer.arrayBuffer()
      break
    }
    if (left === 0 || child.exitCode !== null) {
      await stop()
      throw new Error(`workerd does not serve: ${said}`)
    }
    await new Promise(next => setTimeout(next, 10))
  }
  return { url, port, stop, said: () => said }
}

/** So many requests at one URL or by turns at several, so many at once: what each answered. */
export async function requests(url, count, atOnce, how) {
  const urls = [url].flat()
  const answers = []
  let left = count
  await Promise.all(Array.from({ length: atOnce }, async (_, i) => {
    while (left-- > 0) {
      const response = await fetch(urls[i % urls.length], how)
      answers.push({ status: response.status, ...(await response.json()) })
    }
  }))
  return answers
}
