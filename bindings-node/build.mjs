// Writes what `require` and `import` get: the names of `dist/api.js`. One copy of the library, whoever loads it: a lock's error is the same class
// for `import` and for `require`. Named one by one, since neither bundlers nor Node look what a module exports that only runs.

import { readFileSync, writeFileSync } from 'node:fs'

const file = name => new URL(`dist/${name}`, import.meta.url)
const exported = /^(?:Object\.defineProperty\(exports, "(?!__)|exports\.)(\w+)(?:"| = (?!exports))/gm
const names = Array.from(readFileSync(file('api.js'), 'utf8').matchAll(exported), ([, name]) => name).sort()
const listed = names.join(', ')
writeFileSync(file('index.js'), `'use strict'
module.exports = require('./fallback').orWebAssembly(() => require('./api'), [${names.map(name => `'${name}'`).join(', ')}])
// Read, and never done:
0 && (module.exports = { ${listed} })
`)
writeFileSync(file('index.mjs'), `export { ${listed} } from './index.js'\n`)
writeFileSync(file('index.d.mts'), "export * from './index.js'\n")
