import type { Link } from '../../common/list.js';
import type { Cost, Costs } from '../../contract/costs.js';
import type { Key } from '../../contract/key.js';
import type { PolicySet } from '../../contract/store.js';
import type { LimiterDecision } from '../decision.js';
import type { Gate } from './gate.js';
import { Line } from './lines.js';
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

/** The subject of a wait. */
export interface Who {
  readonly key: Key;
  /** The policies that decide. */
  readonly set: PolicySet;
  /** Texts that distinguish the keys: see `idsOf`. */
  readonly ids: readonly string[];
  /** The tenant, if the keys do not name it. Tenants that wait for the same key take turns. @default the keys */
  readonly tenant?: string;
  /** The tenant's part of the turns, as a multiple of another tenant's: at least 1. @default 1 */
  readonly weight?: number;
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
 * The waiters of one tenant, which have the same key, or the same keys of several dimensions: first the held ones, then the others by
 * priority and in order of arrival.
 */
export class WaitingLine extends Line<Waiter> {
  ids: readonly string[] = [this.key];
  weight = 1;
  /** The place where the line waits for its turn. Undefined before its first waiter. */
  gate: Gate | undefined;
  /** The line's place in the round of its gate, as long as one of its waiters is not held. */
  spot: Link<WaitingLine> | undefined;
  /** The units that are left to the line in this round. */
  credit = 0;
  /** The first waiter that is not held. Questions to the store are about this waiter, and the ones behind it. */
  next: Link<Waiter> | undefined;
  /** The first waiter without a place. The waiters behind it have none either. */
  newcomer: Link<Waiter> | undefined;

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
    if (!this.next) this.gate?.pause(this);
    this.gate?.pace.resetPoll();
    link.value.state = DONE;
    link.value.stop();
  }

  /** The last bounded waiter that has a place. There must be one. */
  lastBounded(): Link<Waiter> {
    let link = this.newcomer ? this.newcomer.before! : this.last!;
    while (link.value.who.isUnbounded || !link.value.hasPlace) link = link.before!;
    return link;
  }
}

/** The set that decides for a waiter. */
export function setOf({ who, came, deadline }: Waiter, now: number): PolicySet {
  return patient(who.set, deadline - now, now - came);
}
