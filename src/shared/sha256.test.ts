import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { base32Prefix, sha256 } from './sha256.ts'

test('digests equal those of OpenSSL for every length around the block size', () => {
  for (let length = 0; length <= 130; length++) {
    const text = 'aé€'.repeat(length).slice(0, length)
    expect(Buffer.from(sha256(text)).toString('hex')).toBe(createHash('sha256').update(text).digest('hex'))
  }
})

test('base 32 takes five bits a character from the front', () => {
  expect(base32Prefix(new TextEncoder().encode('fooba'), 8)).toBe('MZXW6YTB')
  expect(base32Prefix(new TextEncoder().encode('foobar'), 8)).toBe('MZXW6YTB')
})
