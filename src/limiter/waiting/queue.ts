import { idsOf, joined } from '../who.js';
import type { LimiterDecision } from '../decision.js';
import { Line, Lines } from './lines.js';
import { List, type Link } from '../../common/list.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { Timing } from '../../common/timing.js';

/** What the queue needs to know of an admitted request. */
export interface Turn {
  readonly key: string;
  readonly cost: number;
  /** The time until its turn, ms. */
  readonly delayMs: number;
  /** The time that one unit takes to leak, ms. */
  readonly unitMs: number;
}

/** Requests move up among those that the same policies pace. */
export function turnOf({ cost, delayMs, set, subject }: LimiterDecision): Turn {
  const key = joined(
    idsOf(subject, ({ policies }) => policies.some(({ traits }) => traits.paceMs !== undefined)),
  );
  return { key, cost, delayMs, unitMs: unitTime(set.policies) };
}

/** How a hold ends: its turn has come, there was no room, or the caller has cancelled it or closed the queue. */
export type HoldOutcome = 'turn' | 'full' | 'cancelled' | 'closed';

interface Held {
  readonly cost: number;
  readonly end: (outcome: HoldOutcome) => void;
}

/** Units that leak one after the other. */
interface Slot {
  units: number;
  /** When the last of them leaks, by the queue's clock. */
  at: number;
  readonly unitMs: number;
}

/**
 * The requests of one key that are held, in the order of their turns, and the slots that the store gave them, by time. No request
 * owns a slot: the first in line takes the earliest units once it is first. So one that leaves only takes its units from the end,
 * and all behind it have moved up.
 */
class HeldLine extends Line<Held> {
  /** The sum of the slots' units is the sum of the requests' costs. */
  readonly #slots = new List<Slot>();
  stopTimer = (): void => {};

  /** Adds a slot. Returns behind whom its request stands; undefined: it is the first. */
  join(slot: Slot): Link<Held> | undefined {
    // Answers of a store on the network may overtake one another: one step for each that was overtaken.
    let units = 0;
    let before = this.#slots.last;
    for (; before && before.value.at > slot.at; before = before.before) units += before.value.units;
    this.#slots.insert(slot, before);
    let held = this.last;
    for (; held && units > 0; held = held.before) units -= held.value.cost;
    return held;
  }

  /** Takes the last units away. */
  shorten(cost: number): void {
    for (let units = cost; units > 0;) {
      const last = this.#slots.last!;
      const slot = last.value;
      const taken = Math.min(units, slot.units);
      units -= taken;
      slot.units -= taken;
      slot.at -= taken * slot.unitMs;
      if (slot.units === 0) this.#slots.remove(last);
    }
  }

  /** When the turn of the first comes. Its units become one slot: they are not looked for again. */
  due(): number {
    const { cost } = this.first!.value;
    let slot = this.#slots.first!.value;
    for (let units = cost; units > 0;) {
      const first = this.#slots.first!;
      slot = first.value;
      const taken = Math.min(units, slot.units);
      units -= taken;
      slot.units -= taken;
      if (slot.units === 0) this.#slots.remove(first);
    }
    const { unitMs } = slot;
    const at = slot.at - slot.units * unitMs;
    this.#slots.insert({ units: cost, at, unitMs }, undefined);
    return at;
  }

  /** Lets the first go, because its turn has come. */
  pass(): void {
    this.#slots.remove(this.#slots.first!);
  }
}

/**
 * Holds admitted requests until their turn (leaky bucket with `maxDelay`). The store gave each its own slot, so that they
 * leave at the leak rate, in order. Whoever leaves early frees a slot: those behind it move up, and the last one is free.
 * The caller gives that one back to the store (`decision.refund()`), for the next request to take.
 */
export class HoldQueue {
  readonly #timing: Timing;
  readonly #lines: Lines<Held, HeldLine>;

  /**
   * @param most how many requests it holds at a time
   * @param mostPerKey how many of one key
   */
  constructor(most: number, mostPerKey: number, timing: Timing) {
    this.#timing = timing;
    this.#lines = new Lines(most, mostPerKey, (key) => new HeldLine(key));
  }

  /** How many are held now. */
  get size(): number {
    return this.#lines.size;
  }

  /** Holds a request until its turn, or until `signal` cancels it. Never rejects. */
  hold(turn: Turn, signal?: AbortSignal): Promise<HoldOutcome> {
    if (signal?.aborted) return Promise.resolve('cancelled');
    const line = this.#lines.open(turn.key, (longest) => this.#leave(longest, longest.last!, 'full'));
    if (!line) return Promise.resolve('full');
    const { cost, delayMs, unitMs } = turn;
    return new Promise((resolve) => {
      const cancel = (): void => this.#leave(line, link, 'cancelled');
      const end = (outcome: HoldOutcome): void => {
        signal?.removeEventListener('abort', cancel);
        resolve(outcome);
      };
      signal?.addEventListener('abort', cancel, { once: true });
      const before = line.join({ units: cost, at: this.#timing.now() + delayMs, unitMs });
      const link = this.#lines.add(line, { cost, end }, before);
      if (line.first === link) this.#arm(line);
    });
  }

  /** Ends every hold. */
  close(): void {
    for (const line of this.#lines) {
      line.stopTimer();
      for (let link = line.first; link; link = line.first) {
        this.#lines.delete(line, link);
        link.value.end('closed');
      }
    }
  }

  /** Lets all requests go whose turn has come, and waits for the next turn. */
  #arm(line: HeldLine): void {
    line.stopTimer();
    const now = this.#timing.now();
    for (let link = line.first; link; link = line.first) {
      const at = line.due();
      if (at > now) {
        line.stopTimer = this.#timing.after(at - now, () => this.#arm(line));
        return;
      }
      line.pass();
      this.#lines.delete(line, link);
      link.value.end('turn');
    }
  }

  #leave(line: HeldLine, link: Link<Held>, outcome: HoldOutcome): void {
    const first = line.first === link;
    this.#lines.delete(line, link);
    line.shorten(link.value.cost);
    link.value.end(outcome);
    if (first) this.#arm(line);
  }
}

/** The time in which one unit leaks, ms. If several policies hold requests, it is the fastest one's: then nobody moves up too far. */
function unitTime(policies: readonly CompiledPolicy[]): number {
  let least = Infinity;
  for (const { traits } of policies) least = Math.min(least, traits.paceMs ?? Infinity);
  return least;
}
