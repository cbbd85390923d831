/** The IP family names that Kubernetes uses in `spec.ipFamilies`, metrics labels and logs. */
export type IpFamily = 'IPv4' | 'IPv6'

export const IP_FAMILIES: readonly IpFamily[] = ['IPv4', 'IPv6']
