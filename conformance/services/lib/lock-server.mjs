// `lock-server.mjs FOLDER PORT`: puts into the folder what workerd needs to serve the locks of a Durable Object there, and prints workerd's path.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

import { configure, objects, WORKERD } from '../../../bindings-wasm/npm/tests/workerd.mjs'

const [folder, port] = process.argv.slice(2)
const disk = join(folder, 'disk')
mkdirSync(disk, { recursive: true })
configure(folder, port, fileURLToPath(new URL('lock-server-worker.js', import.meta.url)), objects('Locks', disk))
console.log(WORKERD)
