import { type LockError, mistake } from './errors'
import { HERE, nothingFits, VERSION } from './platforms'

type Api = Record<string, unknown>

/**
 * What `load` gives, which has these `names`. Where no native library is made for this platform it is `lockwright-wasm` of the same version, if that
 * is installed, and the process is warned once.
 */
export function orWebAssembly(load: () => Api, names: readonly string[]): Api {
  try {
    return load()
  } catch (error) {
    if (!nothingFits(error)) throw error
    const wasm = webAssembly(error)
    process.emitWarning(
      `lockwright has no native library for ${HERE}, and uses lockwright-wasm: it has fewer stores, and the event loop renews, which must not be blocked`,
      'LockwrightWarning',
    )
    return Object.fromEntries(names.map(name => [name, wasm[name] ?? missing(name)]))
  }
}

/** @throws `why` where it is not installed. */
function webAssembly(why: LockError): Api {
  let found: string
  try {
    found = (require('lockwright-wasm/package.json') as { version: string }).version
  } catch {
    throw why
  }
  if (found !== VERSION) throw mistake('unsupported', 'load', `lockwright-wasm is version ${found}, and this is ${VERSION}; install the same of both`)
  try {
    return require('lockwright-wasm') as Api
  } catch (error) {
    throw mistake('unsupported', 'load', `lockwright-wasm cannot be loaded, which takes Node 20.19 or later: ${(error as Error).message}`)
  }
}

/** Stands for what the other package has not: it can be imported, and no more. */
function missing(name: string): unknown {
  const refuse = () => {
    throw mistake('unsupported', name, `lockwright-wasm has no ${name}, and no native library of lockwright fits ${HERE}`)
  }
  return new Proxy(class {}, {
    apply: refuse,
    construct: refuse,
    // Whoever asks whether something is one of these, or prints it, may.
    get: (target, key) => (typeof key === 'symbol' || key === 'prototype' || key === 'name' ? Reflect.get(target, key) : refuse()),
  })
}
