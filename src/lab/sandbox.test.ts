import { expect, test } from 'vitest'
import { explainRefusal } from './sandbox.ts'

const kernel =
  (values: Readonly<Record<string, string>>) =>
  (name: string): string | null =>
    values[name] ?? null

test.each([
  [{ 'user/max_user_namespaces': '0' }, 'user.max_user_namespaces'],
  [{ 'kernel/unprivileged_userns_clone': '0' }, 'kernel.unprivileged_userns_clone'],
  [{ 'kernel/apparmor_restrict_unprivileged_userns': '1' }, 'kernel.apparmor_restrict_unprivileged_userns'],
])('a refusal to an ordinary user names the parameter that forbids it: %j', (values, name) => {
  const error = explainRefusal(false, 'unshare: unshare failed: Operation not permitted', kernel(values))
  expect(error).toMatchObject({ code: 'LAB_SANDBOX', needs: expect.stringContaining(name) as string })
  expect(error.fix).toContain(`sysctl -w ${name}`)
  expect(error.message).toContain('Operation not permitted')
})

test('parameters that allow namespaces are not blamed', () => {
  const allowed = kernel({
    'user/max_user_namespaces': '96364',
    'kernel/unprivileged_userns_clone': '1',
    'kernel/apparmor_restrict_unprivileged_userns': '0',
  })
  expect(explainRefusal(false, 'mount: permission denied', allowed).fix).toContain('--privileged')
  expect(explainRefusal(true, 'unshare failed', allowed).needs).toContain('CAP_SYS_ADMIN')
})

test('a missing program leads to its package', () => {
  expect(explainRefusal(false, 'spawn unshare ENOENT', () => null).fix).toContain('util-linux')
})
