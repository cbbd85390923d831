import type * as Prom from 'prom-client'

/** Label values and the figure. */
export type Sample = readonly [labels: Readonly<Record<string, string>>, value: number]

/** Makes series in one registry. */
export class SeriesMaker {
  readonly #prom: typeof Prom
  readonly #registry: Prom.Registry

  constructor(prom: typeof Prom, registry: Prom.Registry) {
    this.#prom = prom
    this.#registry = registry
  }

  histogram<L extends string>(
    name: string,
    help: string,
    buckets: number[],
    labelNames: readonly L[],
  ): Prom.Histogram<L> {
    return new this.#prom.Histogram({ name, help, buckets, labelNames, registers: [this.#registry] })
  }

  counter<L extends string>(name: string, help: string, labelNames: readonly L[]): Prom.Counter<L> {
    return new this.#prom.Counter({ name, help, labelNames, registers: [this.#registry] })
  }

  gauge<L extends string>(name: string, help: string, labelNames: readonly L[]): Prom.Gauge<L> {
    return new this.#prom.Gauge({ name, help, labelNames, registers: [this.#registry] })
  }

  /** A gauge that is worked out when it is read. */
  live(name: string, help: string, labelNames: readonly string[], read: () => readonly Sample[]): void {
    const gauge = new this.#prom.Gauge({
      name,
      help,
      labelNames,
      registers: [],
      collect() {
        this.reset()
        for (const [labels, value] of read()) this.set({ ...labels }, value)
      },
    })
    this.#registry.registerMetric(gauge)
  }

  /** A counter whose count is kept elsewhere. */
  liveCounter(
    name: string,
    help: string,
    labelNames: readonly string[],
    read: () => readonly Sample[],
  ): void {
    const counter = new this.#prom.Counter({
      name,
      help,
      labelNames,
      registers: [],
      collect() {
        this.reset()
        for (const [labels, value] of read()) this.inc({ ...labels }, value)
      },
    })
    this.#registry.registerMetric(counter)
  }
}
