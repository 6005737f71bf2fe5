// What no method can use.

import { test } from 'node:test'

import * as lockwright from '../dist/index.mjs'
import { client, inMemory } from './lib.mjs'
import { allRefused, nativeRows, rows } from './wrong_arguments.mjs'

test('what a method cannot use it refuses by name, at once, and leaves nothing', async t => {
  const here = await client(t, inMemory())
  await allRefused(here, lockwright, [...rows(here, lockwright), ...nativeRows(here, lockwright)])
})
