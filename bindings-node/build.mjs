// Writes what `import` gets: the names of `dist/index.js`. One copy of the library, whoever loads it: a lock's error is the same class for
// `import` and for `require`. Named one by one, since bundlers do not look what a module that is not theirs exports.

import { readFileSync, writeFileSync } from 'node:fs'

const file = name => new URL(`dist/${name}`, import.meta.url)
const exported = /^(?:Object\.defineProperty\(exports, "(?!__)|exports\.)(\w+)(?:"| = (?!exports))/gm
const names = Array.from(readFileSync(file('index.js'), 'utf8').matchAll(exported), ([, name]) => name)
writeFileSync(file('index.mjs'), `export { ${names.sort().join(', ')} } from './index.js'\n`)
writeFileSync(file('index.d.mts'), "export * from './index.js'\n")
