import { testNftPort } from './contract.ts'
import { MemoryNftNamespace } from './memory.ts'

testNftPort('memory', async () => {
  const namespace = new MemoryNftNamespace()
  return { open: async () => namespace.open(), close: async () => undefined }
})
