// Copies of the model's state, so that a batch can be tried in another order.
import type { Both } from './actions.js';

/** The state of models at a time. */
export class Snapshot {
  readonly #limiters: readonly Both[];
  readonly #states: readonly object[];

  constructor(limiters: readonly Both[]) {
    this.#limiters = limiters;
    this.#states = clone(limiters.map(({ model, decisions }) => ({ ...model, decisions })));
  }

  /** Makes the models as they were. May be called several times. */
  restore(): void {
    const states = clone(this.#states) as { decisions: Both['decisions'] }[];
    for (const [i, { model, decisions: ours }] of this.#limiters.entries()) {
      const { decisions, ...fields } = states[i]!;
      Object.assign(model, fields);
      ours.splice(0, ours.length, ...decisions);
    }
  }
}

/** A copy of all objects that a value leads to, with their prototypes, except the decisions of the package. */
function clone<T>(value: T, copies = new Map<unknown, unknown>()): T {
  if (typeof value !== 'object' || value === null) return value;
  const known = copies.get(value);
  if (known) return known as T;
  const copy: unknown =
    value instanceof Map
      ? new Map()
      : Array.isArray(value)
        ? []
        : Object.create(Object.getPrototypeOf(value) as object);
  copies.set(value, copy);
  if (value instanceof Map)
    for (const [key, each] of value)
      (copy as Map<unknown, unknown>).set(clone(key, copies), clone(each, copies));
  else
    for (const [name, each] of Object.entries(value))
      (copy as Record<string, unknown>)[name] = name === 'real' ? each : clone(each, copies);
  return copy as T;
}

/** All orders of a list, the given one first. */
export function* orders<T>(list: readonly T[]): Generator<readonly T[]> {
  if (list.length < 2) yield list;
  else
    for (const [i, first] of list.entries())
      for (const rest of orders(list.toSpliced(i, 1))) yield [first, ...rest];
}
