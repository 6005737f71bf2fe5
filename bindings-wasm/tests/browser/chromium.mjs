// Chromium without a window, told what to do over its pipe.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A browser; its `tab(url)` has `run(expression)`, which answers what that promises, and `close`. */
export function chromium() {
  const profile = mkdtempSync(join(tmpdir(), 'lockwright-chromium-'))
  const child = spawn('chromium', ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', `--user-data-dir=${profile}`,
    '--remote-debugging-pipe', 'about:blank'], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] })
  const ended = new Promise(resolve => child.once('exit', resolve))
  const [, , , to, from] = child.stdio
  const [asked, loading] = [new Map(), new Map()]
  let [last, came] = [0, '']
  from.setEncoding('utf8').on('data', text => {
    const parts = (came + text).split('\0')
    came = parts.pop()
    for (const { id, result, error, method, sessionId } of parts.map(part => JSON.parse(part))) {
      if (method === 'Page.loadEventFired') loading.get(sessionId)?.()
      const { resolve, reject } = asked.get(id) ?? {}
      asked.delete(id)
      if (error !== undefined) reject?.(new Error(error.message))
      else resolve?.(result)
    }
  })
  ended.then(() => asked.forEach(({ reject }) => reject(new Error('the browser has ended'))))
  const ask = (method, params = {}, sessionId) => new Promise((resolve, reject) => {
    asked.set(++last, { resolve, reject })
    to.write(`${JSON.stringify({ id: last, method, params, sessionId })}\0`)
  })
  return {
    async tab(url) {
      const { targetId } = await ask('Target.createTarget', { url: 'about:blank' })
      const { sessionId } = await ask('Target.attachToTarget', { targetId, flatten: true })
      await ask('Page.enable', {}, sessionId)
      // Modules have run when a page has loaded.
      const loaded = new Promise(resolve => loading.set(sessionId, resolve))
      await ask('Page.navigate', { url }, sessionId)
      await loaded
      return {
        async run(expression) {
          const { result, exceptionDetails } = await ask('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true }, sessionId)
          if (exceptionDetails !== undefined) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text)
          return result.value
        },
        close: () => ask('Target.closeTarget', { targetId }),
      }
    },
    async stop() {
      child.kill('SIGKILL')
      await ended
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}
