/** Waits for a condition, looking every few milliseconds; fails with `what` after `timeoutMs`. */
export async function waitUntil(what: string, condition: () => boolean, timeoutMs = 4000): Promise<void> {
  const end = performance.now() + timeoutMs
  while (!condition()) {
    if (performance.now() > end) throw new Error(`not within ${timeoutMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
