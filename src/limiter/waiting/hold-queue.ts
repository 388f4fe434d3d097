import { onAbort } from '../../common/abort.js';
import { idsOf, joined } from '../../contract/dimension-sets.js';
import type { LimiterDecision } from '../decision.js';
import { WaitingQueue, WaitingQueues } from './waiting-queues.js';
import { List, type Link } from '../../common/list.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { Timing } from '../../common/timing.js';

/** The properties of an admitted request that the queue needs. */
export interface HoldRequest {
  readonly key: string;
  readonly cost: number;
  /** Time until the request's turn, ms. Below 0 if the turn is over. */
  readonly delayMs: number;
  /** The time in which a unit leaks, ms. */
  readonly unitMs: number;
}

/** The hold request of a decision. Requests paced by the same policies share a line, in which requests can move up. */
export function holdRequestOf({ costs, delayMs, set, subject }: LimiterDecision): HoldRequest {
  const key = joined(
    idsOf(subject, ({ policies }) => policies.some(({ traits }) => traits.paceMs !== undefined)),
  );
  return { key, delayMs, ...paceOf(set.policies, costs) };
}

/** The end of a hold: the request's turn, no place, a cancellation by the caller, or the end of the queue. */
export type HoldOutcome = 'turn' | 'full' | 'cancelled' | 'closed';

/** The place of a request among the held ones. */
export interface HoldPlace {
  /** Whether the request came after every held request. By default, the order of the turns counts. */
  readonly isLast?: boolean;
  /** Whether the request always has a place. */
  readonly isUnbounded?: boolean | undefined;
  /** The time of the turn that the request has lost, by the queue's clock. The request then gets the next turn, in the order of lost ones. */
  readonly lostAt?: number | undefined;
  /** Receives the time of the turn at which the request leaves, which may be the turn of another. */
  readonly onTurn?: (at: number) => void;
}

interface Held extends HoldPlace {
  readonly cost: number;
  readonly end: (outcome: HoldOutcome) => void;
}

/** The turns of several units, which leak unit by unit. */
interface Turns {
  units: number;
  /** The time at which the last of these units leaks, by the queue's clock. */
  at: number;
  readonly unitMs: number;
}

/**
 * The held requests of a key in the order of their turns, and the turns from the store, by time. A turn does not belong to a request,
 * because the first request in line takes the earliest turns. So a leaving request only removes the last turns, and all requests behind the
 * leaving request move up.
 */
class HeldLine extends WaitingQueue<Held> {
  /** The turns, which have as many units as the requests cost together. */
  readonly #turns = new List<Turns>();
  stopTimer = (): void => {};

  /** Adds the turns of a request. @returns the request in front, or undefined for the first request */
  join(turns: Turns, { isLast, lostAt }: HoldPlace): Link<Held> | undefined {
    // Answers of a store on the network may overtake each other. Each overtaken answer costs a step.
    let units = 0;
    let before = this.#turns.last;
    for (; before && before.value.at > turns.at; before = before.before) units += before.value.units;
    this.#turns.insert(turns, before);
    if (lostAt !== undefined) return this.#lastLost(lostAt);
    let held = this.last;
    if (isLast) return held;
    for (; held && units > 0; held = held.before) units -= held.value.cost;
    return held;
  }

  /** The last of the requests in front that lost an earlier turn. */
  #lastLost(at: number): Link<Held> | undefined {
    let before: Link<Held> | undefined;
    for (let held = this.first; held && (held.value.lostAt ?? at) < at; held = held.after) before = held;
    return before;
  }

  /** Removes the turns of the last `cost` units. */
  shorten(cost: number): void {
    for (let units = cost; units > 0;) {
      const last = this.#turns.last!;
      const turns = last.value;
      const taken = Math.min(units, turns.units);
      units -= taken;
      turns.units -= taken;
      turns.at -= taken * turns.unitMs;
      if (turns.units === 0) this.#turns.remove(last);
    }
  }

  /** The time of the first request's turn. Merges the turns of the request's units, so that the next call returns the merged turn at once. */
  due(): number {
    const { cost } = this.first!.value;
    let turns = this.#turns.first!.value;
    for (let units = cost; units > 0;) {
      const first = this.#turns.first!;
      turns = first.value;
      const taken = Math.min(units, turns.units);
      units -= taken;
      turns.units -= taken;
      if (turns.units === 0) this.#turns.remove(first);
    }
    const { unitMs } = turns;
    const at = turns.at - turns.units * unitMs;
    this.#turns.insert({ units: cost, at, unitMs }, undefined);
    return at;
  }

  /** Removes the turns of the first request, which leaves. */
  pass(): void {
    this.#turns.remove(this.#turns.first!);
  }
}

