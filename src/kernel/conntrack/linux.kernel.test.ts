import { makeNamespace } from '../test-namespace.ts'
import { testConntrackPort } from './contract.ts'
import { openConntrack } from './linux.ts'

let count = 0

testConntrackPort('Linux', async () => {
  const namespace = makeNamespace(`ct${++count}`)
  // Nothing is tracked until a rule asks for it; the answer "port unreachable" would be a flow of its own.
  namespace.run(
    ['nft', '-f', '-'],
    `table inet t {
       chain a { type filter hook output priority 0; ct state new accept; }
       chain b { type filter hook input priority 0; meta l4proto udp drop; ct state new accept; }
     }`,
  )
  return {
    port: await openConntrack({ netns: namespace.path }),
    send: async (family, port) => {
      const [kind, address] = family === 'IPv4' ? ['udp4', '127.0.0.1'] : ['udp6', '::1']
      const program = `const s = require('dgram').createSocket('${kind}'); s.send('x', ${port}, '${address}', () => s.close())`
      namespace.run([process.execPath, '-e', program])
    },
    close: async () => namespace.close(),
  }
})
