import type { ConntrackPort, Flow } from './port.ts'

/** A connection tracking table in memory. */
export interface MemoryConntrack extends ConntrackPort {
  /** Tracks a flow as if its first packet had passed; the table gives it its id. */
  add(flow: Omit<Flow, 'id'>): Flow
}

export function openMemoryConntrack(max = 262_144): MemoryConntrack {
  const flows = new Map<number, Flow>()
  let lastId = 0
  return {
    add(flow) {
      const tracked = { ...flow, id: ++lastId }
      flows.set(tracked.id, tracked)
      return tracked
    },
    list: async (family, protocol) =>
      [...flows.values()].filter((flow) => flow.family === family && flow.protocol === protocol),
    delete: async (flow) => sameTuple(flows.get(flow.id), flow) && flows.delete(flow.id),
    usage: async () => ({ count: flows.size, max }),
    [Symbol.asyncDispose]: async () => undefined,
  }
}

function sameTuple(tracked: Flow | undefined, flow: Flow): boolean {
  return (
    tracked !== undefined &&
    tracked.family === flow.family &&
    tracked.protocol === flow.protocol &&
    tracked.zone === flow.zone &&
    JSON.stringify(tracked.original) === JSON.stringify(flow.original)
  )
}
