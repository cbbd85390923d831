import { expect, test } from 'vitest'
import { UnsupportedError, UsageError } from '../shared/errors.ts'
import { modeByName, MODES } from './registry.ts'

test('every mode is found by its own name', () => {
  for (const [name, mode] of Object.entries(MODES)) {
    expect(modeByName(name)).toBe(mode)
    expect(mode.name).toBe(name)
  }
})

test('a mode that cannot run is refused and never replaced by another', () => {
  expect(() => modeByName('ipvs')).toThrow(UnsupportedError)
  expect(() => modeByName('ipvs')).toThrow('Proxy mode ipvs is not possible here')
  expect(() => modeByName('kernelspace')).toThrow('Proxy mode ebpf')
})

test('a misspelt name is answered with the one that was probably meant', () => {
  expect(() => modeByName('nftable')).toThrow(UsageError)
  expect(() => modeByName('nftable')).toThrow('did you mean "nftables"?')
  expect(() => modeByName('constructor')).toThrow(UsageError)
})
