/** What a connection tells, in this order. */
export interface Events {
  /** It is made. */
  opened(): void
  /** These bytes came on it. They are read before this returns. */
  received(bytes: Uint8Array): void
  /** It ended, or could not be made: `code` as the system says, such as `ECONNREFUSED`; none where the other side ended it. Said once. */
  ended(code?: string, message?: string): void
}

/** One connection, made or on its way. */
export interface Connection {
  /** Sends these bytes after all before. */
  send(bytes: Uint8Array): void
  /** Ends it, or leaves off making it; nothing more is told of it. */
  end(): void
  /** Whether somebody waits for what may come on it: where nobody does it need not keep the program running. */
  keepAlive?(waited: boolean): void
}

/** Makes connections. */
export interface Transport {
  /** Whether what is pushed can come by them; else waiters ask again by a timer, and `fair` is refused. True unless it says false. */
  readonly pushes?: boolean | undefined
  connect(host: string, port: number, events: Events): Connection
}

/** @internal What an error says, which may be anything that was thrown. */
export function said(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** @internal Closes what may have ended by itself, and throws then, at once or later. */
export function closed(what: { close?(): unknown } | undefined): void {
  void (async () => what?.close?.())().catch(() => {})
}
