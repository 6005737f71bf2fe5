// The protocol of bench/README.md for contenders written in JavaScript.
//
// Only what is used is loaded, and where it is used: a cold start is measured too.
'use strict'

exports.COMPARE_AND_DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"

/** The version of an npm package that bench/package.json names. */
exports.npm = name => ({ [`${name} (npm)`]: JSON.parse(require('node:fs').readFileSync(`${__dirname}/../../node_modules/${name}/package.json`)).version })

/**
 * What one contender is called and takes part in, and how it is used. `connect(url)` returns its client, `task(client, key)`
 * what acquires and what releases the lock `key`, for one task, and `disconnect(client)` ends it.
 *
 * @typedef {{ name: string, role?: string, rows: string[], requests?: string[], versions?: object, absent?: () => string?,
 *   connect: Function, task: Function, disconnect: Function, cold?: Function, hold?: Function }} Contender
 */

const nanoseconds = () => Number(process.hrtime.bigint())

async function pairs([acquire, release], count) {
  const took = []
  for (let i = 0; i < count; i++) {
    const began = process.hrtime.bigint()
    const held = await acquire()
    await release(held)
    took.push(Number(process.hrtime.bigint() - began))
  }
  return took
}

async function contend([acquire, release], tally, stopped) {
  while (!stopped()) {
    const began = nanoseconds()
    const held = await acquire()
    tally.ns.push(nanoseconds() - began)
    if (!stopped()) tally.acquired++
    await release(held)
  }
}

const say = line => process.stdout.write(`${typeof line === 'string' ? line : JSON.stringify(line)}\n`)

/** Does what stdin says until it ends. */
async function work(contender, url) {
  const client = await contender.connect(url)
  const free = await contender.task(client, 'bench:free')
  const lines = require('node:readline').createInterface({ input: process.stdin })[Symbol.asyncIterator]()
  const expect = async wanted => {
    const { value } = await lines.next()
    if (value !== wanted) throw new Error(`was told ${value} in place of ${wanted}`)
  }
  say('ready')
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    const [command, count, which] = line.value.split(' ')
    if (command === 'pairs') {
      say(await pairs(free, Number(count)))
      continue
    }
    if (command !== 'crowd') throw new Error(`was told ${line.value}`)
    const names = Array.from({ length: Number(count) }, (_, task) => (which === 'own' ? `bench:${process.pid}:${task}` : 'bench:one'))
    const tasks = await Promise.all(names.map(name => contender.task(client, name)))
    const tallies = names.map(() => ({ acquired: 0, ns: [] }))
    let over = false
    await pairs(free, 1)
    say('ready')
    await expect('go')
    const contest = Promise.all(tasks.map((task, at) => contend(task, tallies[at], () => over)))
    await expect('stop')
    over = true
    await contest
    say(tallies)
  }
  await contender.disconnect(client)
}

async function cold(contender, url) {
  if (contender.cold) return contender.cold(url)
  const client = await contender.connect(url)
  const [acquire, release] = await contender.task(client, 'bench:cold')
  const held = await acquire()
  say('held')
  await release(held)
  await contender.disconnect(client)
}

function offer({ name, role = 'peer', rows, requests = [], versions, absent }) {
  const why = absent?.() ?? null
  const known = why === null && versions ? versions() : {}
  return { name, language: 'Node', role, rows, requests, versions: { Node: process.versions.node, ...known }, absent: why }
}

/** Runs the program of these contenders. */
exports.main = (...contenders) => {
  const [verb, name, url, ...numbers] = process.argv.slice(2)
  if (verb === 'list') return contenders.forEach(contender => say(offer(contender)))
  const chosen = contenders.find(contender => contender.name === name)
  if (verb === 'hold') return chosen.hold(url, ...numbers.map(Number))
  void { work, cold }[verb](chosen, url)
}
