declare module 'cloudflare:sockets' {
  interface Socket {
    readonly opened: Promise<unknown>
    readonly readable: ReadableStream<Uint8Array>
    readonly writable: WritableStream<Uint8Array>
    close(): Promise<void>
  }
  export function connect(address: { hostname: string; port: number }, options: { allowHalfOpen: boolean }): Socket
}

declare module 'cloudflare:workers' {
  export class DurableObject {
    constructor(state: DurableObjectState, env: unknown)
    protected readonly ctx: DurableObjectState
    fetch(request: Request): Promise<Response>
    webSocketMessage(socket: ObjectSocket, message: ArrayBuffer | string): Promise<void>
    webSocketClose(socket: ObjectSocket): Promise<void>
    webSocketError(socket: ObjectSocket): Promise<void>
    alarm(): Promise<void>
  }
  /** A WebSocket that outlives the object's sleep. */
  interface ObjectSocket {
    send(bytes: Uint8Array): void
    close(code?: number, reason?: string): void
    serializeAttachment(value: unknown): void
    deserializeAttachment(): unknown
  }
  interface Rows {
    raw(): IterableIterator<string[]>
  }
  interface DurableObjectState {
    readonly storage: {
      readonly sql: { exec(statement: string, ...values: (string | number)[]): Rows }
      getAlarm(): Promise<number | null>
      setAlarm(at: number): Promise<void>
    }
    acceptWebSocket(socket: ObjectSocket): void
    abort(reason: string): void
    getWebSockets(): ObjectSocket[]
  }
}

declare const WebSocketPair: new () => Record<0 | 1, Parameters<import('cloudflare:workers').DurableObject['webSocketMessage']>[0]>

declare module '*.wasm' {
  const module: WebAssembly.Module
  export default module
}
