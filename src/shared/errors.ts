/** Options every error of the product takes: `cause` is the error beneath, kept for logs. */
export interface ErrorDetails {
  readonly cause?: unknown
}

/**
 * Base of every error a person may see. `code` is stable and documented in docs/errors.md; the message says what
 * failed, why, and what to do about it.
 */
export class ProxyError extends Error {
  readonly code: string

  constructor(code: string, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = new.target.name
    this.code = code
  }
}

/** One thing wrong in a configuration or an object file, and where. Line and column count from 1. */
export interface ConfigProblem {
  readonly file: string
  readonly line: number | null
  readonly column: number | null
  /** Path of the field, e.g. `nftables.syncPeriod`; empty for the document itself. */
  readonly path: string
  readonly message: string
}

/** Everything wrong with a configuration, all at once. */
export class ConfigError extends ProxyError {
  readonly problems: readonly ConfigProblem[]

  constructor(code: string, problems: readonly ConfigProblem[], details: ErrorDetails = {}) {
    super(code, problems.map(formatProblem).join('\n'), details)
    this.problems = problems
  }
}

/** `file:line:column: path: message`, leaving out what is not known. */
export function formatProblem(problem: ConfigProblem): string {
  const where = [problem.file, problem.line, problem.column].filter((part) => part !== null).join(':')
  return [where, problem.path, problem.message].filter((part) => part !== '').join(': ')
}

/** The kernel refused an operation. `errno` is positive (1 = EPERM); `extack` is the kernel's own words, if any. */
export class KernelError extends ProxyError {
  readonly operation: string
  readonly errno: number
  readonly errnoName: string
  readonly extack: string | null

  constructor(
    operation: string,
    errno: number,
    errnoName: string,
    message: string,
    options: ErrorDetails & { readonly extack?: string | null; readonly code?: string } = {},
  ) {
    super(options.code ?? 'KERNEL_REFUSED', message, options)
    this.operation = operation
    this.errno = errno
    this.errnoName = errnoName
    this.extack = options.extack ?? null
  }
}

/** A program that was run ended badly. */
export class CommandError extends ProxyError {
  readonly argv: readonly string[]
  readonly exitCode: number | null
  readonly stderr: string

  constructor(
    argv: readonly string[],
    exitCode: number | null,
    stderr: string,
    message: string,
    details: ErrorDetails = {},
  ) {
    super('COMMAND_FAILED', message, details)
    this.argv = argv
    this.exitCode = exitCode
    this.stderr = stderr
  }
}

/** This node (or this build) cannot do what was asked for; says what is missing and how to get it. Exit status 3. */
export class UnsupportedError extends ProxyError {
  readonly feature: string
  readonly needs: string
  readonly fix: string

  constructor(code: string, feature: string, needs: string, fix: string, details: ErrorDetails = {}) {
    super(code, `${feature} is not possible here: it needs ${needs}. ${fix}`, details)
    this.feature = feature
    this.needs = needs
    this.fix = fix
  }
}

/** Wrong arguments on the command line. Exit status 2. */
export class UsageError extends ProxyError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('USAGE', message, details)
  }
}
