/** What a command may talk to: data goes to stdout, people are spoken to on stderr. */
export interface Io {
  readonly stdout: NodeJS.WritableStream
  readonly stderr: NodeJS.WritableStream
  readonly env: NodeJS.ProcessEnv
}

/** A command's module: takes the arguments after its name, gives the exit status (0 ok, 1 failed, 2 usage, 3 unsupported). */
export interface CommandModule {
  run(argv: readonly string[], io: Io): Promise<number>
}
