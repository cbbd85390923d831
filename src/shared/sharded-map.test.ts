import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ShardedMap } from './sharded-map.ts'

const key = fc.integer({ min: 0, max: 30 }).map((n) => `ns/svc-${n}`)
const edits = fc.array(
  fc.record({ key, value: fc.option(fc.integer({ min: 0, max: 3 }), { nil: undefined }) }),
  { maxLength: 40 },
)

function applyEdits(
  map: ShardedMap<number>,
  steps: { key: string; value: number | undefined }[],
): ShardedMap<number> {
  return map.edit((draft) => {
    for (const step of steps) {
      if (step.value === undefined) draft.delete(step.key)
      else draft.set(step.key, step.value)
    }
  })
}

test('behaves like a Map, leaves the map it was made from alone, and reports exactly the differences', () => {
  fc.assert(
    fc.property(edits, edits, (first, second) => {
      const before = applyEdits(ShardedMap.empty(), first)
      const frozen = JSON.stringify(before)
      const after = applyEdits(before, second)
      const model = new Map(before)
      for (const { key: name, value } of second) {
        if (value === undefined) model.delete(name)
        else model.set(name, value)
      }
      expect(new Map(after)).toEqual(model)
      expect(after.size).toBe(model.size)
      expect(JSON.stringify(before)).toBe(frozen)
      const changes = [...after.changesSince(before)]
      const keys = new Set([...before.keys(), ...model.keys()])
      const expected = [...keys].filter((name) => before.get(name) !== model.get(name))
      expect(changes.map((change) => change.key).sort()).toEqual(expected.sort())
      for (const change of changes) {
        expect([change.before, change.after]).toEqual([before.get(change.key), after.get(change.key)])
      }
    }),
  )
})

test('an edit that changes nothing gives the same map', () => {
  const map = ShardedMap.from([['a', 1]])
  expect(map.edit((draft) => draft.set('a', 1))).toBe(map)
  expect(map.edit((draft) => draft.delete('b'))).toBe(map)
})

test('prints as an object with sorted keys', () => {
  expect(
    JSON.stringify(
      ShardedMap.from([
        ['b', 2],
        ['a', 1],
      ]),
    ),
  ).toBe('{"a":1,"b":2}')
})
