// Sells what is in stock: `node shop.mjs PORT STOCK-FILE`. Start as many as you like on one file.

import { readFile, rename, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { pid } from 'node:process'

import { connect, LockTimeout, Unavailable } from 'lockwright'

const [port, file] = process.argv.slice(2)
const client = await connect()
const lock = client.lock(`stock:${file}`, { ttl: 5_000, label: 'shop' })

/** Takes one piece out of the stock, under the fencing token `fence`; what is left, or `null` when there was none. */
async function take(fence) {
  const stock = JSON.parse(await readFile(file, 'utf8'))
  // Whoever was stopped for longer than its lease comes back with a token that is too low.
  if (fence < BigInt(stock.fence)) throw new Error(`token ${fence} is older than ${stock.fence}`)
  if (stock.left === 0) return null
  const next = { left: stock.left - 1, fence: String(fence) }
  await writeFile(`${file}.${pid}`, JSON.stringify(next))
  await rename(`${file}.${pid}`, file)
  return next.left
}

async function buy(signal) {
  try {
    const left = await lock.using(guard => take(guard.token), { timeout: 10_000, signal })
    return left === null ? [409, 'sold out'] : [200, `sold, ${left} left`]
  } catch (error) {
    // Busy, or the locks cannot be reached: the customer may try again. All else is for the log.
    if (error instanceof LockTimeout || error instanceof Unavailable) return [503, error.code]
    throw error
  }
}

const server = createServer(async (request, response) => {
  if (request.method !== 'POST' || request.url !== '/buy') return void response.writeHead(404).end()
  const gone = new AbortController()
  // A customer who hangs up is not waited for any more.
  response.on('close', () => gone.abort())
  try {
    const [status, text] = await buy(gone.signal)
    response.writeHead(status).end(text)
  } catch (error) {
    if (error !== gone.signal.reason) console.error(error)
    if (!response.headersSent) response.writeHead(500).end()
  }
})
server.listen(Number(port), () => console.log(`selling on ${server.address().port}`))

process.once('SIGTERM', async () => {
  server.close()
  await client.close()
})
