import { defineConfig } from 'vitest/config'

const KERNEL = ['{src,test}/**/*.kernel.test.ts']
const LAB = ['{src,test}/**/*.lab.test.ts']
const GUEST = ['{src,test}/**/*.guest.test.ts']

/** One project per test tier (docs/architecture.md): what a tier needs decides how it runs. */
export default defineConfig({
  test: {
    pool: 'forks',
    projects: [
      {
        test: {
          name: 'unit',
          pool: 'forks',
          include: ['{src,test}/**/*.test.ts'],
          exclude: [...KERNEL, ...LAB, ...GUEST],
        },
      },
      {
        test: {
          name: 'kernel',
          pool: 'forks',
          include: KERNEL,
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'lab',
          pool: 'forks',
          include: LAB,
          fileParallelism: false,
          testTimeout: 180_000,
          hookTimeout: 180_000,
        },
      },
    ],
  },
})
