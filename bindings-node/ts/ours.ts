/** @internal What constructors of this library ask for, and nobody else has. */
export const OURS = Symbol('lockwright')

/** @internal Refuses whoever calls the constructor of a class that only this library makes; `from` says where to get one. */
export function only(ours: unknown, what: string, from: string): void {
  if (ours === OURS) return
  const error = new TypeError(`a ${what} is not made by new ${what}(): it comes from ${from}`)
  throw Object.assign(error, { code: 'ERR_ILLEGAL_CONSTRUCTOR' })
}
