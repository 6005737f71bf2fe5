import { LockError } from './errors'

/** A native library as a package gives it, or what came of asking. */
export type Loaded = { readonly native: unknown } | { readonly error: unknown }

/**
 * The packages that are built and published, each for one platform: npm installs the one that fits. Each is asked for by a text of its
 * own, and within a `try`, so that bundlers find what is installed and do not miss the others.
 */
export const PLATFORMS: Record<string, () => Loaded> = {
  'linux-x64-gnu': () => {
    try {
      return { native: require('@lockwright/linux-x64-gnu') }
    } catch (error) {
      return { error }
    }
  },
  'linux-x64-musl': () => {
    try {
      return { native: require('@lockwright/linux-x64-musl') }
    } catch (error) {
      return { error }
    }
  },
}

/** The version of this package, which its native libraries have, too. */
export const VERSION = (require('../package.json') as { version: string }).version

/** This machine, but for its C library: which one that is, only loading tells. */
export const HERE = `${process.platform}-${process.arch}`

const NOTHING_FITS = Symbol('nothing fits')

/** The same error, which says that no native library is made for this platform. */
export const ofNothingThatFits = (error: LockError): LockError => Object.assign(error, { [NOTHING_FITS]: true })

/** Whether it is such a one. */
export const nothingFits = (error: unknown): error is LockError => error instanceof LockError && NOTHING_FITS in error
