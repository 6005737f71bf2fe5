import { checked, mistake } from './errors'
import { native } from './native'
import { callable, shown } from './options'
import { reactor } from './reactor'
import { soon } from './time'

/** How much an event matters. */
export type LogLevel = 'error' | 'warn' | 'info' | 'debug' | 'trace'

const LEVELS: readonly LogLevel[] = ['error', 'warn', 'info', 'debug', 'trace']

/** Something that happened; `docs/observability.md` lists them. */
export interface LogEvent {
  /** When, by the host's clock. */
  readonly at: Date
  readonly level: LogLevel
  /** What kind it is, such as `lockwright::lost`. */
  readonly target: string
  /** A sentence for a person. */
  readonly message: string
  /** What it concerns. Times are seconds. */
  readonly fields: Readonly<Record<string, string | number | boolean>>
  /** How many events before this one found no room and are lost. */
  readonly missed: number
}

let listener: (event: LogEvent) => void = warn

/**
 * Has `listen` called in this thread for each event of `level` and above, whichever thread of the process it happened in. While any
 * thread listens, `process.emitWarning` is not called any more for lost locks and outages; `off` is to listen to nothing. It ends with
 * the thread. Every thread, and every copy of the library in `node_modules`, has a level and a listener of its own.
 */
export function onEvent(level: LogLevel | 'off', listen: (event: LogEvent) => void = warn): void {
  const number = level === 'off' ? LEVELS.length : LEVELS.indexOf(level)
  if (number < 0) throw mistake('invalid_config', 'listen', `there is no level ${shown(level)}; there are: ${LEVELS.join(', ')}, off`)
  callable('listen', 'listener', listen)
  listener = listen
  checked(native.listen(reactor(), number))
}

/** An event as the native layer tells it. */
export interface Heard extends Omit<LogEvent, 'at' | 'level'> {
  readonly at: number
  readonly level: number
}

export function tell(heard: Heard): void {
  const level = LEVELS[heard.level] ?? 'trace'
  const listen = listener
  // Not here: what it throws must not keep others from being told.
  soon(() => listen({ ...heard, at: new Date(heard.at), level }))
}

function warn({ target, message, fields }: LogEvent): void {
  const detail = Object.entries(fields).map(([name, value]) => `${name}=${JSON.stringify(value)}`)
  const text = `${message} ${detail.join(' ')}`.trim()
  process.emitWarning(text, { type: 'LockwrightWarning', code: target })
}
