// A Worker that lets everybody reach one lock server, and has it do what the scenarios ask of a server.
import { LockServer } from 'lockwright-wasm/lock-server'

// Records stay for a while after the hold in them has ended, whoever waits there. No scenario has one for longer than that.
const RESIDUE = `SELECT key, record FROM records WHERE instr(key, ?) > 0 AND (
  kind = 'lock' AND json_extract(record, '$.lock.hold.expires') > ?
  OR kind IN ('rwlock', 'semaphore') AND record NOT LIKE '%"used":0,%"waiting":[]%')`
const LONGEST_TTL = 60_000

export class Locks extends LockServer {
  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url)
    const { sql } = this.ctx.storage
    if (pathname === '/residue') {
      const left = sql.exec(RESIDUE, searchParams.get('part'), (Date.now() + LONGEST_TTL) * 1000)
      return new Response([...left.raw()].map(row => row.join(' ')).join('\n'))
    }
    if (pathname !== '/foreign') return super.fetch(request)
    sql.exec("INSERT OR REPLACE INTO records VALUES (?, 'carousel', '{}')", searchParams.get('key'))
    return new Response()
  }
}

export default {
  fetch: (request, { LOCKS }) => LOCKS.get(LOCKS.idFromName('locks')).fetch(request),
}
