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

/** From this size on, the next slice is fetched when half of the current one is spent. */
const MIN_UNITS_FETCHED_AHEAD = 32;

/** The rest of a slice counts as idle after this many times the usual time between two decisions. */
const IDLE_GAPS = 4;

/** The common settings of the hot keys of a store. */
export interface Keeping extends Slicing {
  readonly store: Store;
  /** Called when a key begins to have a slice. */
  readonly holds: (hot: HotKey) => void;
  /** Receives the units of a slice that must be returned. */
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

/** Passes an answer on, after the listener has received it. */
export function tapped(answer: MaybePromise<Reply>, listener: (reply: Reply) => void): MaybePromise<Reply> {
  if (!isPromise(answer)) {
    listener(answer);
    return answer;
  }
  const outcome = new Eventual<Reply>();
  Eventual.listen(answer, {
    resolve: (reply) => {
      listener(reply);
      outcome.resolve(reply);
    },
    reject: (error) => outcome.reject(error),
  });
  return outcome;
}

/** A key that this process decides as long as it holds units of the key, with all counts together. */
export class HotKey {
  readonly #keeping: Keeping;
  #current: Slice | undefined;
  #next: Slice | undefined;
  #refilling: Promise<unknown> | undefined;
  /** The end of the pause after a slice could not be charged. */
  #pausedUntil = 0;
  /** Set when the key was reset, or is no longer kept. */
  #isGone = false;
  /** The size of the next slice. */
  readonly #size: SliceSize;

  constructor(keeping: Keeping) {
    this.#keeping = keeping;
    this.#size = new SliceSize(keeping);
  }

  /** Records a request for units. */
  ask(set: PolicySet, cost: number, now: number): void {
    this.#size.ask(set, cost, now);
  }

  /** The slice that can pay for a decision. */
  take(set: PolicySet, cost: number, now: number): Slice | undefined {
    while (this.#current) {
      const left = this.#current.left(now);
      if (left >= cost) return this.#current.fits(set) ? this.#current : undefined;
      if (left > 0 && !this.#next) return undefined;
      this.#giveBack(this.#current, now);
      this.#current = this.#next;
      this.#next = undefined;
    }
    return undefined;
  }

  /** The units that this process may still spend. */
  held(now: number): number {
    return (this.#current?.left(now) ?? 0) + (this.#next?.left(now) ?? 0);
  }

  /** Whether it is time for the next slice. */
  isLow(now: number): boolean {
    const slice = this.#current;
    if (!slice || this.#next || this.#refilling || slice.units < MIN_UNITS_FETCHED_AHEAD) return false;
    return slice.left(now) < slice.units / 2;
  }

  /** Fetches a slice if one is worth a call. */
  refill(subject: Subject, cost: number, now: number): void {
    const units = this.worth(subject.set, cost, now);
    if (units > 0) this.#keep(this.#fetch(subject, units, now)).catch(() => {});
  }

  /**
   * Decides without a slice. If a slice is worth a call, its call also decides: while many units remain, the query is certainly admitted.
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

  /** The units of the next slice. 0 if a slice is not worth a call. */
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

  /** @param carried the decision that is part of this call, if the units are granted */
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
      // The call may have been redirected to a server that the client knows only now.
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
   * Learns from the store's reply about the key.
   *
   * @param set the policies of this key
   * @param at their positions in the reply; by default the reply is about these policies only
   * @returns whether the reply admits
   */
  learn(set: PolicySet, reply: Reply, units: number, at?: readonly number[]): boolean {
    const { ban, verdicts, limits, clientChanges } = reply;
    // If an override changes the limits of a key, only the store decides.
    if (limits || clientChanges) this.#pausedUntil = performance.now() + this.#keeping.hold;
    if (ban !== 0 || limits || clientChanges) this.#giveBackAll();
    return verdicts.length > 0 && this.#size.learn(set, verdicts, units, at);
  }

  /** Returns the rest of a slice. If that fails, its units stay charged until they expire. */
  #giveBack(slice: Slice, now: number): void {
    const rest = slice.rest(now);
    if (!rest) return;
    this.#size.gaveBack(-rest.units[0]!);
    this.#keeping.giveBack(rest, slice);
  }

  /** Returns slices that have ended or are idle. @returns whether the key still has a slice */
  sweep(now: number): boolean {
    const [idle, gap] = this.#size.idle(now);
    const isIdle = idle > Math.max(this.#keeping.hold / SWEEPS_PER_HOLD, IDLE_GAPS * gap);
    const keeps = (slice: Slice | undefined): Slice | undefined => {
      if (!slice || (!isIdle && slice.left(now) > 0)) return slice;
      this.#giveBack(slice, now);
      return undefined;
    };
    const next = keeps(this.#next);
    const current = keeps(this.#current);
    // The next slice replaces a spent one, because decisions use the current slice.
    this.#current = current ?? next;
    this.#next = current && next;
    return this.#current !== undefined;
  }

  /** Whether the key can be forgotten. */
  isCold(now: number): boolean {
    return !this.#current && !this.#next && !this.#refilling && this.#size.isCold(now);
  }

  #giveBackAll(): void {
    const now = performance.now();
    if (this.#current) this.#giveBack(this.#current, now);
    if (this.#next) this.#giveBack(this.#next, now);
    this.#current = this.#next = undefined;
  }

  /** Returns all units, including those of a slice under way. */
  async drop(): Promise<void> {
    this.#isGone = true;
    this.#giveBackAll();
    await this.#refilling;
  }
}

/** The count of sweeps within `hold` that look for ended or idle slices. */
export const SWEEPS_PER_HOLD = 8;

/** A slice ends one sweep earlier, so that its units are returned within `hold`. */
function keptFor(hold: number): number {
  return hold - hold / SWEEPS_PER_HOLD;
}
