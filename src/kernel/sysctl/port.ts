/** Kernel parameters of one network namespace, by their dotted or slashed name (`net/ipv4/ip_forward`). */
export interface SysctlPort {
  /** The value without trailing newline; null if this kernel has no such parameter. */
  read(name: string): Promise<string | null>
  /** Rejects with a KernelError: EROFS on a read-only /proc/sys, ENOENT if there is no such parameter. */
  write(name: string, value: string): Promise<void>
}
