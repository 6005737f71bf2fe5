// What the shim of Node and the peers written for it share.

import { readFileSync, renameSync, writeFileSync, writeSync } from 'node:fs'

/** Node has the time since boot to a hundredth of a second only, and a clock that stops while the machine sleeps. */
const slept = (() => {
  const uptime = () => Math.round(Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 1e9)
  const before = uptime()
  let after = uptime()
  while (after === before) after = uptime()
  const behind = BigInt(after) - process.hrtime.bigint()
  return behind < 20_000_000n ? 0n : behind
})()

export const now = () => Number(process.hrtime.bigint() + slept)
export const say = line => writeSync(1, `${JSON.stringify(line, (_, value) => (typeof value === 'bigint' ? Number(value) : value))}\n`)

/** Not atomic in the least, but for the last step: whoever is killed leaves the old value or the new one. */
export function countUp(task, counter) {
  let value = 1
  try {
    value += Number(readFileSync(counter, 'utf8'))
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
  }
  replace(counter, task, value)
  return value
}

export function replace(file, by, value) {
  writeFileSync(`${file}.${by}`, String(value))
  renameSync(`${file}.${by}`, file)
}
