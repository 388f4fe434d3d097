import { createHash } from 'node:crypto';
import { areNumbers, type Saved } from '../algorithms/algorithm.js';

/** Up to the first count, histories are kept even if they are out of date. Beyond the second count, the oldest are removed. */
const MAX_EXPIRED_HISTORIES = 1000;
const MAX_HISTORIES = 100_000;

/** The most steps at which the shifts of a key's charges differ. */
const MAX_CELLS = 32;

/** The charges up to a step, back to the previous cell, have moved forward by an amount, in ticks of the bucket. */
type Cell = [upTo: number, amount: number];

/** A charge that was returned to a bucket. The return moves forward all charges between these two steps. */
export interface Shift {
  /** The step of the returned charge, and the step of the return. */
  readonly from: number;
  readonly to: number;
  /** The amount in ticks of the bucket. */
  readonly amount: number;
}

/** The changes to a policy's charges on a key. */
export class History {
  #reset = 0;
  /** The amounts by which charges have moved forward, in the order of their steps. Later charges have not moved. */
  #cells: Cell[] = [];
  /** The time from which the history is no longer needed. */
  until = 0;

  /** Whether the key was reset since a charge of this step. */
  isReset(step: number): boolean {
    return this.#reset >= step;
  }

  /** The ticks by which a charge of this step has moved forward, or slightly more. */
  shift(step: number): number {
    return this.#cells.find(([upTo]) => step <= upTo)?.[1] ?? 0;
  }

  /** @param step the store's step, at least the step of any earlier charge */
  reset(step: number): void {
    this.#reset = step;
    this.#cells = [];
  }

  note({ from, to, amount }: Shift): void {
    const cells = this.#cells;
    this.#split(from - 1);
    this.#split(to);
    for (const cell of cells) if (cell[0] >= from) cell[1] += amount;
    // Beyond the limit, the two neighbours that differ least are merged. The merge moves charges too far rather than not far enough, so
    // that a return never exceeds the charge.
    while (cells.length > MAX_CELLS) {
      const difference = (i: number): number => Math.abs(cells[i]![1] - cells[i + 1]![1]);
      let least = 0;
      for (let i = 1; i < cells.length - 1; i++) if (difference(i) < difference(least)) least = i;
      const [[, moved]] = cells.splice(least, 1) as [Cell];
      cells[least]![1] = Math.max(cells[least]![1], moved);
    }
  }

  /** Splits a cell so that one ends at a step. */
  #split(step: number): void {
    const cells = this.#cells;
    const at = cells.findIndex(([upTo]) => upTo >= step);
    if (at < 0) cells.push([step, 0]);
    else if (cells[at]![0] > step) cells.splice(at, 0, [step, cells[at]![1]]);
  }

  /** The history in the form of a saved state. */
  save(): Saved {
    return [this.#reset, ...this.#cells.flat()];
  }

  load(saved: Saved): void {
    if (saved.length % 2 !== 1 || !areNumbers(saved)) return;
    this.#reset = saved[0]!;
    for (let i = 1; i < saved.length; i += 2) this.#cells.push([saved[i]!, saved[i + 1]!]);
  }
}

/**
 * The data of a key that the return of a charge needs, per policy and as long as a charge counts. Charges from before a reset are gone. A
 * bucket drains a charge earlier if an earlier charge was returned. On Redis, the keys are those of `KeyMaker.policies`.
 */
export interface Histories {
  find(policy: string, key: string): History | undefined;
  /** The history to write to now. @param life the time for which a charge counts, ms */
  open(policy: string, key: string, now: number, life: number): History;
}

/** The histories of all keys of a memory store's table. */
export class TableHistories implements Histories {
  readonly #histories = new Map<string, History>();

  find(policy: string, key: string): History | undefined {
    return this.#histories.size === 0 ? undefined : this.#histories.get(stateName(policy, key));
  }

  open(policy: string, key: string, now: number, life: number): History {
    const name = stateName(policy, key);
    const history = this.#histories.get(name) ?? new History();
    history.until = now + life;
    this.#histories.delete(name);
    this.#histories.set(name, history);
    for (const [oldest, { until }] of this.#histories) {
      if (this.#histories.size <= (until > now ? MAX_HISTORIES : MAX_EXPIRED_HISTORIES)) break;
      this.#histories.delete(oldest);
    }
    return history;
  }
}

/** Longer keys are hashed, because a client may choose its key, and must not fill the memory with it. */
const MAX_PLAIN_LENGTH = 128;

/**
 * The name of a policy's state of a key. NUL separates the parts, and begins a name with a hash. A policy's id cannot contain NUL, because
 * names are printable.
 */
export function stateName(policy: string, key: string): string {
  if (key.length <= MAX_PLAIN_LENGTH) return `${policy}\0${key}`;
  return `\0${policy}\0${createHash('sha256').update(key, 'utf16le').digest('base64url')}`;
}
