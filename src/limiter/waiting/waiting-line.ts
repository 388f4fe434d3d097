import type { Link } from '../../common/list.js';
import type { Cost, Costs } from '../../contract/costs.js';
import type { Key } from '../../contract/key.js';
import type { PolicySet } from '../../contract/store.js';
import type { LimiterDecision } from '../decision.js';
import { Line } from './lines.js';
import { Pace } from './pace.js';
import { patient } from './patient.js';

// The states of a waiter.
/** The waiter is in line, and no question to the store is about it. */
export const QUEUED = 'queued';
/** A question to the store is about the waiter, or the charge that the answer brought is being given back. */
export const ASKED = 'asked';
/** The store has admitted the waiter, which stays in line until its turn. */
export const HELD = 'held';
/** The waiter has left the line, with a decision or an error. */
export const DONE = 'done';

// The states of a line.
/** The store is not asked and no timer runs: the line is new, or all of its waiters are held. */
export const RESTING = 'resting';
/** The store is being asked, as long as it admits. */
export const ASKING = 'asking';
/** A timer runs until the next question. */
export const SLEEPING = 'sleeping';
/** The line has neither a waiter nor a sleep to end, and is not found by its key any more. */
export const CLOSED = 'closed';

/** The subject of a wait. */
export interface Who {
  readonly key: Key;
  /** The policies that decide. */
  readonly set: PolicySet;
  /** Texts that distinguish the keys: see `idsOf`. */
  readonly ids: readonly string[];
  /** Whether the request has a place however many wait. @default false */
  readonly isUnbounded?: boolean;
}

export interface Waiter {
  readonly who: Who;
  readonly cost: Cost;
  readonly costs: Costs;
  readonly priority: number;
  /** The time at which the waiter gives up, by the room's clock. */
  readonly deadline: number;
  /** The time at which the waiter came. */
  readonly came: number;
  readonly resolve: (decision: LimiterDecision) => void;
  readonly reject: (error: unknown) => void;
  state: typeof QUEUED | typeof ASKED | typeof HELD | typeof DONE;
  /** Stops the waiter's timer, and stops listening to its signal. */
  stop: () => void;
  /**
   * Whether the waiter has a place in line. The place of a bounded waiter counts for `maxWaiting`. A waiter gets its place as soon as it is
   * known to have to wait.
   */
  hasPlace: boolean;
  /** Gives up the turn of a held waiter. */
  turn: AbortController | undefined;
  /** The reason why the waiter gave up. Its charge is given back before the wait ends with this error. */
  error: unknown;
}

/**
 * The waiters of one key, or of the same keys of several dimensions: first the held ones, then the others by priority and in order of
 * arrival.
 */
export class WaitingLine extends Line<Waiter> {
  readonly pace: Pace;
  ids: readonly string[] = [this.key];
  state: typeof RESTING | typeof ASKING | typeof SLEEPING | typeof CLOSED = RESTING;
  /** The first waiter that is not held. Questions to the store are about this waiter, and the ones behind it. */
  next: Link<Waiter> | undefined;
  /** The first waiter without a place. The waiters behind it have none either. */
  newcomer: Link<Waiter> | undefined;
  /** Whether units were given back during a question. The store is then asked again at once. */
  wasWoken = false;
  stopTimer = (): void => {};

  constructor(key: string, isShared: boolean) {
    super(key);
    this.pace = new Pace(isShared);
  }

  /** The waiter behind which a newcomer waits. The newcomer passes no waiter that is held or asked about. */
  lastBefore(priority: number): Link<Waiter> | undefined {
    let link = this.last;
    while (link && link.value.priority < priority && link.value.state === QUEUED) link = link.before;
    return link;
  }

  /** Adds a waiter. @returns its link */
  join(waiter: Waiter, before: Link<Waiter> | undefined): Link<Waiter> {
    const after = before ? before.after : this.first;
    const link = this.insert(waiter, before);
    if (this.next === after) this.next = link;
    if (!waiter.hasPlace && this.newcomer === after) this.newcomer = link;
    return link;
  }

  /** Takes out a waiter. */
  leave(link: Link<Waiter>): void {
    if (this.next === link) this.next = link.after;
    if (this.newcomer === link) this.newcomer = link.after;
    this.remove(link);
    this.pace.resetPoll();
    link.value.state = DONE;
    link.value.stop();
  }

  /** The last bounded waiter that has a place. There must be one. */
  lastBounded(): Link<Waiter> {
    let link = this.newcomer ? this.newcomer.before! : this.last!;
    while (link.value.who.isUnbounded || !link.value.hasPlace) link = link.before!;
    return link;
  }

  /** The waiters that share one question to the store, by one set. */
  group(now: number): { set: PolicySet; group: Link<Waiter>[] } {
    const set = setOf(this.next!.value, now);
    const group: Link<Waiter>[] = [];
    let sum = 0;
    let largest = 0;
    let last: Costs['costs'];
    for (let link = this.next; link; link = link.after) {
      const { cost, costs } = link.value.costs;
      sum += cost;
      const isLess = costs ? costs.join() !== last?.join() : cost < largest;
      const isSafe = this.pace.hasUnits(sum, isLess);
      if (group.length > 0 && (!isSafe || setOf(link.value, now) !== set)) break;
      group.push(link);
      largest = Math.max(largest, cost);
      last = costs;
    }
    return { set, group };
  }
}

/** The set that decides for a waiter. */
export function setOf({ who, came, deadline }: Waiter, now: number): PolicySet {
  return patient(who.set, deadline - now, now - came);
}
