import { Eventual } from '../../../common/eventual.js';
import { performance } from '../../../common/real-time.js';
import {
  isPromise,
  type Change,
  newCall,
  perSet,
  type MaybePromise,
  type PolicySet,
  type Query,
  type Reply,
  type Store,
  type Subject,
} from '../../../contract/store.js';
import type { Connection } from './connections.js';
import { Slice } from './slice.js';
import type { Slicing } from './slice-options.js';
import { SliceSize } from './slice-size.js';

/** From this size on, the next slice is asked for when half of one is spent. */
const AHEAD_FROM = 32;

/** What remains of a slice after so many times the usual time between two decisions is idle. */
const IDLE_AFTER = 4;

/** What the hot keys of a store have in common. */
export interface Keeping extends Slicing {
  readonly store: Store;
  /** Called when a key begins to have a slice. */
  readonly holds: (hot: HotKey) => void;
  /** Receives what is to be given back of a slice. */
  readonly giveBack: (rest: Change, slice: Slice) => void;
  /** The connection to the server of a key, as far as the client knows. */
  readonly connectionOf: (subject: Subject) => Connection;
}

/** A set that charges the same counts and does nothing else: no bans, attempts or shadows. */
const bareOf = perSet((set): PolicySet => {
  const { policies, ban } = set;
  if (!ban && !policies.some(({ shadow, attempts }) => shadow || attempts)) return set;
  const bare = policies.map((policy) => ({ ...policy, shadow: false, attempts: false }));
  return { ...set, policies: bare, ban: undefined };
});

/** Hands an answer on, and tells somebody else first. */
export function tapped(answer: MaybePromise<Reply>, tell: (reply: Reply) => void): MaybePromise<Reply> {
  if (!isPromise(answer)) {
    tell(answer);
    return answer;
  }
  const outcome = new Eventual<Reply>();
  Eventual.listen(answer, {
    resolve: (reply) => {
      tell(reply);
      outcome.resolve(reply);
    },
    reject: (error) => outcome.reject(error),
  });
  return outcome;
}

/** A key that is decided in this process as long as there are units of it: all its counts together. */
export class HotKey {
  readonly #keeping: Keeping;
  #current: Slice | undefined;
  #next: Slice | undefined;
  #refilling: Promise<unknown> | undefined;
  /** Until when no slice is asked for, after one could not be had. */
  #pausedUntil = 0;
  /** Set when the key was reset, or is no longer kept. */
  #isGone = false;
  /** How large the next slice should be. */
  readonly #size: SliceSize;

  constructor(keeping: Keeping) {
    this.#keeping = keeping;
    this.#size = new SliceSize(keeping);
  }

  /** Notes that units are asked for. */
  ask(set: PolicySet, cost: number, now: number): void {
    this.#size.ask(set, cost, now);
  }

