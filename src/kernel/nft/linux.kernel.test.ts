import { makeNamespace } from '../test-namespace.ts'
import { testNftPort } from './contract.ts'
import { openNft } from './linux.ts'

let count = 0

testNftPort('Linux', async () => {
  const namespace = makeNamespace(`nft${++count}`)
  return { open: () => openNft({ netns: namespace.path }), close: async () => namespace.close() }
})
