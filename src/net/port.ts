import type { Branded } from './brand.ts'

/** A transport port number, 1–65535. */
export type Port = Branded<number, 'Port'>

/** Returns the port, or null if the number is not a whole number from 1 to 65535. */
export function toPort(value: number): Port | null {
  return Number.isInteger(value) && value >= 1 && value <= 65535 ? (value as Port) : null
}
