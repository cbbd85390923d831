import type { ApiObject, Dict } from './json.ts'
import { dictOf, textOf } from './json.ts'

/** A stored core/v1 Event as events.k8s.io/v1 shows it: the same data under other names. */
export function eventToV1Events(event: ApiObject): ApiObject {
  const { kind, apiVersion: _, metadata, ...rest } = event
  const {
    involvedObject,
    message,
    source,
    firstTimestamp,
    lastTimestamp,
    count,
    reportingComponent,
    reportingInstance,
    ...same
  } = rest as Dict
  return {
    kind,
    apiVersion: 'events.k8s.io/v1',
    metadata,
    ...same,
    ...given('regarding', involvedObject),
    ...given('note', message),
    ...given('reportingController', reportingComponent),
    ...given('reportingInstance', reportingInstance),
    ...given('deprecatedSource', source),
    ...given('deprecatedFirstTimestamp', firstTimestamp),
    ...given('deprecatedLastTimestamp', lastTimestamp),
    ...given('deprecatedCount', count),
  } as ApiObject
}

/** The reverse of {@link eventToV1Events}. */
export function eventFromV1Events(event: ApiObject): ApiObject {
  const { kind, apiVersion: _, metadata, ...rest } = event
  const {
    regarding,
    note,
    reportingController,
    deprecatedSource,
    deprecatedFirstTimestamp,
    deprecatedLastTimestamp,
    deprecatedCount,
    ...same
  } = rest as Dict
  return {
    kind,
    apiVersion: 'v1',
    metadata,
    ...same,
    ...given('involvedObject', regarding ?? {}),
    ...given('message', note),
    ...given('reportingComponent', reportingController),
    ...given('source', deprecatedSource ?? {}),
    ...given('firstTimestamp', deprecatedFirstTimestamp ?? null),
    ...given('lastTimestamp', deprecatedLastTimestamp ?? null),
    ...given('count', deprecatedCount),
  } as ApiObject
}

/** When the event last happened, in whichever field its reporter used; empty if none. */
export function lastSeen(event: ApiObject): string {
  const series = dictOf(event['series'])
  return (
    textOf(series['lastObservedTime']) ||
    textOf(event['lastTimestamp']) ||
    textOf(event['eventTime']) ||
    textOf(event.metadata.creationTimestamp)
  )
}

function given(name: string, value: unknown): Dict {
  return value === undefined ? {} : { [name]: value }
}
