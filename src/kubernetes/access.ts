/** Where an API server is, how it is trusted and who we are there: plain data, read from a kubeconfig or from the pod. */
export interface ClusterAccess {
  /** `http(s)://host[:port][/prefix]`, no slash at the end. */
  readonly server: string
  /** Where this comes from, for messages: `/etc/kubernetes/proxy.conf (context "default")`. */
  readonly source: string
  readonly tls: TlsAccess
  /** `http://` or `https://` forward proxy named by the kubeconfig; null means the environment decides. */
  readonly proxyUrl: string | null
  readonly user: UserAccess
}

export interface TlsAccess {
  /** Certificates of the authority; null means those the machine trusts. */
  readonly authority: Pem | null
  readonly insecureSkipVerify: boolean
  /** Name to ask for and to check the certificate against; null means the host of `server`. */
  readonly serverName: string | null
}

/** PEM text itself, or a file that is read again when it changes. */
export type Pem =
  { readonly kind: 'data'; readonly text: string } | { readonly kind: 'file'; readonly path: string }

export interface UserAccess {
  /** For messages: `user "kube-proxy"`, `the service account of this pod`. */
  readonly description: string
  readonly certificate: { readonly certificate: Pem; readonly key: Pem } | null
  readonly token: string | null
  /** Wins over `token` once it could be read. */
  readonly tokenFile: string | null
  readonly basic: { readonly username: string; readonly password: string } | null
  readonly exec: ExecAccess | null
  readonly impersonate: {
    readonly user: string
    readonly uid: string | null
    readonly groups: readonly string[]
  } | null
}

export type ExecApiVersion = 'client.authentication.k8s.io/v1' | 'client.authentication.k8s.io/v1beta1'

/** A program that prints credentials: https://kubernetes.io/docs/reference/config-api/client-authentication.v1/ */
export interface ExecAccess {
  readonly apiVersion: ExecApiVersion
  readonly command: string
  readonly args: readonly string[]
  readonly env: readonly { readonly name: string; readonly value: string }[]
  /** Shown when the program is not there; empty for none. */
  readonly installHint: string
  readonly provideClusterInfo: boolean
  /** `spec.cluster.config`: the cluster's extension named `client.authentication.k8s.io/exec`. */
  readonly clusterConfig: unknown
}

/** An access with nothing but a server: what `--master` alone gives. */
export function anonymousAccess(server: string, source: string): ClusterAccess {
  return {
    server,
    source,
    tls: { authority: null, insecureSkipVerify: false, serverName: null },
    proxyUrl: null,
    user: anonymousUser('nobody (no credentials are configured)'),
  }
}

export function anonymousUser(description: string): UserAccess {
  return {
    description,
    certificate: null,
    token: null,
    tokenFile: null,
    basic: null,
    exec: null,
    impersonate: null,
  }
}
