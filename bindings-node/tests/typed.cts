import lockwright = require('../dist/index.js')

export async function uses(): Promise<string> {
  const client = await lockwright.connect('memory://')
  return client.lock('x').using(guard => guard.name)
}
