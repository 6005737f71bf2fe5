// The origin of the plugin's story: `node origin.mjs PORT NAME=STOCK...` keeps stocks of coupons, by HTTP. It writes what it is told,
// whatever it said before, and refuses only whoever comes with a lower fencing token than it has seen.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { argv } from 'node:process'
import { fileURLToPath } from 'node:url'

export class Origin {
  #coupons = new Map()
  // A connection that is kept by whoever asks is not ended just when it is used again.
  #server = createServer({ keepAliveTimeout: 600_000 }, (request, response) => this.#answer(request, response))

  /** Has so many of a coupon. */
  stock(name, left) {
    this.#coupons.set(name, { left, highest: 0n })
  }

  left(name) {
    return this.#coupons.get(name)?.left
  }

  /** Writes a stock; the status that says whether it did. */
  write(name, left, token) {
    const coupon = this.#coupons.get(name)
    if (token < coupon.highest) return 409
    this.#coupons.set(name, { left, highest: token })
    return 204
  }

  /** Where it listens, once it does. */
  async listen(port) {
    this.#server.listen(port, '127.0.0.1')
    await once(this.#server, 'listening')
    return `http://127.0.0.1:${this.#server.address().port}`
  }

  close() {
    this.#server.close()
    this.#server.closeAllConnections()
  }

  async #answer(request, response) {
    const { pathname, searchParams } = new URL(request.url, 'http://origin')
    const name = pathname.replace('/coupons/', '')
    let body = ''
    for await (const part of request) body += part
    const left = this.left(name)
    if (left === undefined) response.writeHead(404).end()
    else if (request.method === 'PUT') response.writeHead(await this.write(name, Number(body), BigInt(searchParams.get('fence') ?? 0))).end()
    else response.end(String(left))
  }
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  const [port, ...stocks] = argv.slice(2)
  const origin = new Origin()
  for (const [name, left] of stocks.map(stock => stock.split('='))) origin.stock(name, Number(left))
  console.log(`stocks at ${await origin.listen(Number(port))}/coupons/NAME`)
}
