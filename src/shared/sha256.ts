/**
 * SHA-256 (FIPS 180-4) of a text's UTF-8 bytes. Written out because the pure parts of the modes, which name kernel
 * objects by it, use no Node.js module.
 */
export function sha256(text: string): Uint8Array {
  const words = paddedWords(new TextEncoder().encode(text))
  const state = Uint32Array.from(INITIAL)
  const schedule = new Uint32Array(64)
  for (let block = 0; block < words.length; block += 16) {
    schedule.set(words.subarray(block, block + 16))
    compress(state, schedule)
  }
  const digest = new Uint8Array(32)
  const view = new DataView(digest.buffer)
  for (const [i, word] of state.entries()) view.setUint32(4 * i, word)
  return digest
}

/** RFC 4648 base 32 of the leading bits that fill `length` characters (at most 8 characters for 5 bytes). */
export function base32Prefix(bytes: Uint8Array, length: number): string {
  let text = ''
  for (let i = 0; i < length; i++) {
    const bit = i * 5
    const pair = (bytes[bit >> 3]! << 8) | (bytes[(bit >> 3) + 1] ?? 0)
    text += BASE32[(pair >> (11 - (bit & 7))) & 31]
  }
  return text
}

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** The message, a one bit, zeros and the length in bits, as big-endian words; a multiple of 16 of them. */
function paddedWords(message: Uint8Array): Uint32Array {
  const blocks = Math.ceil((message.length + 9) / 64)
  const bytes = new Uint8Array(blocks * 64)
  bytes.set(message)
  bytes[message.length] = 0x80
  const view = new DataView(bytes.buffer)
  view.setUint32(bytes.length - 8, Math.floor(message.length / 2 ** 29))
  view.setUint32(bytes.length - 4, (message.length << 3) >>> 0)
  return Uint32Array.from({ length: blocks * 16 }, (_, i) => view.getUint32(4 * i))
}

function compress(state: Uint32Array, schedule: Uint32Array): void {
  for (let i = 16; i < 64; i++) {
    const [w15, w2] = [schedule[i - 15]!, schedule[i - 2]!]
    const s0 = rotate(w15, 7) ^ rotate(w15, 18) ^ (w15 >>> 3)
    const s1 = rotate(w2, 17) ^ rotate(w2, 19) ^ (w2 >>> 10)
    schedule[i] = schedule[i - 16]! + s0 + schedule[i - 7]! + s1
  }
  let [a, b, c, d, e, f, g, h] = [...state] as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ]
  for (let i = 0; i < 64; i++) {
    const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + ROUND[i]! + schedule[i]!) | 0
    const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0
    ;[h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0]
  }
  for (const [i, word] of [a, b, c, d, e, f, g, h].entries()) state[i] = state[i]! + word
}

const rotate = (word: number, bits: number): number => (word >>> bits) | (word << (32 - bits))

/** Fractional parts of the square roots of the first 8 primes (FIPS 180-4, 5.3.3). */
const INITIAL: readonly number[] = firstPrimes(8).map((prime) => fraction(prime, 2))
/** Fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2). */
const ROUND: readonly number[] = firstPrimes(64).map((prime) => fraction(prime, 3))

function firstPrimes(count: number): number[] {
  const primes: number[] = []
  for (let n = 2; primes.length < count; n++) if (primes.every((prime) => n % prime !== 0)) primes.push(n)
  return primes
}

/** The first 32 bits of the fractional part of a root: the integer root of `n · 2^(32·degree)`, modulo 2^32. */
function fraction(n: number, degree: 2 | 3): number {
  const target = BigInt(n) << BigInt(32 * degree)
  let root = 0n
  for (let bit = 1n << 40n; bit > 0n; bit >>= 1n) {
    const candidate = root | bit
    if (candidate ** BigInt(degree) <= target) root = candidate
  }
  return Number(root & 0xffffffffn)
}
