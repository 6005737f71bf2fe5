import { bridge, type Speaker } from './bridge.js'
import type { Transport } from './transport.js'

/** Who may ask. */
export interface RestOptions {
  /** Sent as `Authorization: Bearer`. */
  readonly token?: string | undefined
}

/**
 * Redis over HTTP, for browsers and edges without TCP: a gateway at `url` that takes a list of commands at `/pipeline`, each a list of texts, and answers with a
 * list of `{ result }` and `{ error }`, as Upstash and its free gateways do. Nothing can be pushed this way: those who wait ask again by a timer, in no order.
 */
export function rest(url: string, { token }: RestOptions = {}): Transport {
  const headers: Record<string, string> = { 'content-type': 'application/json' }
  if (token !== undefined) headers['authorization'] = `Bearer ${token}`
  const pipeline = `${url.replace(/\/+$/, '')}/pipeline`
  const post = async (commands: string[][], signal: AbortSignal): Promise<unknown[]> => {
    const response = await fetch(pipeline, { method: 'POST', headers, body: JSON.stringify(commands), signal })
    // As a server says it that lets nobody in.
    if (response.status === 401 || response.status === 403) throw new Error(`NOPERM the gateway lets this token do nothing (status ${response.status})`)
    if (!response.ok) throw new Error(`the gateway answered with status ${response.status}; see that the url is right, and that it takes lists of commands at /pipeline`)
    const answers: unknown = await response.json()
    if (!Array.isArray(answers) || answers.length !== commands.length) throw new Error('the gateway did not answer each command')
    return answers
  }
  const speaker = (): Speaker => {
    // One behind the other: a gateway may answer two requests in any order.
    let last: Promise<unknown> = Promise.resolve()
    const closing = new AbortController()
    return {
      ask(commands) {
        const answered = last.then(() => post(commands, closing.signal))
        last = answered.catch(() => {})
        return commands.map(async (_, at) => {
          const { result, error } = (await answered)[at] as { result?: unknown; error?: string }
          if (error !== undefined) throw new Error(error)
          return result
        })
      },
      close: () => closing.abort(),
    }
  }
  return { ...bridge(speaker), pushes: false }
}
