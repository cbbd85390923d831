import type { Logger } from '../shared/logger.ts'

/** What this folder needs of a logger. */
export type Log = Pick<Logger, 'info' | 'warning' | 'error'>

/** For callers that report through their return value alone. */
export const silentLog: Log = { info() {}, warning() {}, error() {} }