  /** The slice that can pay for a decision. */
  take(set: PolicySet, cost: number, now: number): Slice | undefined {
    let slice = this.#current;
    if (!slice) return undefined;
    const left = slice.left(now);
    if (left < cost) {
      if (left > 0 && !this.#next) return undefined;
      this.#giveBack(slice, now);
      slice = this.#current = this.#next;
      this.#next = undefined;
      if (!slice || slice.left(now) < cost) return undefined;
    }
    return slice.fits(set) ? slice : undefined;
  }

  /** The units that this process may still spend. */
  held(now: number): number {
    return (this.#current?.left(now) ?? 0) + (this.#next?.left(now) ?? 0);
  }

  /** Whether it is time for the next slice. */
  isLow(now: number): boolean {
    const slice = this.#current;
    if (!slice || this.#next || this.#refilling || slice.units < AHEAD_FROM) return false;
    return slice.left(now) < slice.units / 2;
  }

  /** Asks for a slice if one is worth a call. */
  refill(subject: Subject, cost: number, now: number): void {
    const units = this.worth(subject.set, cost, now);
    if (units > 0) this.#keep(this.#fetch(subject, units, now)).catch(() => {});
  }

  /**
   * Decides without a slice. If one is worth a call, its call decides, too: where much is left it
   * is admitted for certain.
   */
  decide(query: Query, subject: Subject, now: number): MaybePromise<Reply> {
    const { cost } = query;
    const { set } = subject;
    const units = this.worth(set, cost, now);
    const isSafe = this.#size.isCertain(units) && !set.ban;
    if (units > 0 && isSafe) {
      return this.#keep(this.#fetch(subject, units, now, query)).then(
        (reply) => reply ?? this.#direct(query),
      );
    }
    const reply = this.#direct(query);
    this.refill(subject, cost, now);
    return reply;
  }

  #direct(query: Query): MaybePromise<Reply> {
    const answer = this.#keeping.store.decide(query);
    if (!this.#size.isWanted(query.cost)) return answer;
    return tapped(answer, (reply) => this.learn(query.set, reply, query.cost));
  }

  /** How many units a slice should have. 0: none is worth a call. */
  worth(set: PolicySet, cost: number, now: number): number {
    if (this.#refilling || this.#next || now < this.#pausedUntil) return 0;
    return this.#size.next(set, cost, this.#current?.left(now) ?? 0, now);
  }

  #keep<T>(refilling: Promise<T>): Promise<T> {
    const done = (): void => {
      if (this.#refilling === noted) this.#refilling = undefined;
    };
    const noted: Promise<void> = refilling.then(done, done);
    this.#refilling = noted;
    return refilling;
  }

  /** @param carried the decision that is made by this call, if the units are granted */
  async #fetch(
    { set, key }: Subject,
    units: number,
    asked: number,
    carried?: Query,
  ): Promise<Reply | undefined> {
    const { store, hold, connectionOf } = this.#keeping;
    const subject = { set: bareOf(set), key };
    const before = connectionOf(subject);
    const call = carried?.call ?? newCall();
    const mayBeBanned = set.ban !== undefined;
    try {
      const [reply, seen] = await Promise.all([
        store.decide({ ...subject, cost: units, peek: false, lease: '', call }),
        mayBeBanned && store.decide({ set, key, cost: 0, peek: true, lease: '', call: newCall() }),
      ]);
      const now = performance.now();
      const isGranted = this.learn(subject.set, reply, units);
      if (!isGranted) return undefined;
      // The call may have been sent on to another server, which the client knows by now.
      const connections = [...new Set([before, connectionOf(subject)])];
      const slice = new Slice(subject, units, reply, asked, now, keptFor(hold), connections);
      if (reply.limits) {
        this.#giveBack(slice, now);
        return undefined;
      }
      const answer = carried && slice.spend(carried.set, carried.cost, now);
      if (seen && seen.ban > 0) this.#pausedUntil = now + hold;
      if (this.#isGone || (seen && seen.ban > 0)) this.#giveBack(slice, now);
      else this.#add(slice, now);
      return answer;
    } catch (error) {
      this.#pausedUntil = performance.now() + hold;
      throw error;
    }
  }

  #add(slice: Slice, now: number): void {
    if (this.#current && this.#current.left(now) > 0) {
      this.#next = slice;
    } else {
      if (this.#current) this.#giveBack(this.#current, now);
      this.#current = slice;
    }
    this.#keeping.holds(this);
  }

  /**
   * Learns from what the store says of the key.
   *
   * @param set the policies of this key
   * @param at their places in the reply; default: it is about no other policies
   * @returns whether the reply admits
   */
  learn(set: PolicySet, reply: Reply, units: number, at?: readonly number[]): boolean {
    const { ban, verdicts, limits, rules } = reply;
    // The store itself decides by the limits that an override gives a key.
    if (limits || rules) this.#pausedUntil = performance.now() + this.#keeping.hold;
    if (ban !== 0 || limits || rules) this.#giveBackAll();
    return verdicts.length > 0 && this.#size.learn(set, verdicts, units, at);
  }

  /** Gives back the rest of a slice. If that fails, its units stay charged until they expire. */
  #giveBack(slice: Slice, now: number): void {
    const rest = slice.rest(now);
    if (!rest) return;
    this.#size.gaveBack(-rest.units[0]!);
    this.#keeping.giveBack(rest, slice);
  }

  /** Gives back what has ended or is idle. @returns whether the key still has a slice */
  sweep(now: number): boolean {
    const [idle, gap] = this.#size.idle(now);
    const isIdle = idle > Math.max(this.#keeping.hold / SWEEPS, IDLE_AFTER * gap);
    const keeps = (slice: Slice | undefined): Slice | undefined => {
      if (!slice || (!isIdle && slice.left(now) > 0)) return slice;
      this.#giveBack(slice, now);
      return undefined;
    };
    const next = keeps(this.#next);
    const current = keeps(this.#current);
    // The next slice takes the place of one that is spent: decisions look there.
    this.#current = current ?? next;
    this.#next = current && next;
    return this.#current !== undefined;
  }

  /** Whether nothing is worth remembering of the key. */
  isCold(now: number): boolean {
    return !this.#current && !this.#next && !this.#refilling && this.#size.isCold(now);
  }

  #giveBackAll(): void {
    const now = performance.now();
    if (this.#current) this.#giveBack(this.#current, now);
    if (this.#next) this.#giveBack(this.#next, now);
    this.#current = this.#next = undefined;
  }

  /** Gives back everything, also what is still to come. */
  async drop(): Promise<void> {
    this.#isGone = true;
    this.#giveBackAll();
    await this.#refilling;
  }
}

/** How often in a `hold` slices are looked through that have ended or are idle. */
export const SWEEPS = 8;

/** A slice ends one look earlier, so that its units are back within `hold`. */
function keptFor(hold: number): number {
  return hold - hold / SWEEPS;
}
