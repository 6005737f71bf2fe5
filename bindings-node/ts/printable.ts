/** @internal The same value, in which `JSON.stringify` takes every record, also by itself: it knows no bigint, and gets texts. */
export function printable<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value
  for (const part of Object.values(value)) printable(part)
  return Array.isArray(value) ? value : Object.defineProperty(value, 'toJSON', { value: () => texts(value) })
}

function texts(record: object): object {
  return Object.fromEntries(Object.entries(record).map(([name, part]) => [name, typeof part === 'bigint' ? String(part) : part]))
}
