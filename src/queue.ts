import type { CompiledPolicy } from './policy.js';
import type { Timing } from './timing.js';

/** What the queue needs to know of an admitted request. */
export interface Turn {
  readonly key: string;
  readonly cost: number;
  /** Its turn comes after so many ms. */
  readonly delayMs: number;
  /** The time that one unit takes to leak, ms. */
  readonly unitMs: number;
}

/** How a hold ends: its turn has come; there was no room; or the caller has cancelled it, or closed the queue. */
export type HoldOutcome = 'turn' | 'full' | 'cancelled' | 'closed';

interface Held {
  readonly cost: number;
  readonly unitMs: number;
  /** When its turn comes, by the queue's clock. */
  at: number;
  readonly end: (outcome: HoldOutcome) => void;
}

/** The requests of one key that are held, in the order of their turns; one timer, for the first. */
interface Line {
  readonly held: Held[];
  stopTimer: () => void;
}

/**
 * Holds admitted requests until their turn (leaky bucket with `maxDelay`). The store gave each its own slot, so that they
 * leave at the leak rate, in order. Whoever leaves early frees a slot: those behind it move up, and the last one is free.
 * The caller gives that one back to the store (`decision.refund()`), for the next request to take.
 */
export class HoldQueue {
  readonly #most: number;
  readonly #timing: Timing;
  readonly #lines = new Map<string, Line>();
  #size = 0;

  /** @param most how many requests it holds at a time */
  constructor(most: number, timing: Timing) {
    this.#most = most;
    this.#timing = timing;
  }

  /** How many are held now. */
  get size(): number {
    return this.#size;
  }

  /** Holds a request until its turn, or until `signal` cancels it. Never rejects. */
  hold(turn: Turn, signal?: AbortSignal): Promise<HoldOutcome> {
    if (signal?.aborted) return Promise.resolve('cancelled');
    if (turn.delayMs <= 0) return Promise.resolve('turn');
    if (this.#size >= this.#most) return Promise.resolve('full');
    return new Promise((resolve) => {
      const cancel = (): void => this.#cancel(turn.key, held);
      const held: Held = {
        cost: turn.cost,
        unitMs: turn.unitMs,
        at: this.#timing.now() + turn.delayMs,
        end: (outcome) => {
          this.#size--;
          signal?.removeEventListener('abort', cancel);
          resolve(outcome);
        },
      };
      signal?.addEventListener('abort', cancel, { once: true });
      this.#add(turn.key, held);
    });
  }

  /** Ends every hold. */
  close(): void {
    for (const { held, stopTimer } of this.#lines.values()) {
      stopTimer();
      for (const { end } of held) end('closed');
    }
    this.#lines.clear();
  }

  #add(key: string, held: Held): void {
    let line = this.#lines.get(key);
    if (!line) this.#lines.set(key, (line = { held: [], stopTimer: () => {} }));
    // The answers of a store on the network may overtake one another.
    let i = line.held.length;
    while (i > 0 && line.held[i - 1]!.at > held.at) i--;
    line.held.splice(i, 0, held);
    this.#size++;
    if (i === 0) this.#arm(key, line);
  }

  /** Lets go whose turn has come, and waits for the next. */
  #arm(key: string, line: Line): void {
    line.stopTimer();
    const now = this.#timing.now();
    const due = line.held.findIndex(({ at }) => at > now);
    for (const { end } of line.held.splice(0, due < 0 ? line.held.length : due)) end('turn');
    const [first] = line.held;
    if (first) line.stopTimer = this.#timing.after(first.at - now, () => this.#arm(key, line));
    else this.#lines.delete(key);
  }

  #cancel(key: string, held: Held): void {
    const line = this.#lines.get(key)!;
    const i = line.held.indexOf(held);
    line.held.splice(i, 1);
    moveUp(held, line.held.slice(i));
    held.end('cancelled');
    this.#arm(key, line);
  }
}

/** Gives those behind it the units that one request frees, the earliest first. With equal costs each takes the slot before it. */
function moveUp(freed: Held, behind: readonly Held[]): void {
  const free = [{ units: freed.cost, at: freed.at, unitMs: freed.unitMs }];
  for (const held of behind) {
    free.push({ units: held.cost, at: held.at, unitMs: held.unitMs });
    for (let need = held.cost; need > 0;) {
      const slot = free[0]!;
      const taken = Math.min(need, slot.units);
      need -= taken;
      slot.units -= taken;
      held.at = slot.at - slot.units * slot.unitMs;
      if (slot.units === 0) free.shift();
    }
  }
}

/** The time in which one unit leaks, ms: of several policies that hold requests, the fastest one's, so that nobody moves up too far. */
export function unitTime(policies: readonly CompiledPolicy[]): number {
  let least = Infinity;
  for (const { kernel, params } of policies) {
    if (kernel === 'gcra' && params.patience! > 0) least = Math.min(least, params.increment! / params.scale!);
  }
  return least;
}
