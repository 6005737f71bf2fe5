declare module 'cloudflare:sockets' {
  interface Socket {
    readonly opened: Promise<unknown>
    readonly readable: ReadableStream<Uint8Array>
    readonly writable: WritableStream<Uint8Array>
    close(): Promise<void>
  }
  export function connect(address: { hostname: string; port: number }, options: { allowHalfOpen: boolean }): Socket
}

declare module '*.wasm' {
  const module: WebAssembly.Module
  export default module
}