/**
 * Holds admitted requests until their turn (leaky bucket with `maxDelay`). The store gave each request a turn, so that requests leave in
 * order, at the leak rate. If a request leaves early, the requests behind it move up, and the last turn is free. The caller returns the
 * free turn to the store (`decision.refund()`), for the next request.
 */
export class HoldQueue {
  readonly #timing: Timing;
  readonly #lines: WaitingQueues<Held, HeldLine>;

  /**
   * @param most the most requests held at a time
   * @param mostPerKey the most requests held per key
   */
  constructor(most: number, mostPerKey: number, timing: Timing) {
    this.#timing = timing;
    const giveWay = (line: HeldLine): void => {
      let link = line.last!;
      while (link.value.isUnbounded === true) link = link.before!;
      this.#leave(line, link, 'full');
    };
    this.#lines = new WaitingQueues(most, mostPerKey, (key) => new HeldLine(key), giveWay);
  }

  get size(): number {
    return this.#lines.size;
  }

  /** Holds a request until its turn, or until `signal` cancels the hold. Never rejects. */
  hold(request: HoldRequest, signal?: AbortSignal, place: HoldPlace = {}): Promise<HoldOutcome> {
    if (signal?.aborted) return Promise.resolve('cancelled');
    const line = this.#lines.open(request.key);
    if (!this.#lines.take(line, place.isUnbounded)) {
      if (!line.first) this.#lines.close(line);
      return Promise.resolve('full');
    }
    const { cost, delayMs, unitMs } = request;
    return new Promise((resolve) => {
      const cancel = (): void => this.#leave(line, link, 'cancelled');
      const end = (outcome: HoldOutcome): void => {
        stopListening();
        resolve(outcome);
      };
      const stopListening = onAbort(signal, cancel);
      const at = this.#timing.now() + delayMs;
      const before = line.join({ units: cost, at, unitMs }, place);
      const link = line.insert({ ...place, cost, end }, before);
      if (line.first === link || place.isLast === true) this.#arm(line);
    });
  }

  close(): void {
    for (const line of this.#lines) {
      line.stopTimer();
      for (let link = line.first; link; link = line.first) {
        this.#remove(line, link);
        link.value.end('closed');
      }
    }
  }

  /** Releases every request that has reached its turn, and sets a timer for the next turn. */
  #arm(line: HeldLine, now = this.#timing.now()): void {
    line.stopTimer();
    for (let link = line.first; link; link = line.first) {
      const at = line.due();
      if (at > now) {
        // Timers fire a little late, which must not add up. Fake timers may leave the clock unchanged.
        const arm = (): void => this.#arm(line, Math.max(at, this.#timing.now()));
        line.stopTimer = this.#timing.after(at - now, arm);
        return;
      }
      line.pass();
      this.#remove(line, link);
      link.value.onTurn?.(at);
      link.value.end('turn');
    }
  }

  #remove(line: HeldLine, link: Link<Held>): void {
    line.remove(link);
    this.#lines.vacate(line, link.value.isUnbounded);
    if (!line.first) this.#lines.close(line);
  }

  #leave(line: HeldLine, link: Link<Held>, outcome: HoldOutcome): void {
    const first = line.first === link;
    this.#remove(line, link);
    line.shorten(link.value.cost);
    link.value.end(outcome);
    if (first) this.#arm(line);
  }
}

/**
 * The time in which a unit leaks, ms, and the request's units. Of several policies that hold requests, the fastest policy counts, so that
 * requests never move up too far.
 */
function paceOf(
  policies: readonly CompiledPolicy[],
  costs: Readonly<Record<string, number>>,
): Pick<HoldRequest, 'unitMs' | 'cost'> {
  let unitMs = Infinity;
  let cost = 0;
  for (const { name, traits } of policies) {
    if (costs[name] === 0 || (traits.paceMs ?? Infinity) >= unitMs) continue;
    unitMs = traits.paceMs!;
    cost = costs[name]!;
  }
  return { unitMs, cost };
}
