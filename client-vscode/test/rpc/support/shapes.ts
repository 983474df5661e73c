/** Compares a real answer with what src/core/protocol.ts says of it: each key that a type has, with its kind of value. */

import assert from "node:assert/strict";

type Kind = "string" | "number" | "boolean" | "array" | "object" | "null";
/** For each key of `T` the kinds of value that it may have; the compiler sees to it that none is left out. */
export type Shape<T> = { readonly [K in keyof Required<T>]: string };

/** Each key of `shape` is there with a value of one of its kinds (`"string|null"`), and no other key is. */
export function assertShape<T>(answer: unknown, shape: Shape<T>, name: string): void {
  assert.equal(kindOf(answer), "object", name);
  const given = answer as Record<string, unknown>;
  assert.deepEqual(Object.keys(given).sort(), Object.keys(shape).sort(), `the keys of ${name}`);
  for (const [key, kinds] of Object.entries<string>(shape)) {
    assert.ok(kinds.split("|").includes(kindOf(given[key])), `${name}.${key} is ${kindOf(given[key])}, not ${kinds}`);
  }
}

function kindOf(value: unknown): Kind {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value as Kind;
}
