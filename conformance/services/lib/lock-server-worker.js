// A Worker that lets everybody reach one lock server, and has it do what the scenarios ask of a server.
import { LockServer } from 'lockwright-wasm/lock-server'

// Records stay for a while. What must not is somebody in them.
const RESIDUE = `SELECT key, record FROM records WHERE instr(key, ?) > 0 AND kind IN ('lock', 'rwlock', 'semaphore')
  AND record NOT LIKE '%"hold":null%"waiting":[]%' AND record NOT LIKE '%"used":0,%"waiting":[]%'`

export class Locks extends LockServer {
  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url)
    const { sql } = this.ctx.storage
    if (pathname === '/residue') return new Response([...sql.exec(RESIDUE, searchParams.get('part')).raw()].map(row => row.join(' ')).join('\n'))
    if (pathname !== '/foreign') return super.fetch(request)
    sql.exec("INSERT OR REPLACE INTO records VALUES (?, 'carousel', '{}')", searchParams.get('key'))
    return new Response()
  }
}

export default {
  fetch: (request, { LOCKS }) => LOCKS.get(LOCKS.idFromName('locks')).fetch(request),
}
