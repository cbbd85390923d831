/**
 * The path below /proc/sys of a parameter. In the dotted form every dot separates, so a name that has a dot in an
 * interface's name must be given in the slashed form (`net/ipv4/conf/eth0.5/rp_filter`).
 */
export function sysctlPath(name: string): string {
  const path = name.includes('/') ? name : name.replaceAll('.', '/')
  if (path === '' || path.split('/').some((part) => part === '' || part === '.' || part === '..')) {
    throw new TypeError(`not the name of a kernel parameter: ${name}`)
  }
  return path
}
