// Of all tabs that show this page, in whichever browsers and on whichever machines, one does a job. When it is closed, another takes over.
import { connect, rest } from 'lockwright-wasm'

const state = document.querySelector('#state')
const done = document.querySelector('#done')

// The gateway is the site's own, at /locks/pipeline, so that no other site is asked. It is by `rest` that the server is found; the address only has options.
const client = await connect('redis://gateway', { transport: rest(new URL('/locks', location.href).href) })

// A closed tab says nothing any more: its ttl is how long the others wait.
const election = client.election('digest', { ttl: '3s' })
await election.run('a tab', async (guard, signal) => {
  state.textContent = 'leads'
  // Leadership may be lost, such as while a machine sleeps: then `run` has this tab wait again.
  signal.addEventListener('abort', () => { state.textContent = 'waits' })
  while (!signal.aborted) {
    // The job. What it writes elsewhere goes with `guard.token`, so that a tab that slept cannot write over the work of the next one.
    done.textContent = String(Number(done.textContent) + 1)
    await new Promise(next => setTimeout(next, 1_000))
  }
})
