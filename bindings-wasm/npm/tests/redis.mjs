// The server without any library.
import { once } from 'node:events'
import { createConnection } from 'node:net'

/** The server's answer to a command whose answer is one line, or a text of one. */
export async function command(...words) {
  const { hostname, port } = new URL(process.env.LOCKWRIGHT_TEST_REDIS)
  const socket = createConnection({ port: Number(port), host: hostname, noDelay: true })
  socket.write(`*${words.length}\r\n${words.map(word => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`)
  const [answer] = await once(socket, 'data')
  socket.destroy()
  const [head, text] = answer.toString().split('\r\n')
  return head.startsWith('$') ? text : head
}
