import { makeNamespace } from '../test-namespace.ts'
import { testLinkPort } from './contract.ts'
import { openLink } from './linux.ts'

let count = 0

testLinkPort('Linux', async () => {
  const namespace = makeNamespace(`link${++count}`)
  return {
    port: await openLink({ netns: namespace.path }),
    add(link, address) {
      // One end of a pair: dummy interfaces are not in every kernel.
      namespace.run(['ip', 'link', 'add', link, 'type', 'veth', 'peer', 'name', `${link}-peer`])
      namespace.run(['ip', 'link', 'set', link, 'up'])
      namespace.run(['ip', 'address', 'add', address, 'dev', link])
    },
    remove: (link) => void namespace.run(['ip', 'link', 'delete', link]),
    close: async () => namespace.close(),
  }
})
