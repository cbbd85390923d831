import { testSysctlPort } from './contract.ts'
import { openMemorySysctl } from './memory.ts'

testSysctlPort('memory', () => openMemorySysctl())
