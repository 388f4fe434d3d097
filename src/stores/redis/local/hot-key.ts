import { inBackground } from '../../../common/background.js';
import { Eventual } from '../../../common/eventual.js';
import { performance } from '../../../common/real-time.js';
import { NO_COSTS } from '../../../contract/costs.js';
import { policyWith } from '../../../contract/compile-policies.js';
import { isUndecided, type Reply } from '../../../contract/reply.js';
import {
  isPromise,
  lookOf,
  newCall,
  type ChargeChange,
  type MaybePromise,
  type PolicySet,
  type Query,
  type Store,
  type Subject,
} from '../../../contract/store.js';
import { variant } from '../../../contract/variant.js';
import type { SliceConnection } from './connections.js';
import { Slice } from './slice.js';
import type { Slicing } from './slice-options.js';
import { SliceSize } from './slice-size.js';

/** From this size on, the next slice is fetched when half of the current slice is spent. */
const MIN_UNITS_FETCHED_AHEAD = 32;

/** The rest of a slice counts as idle after this many times the usual time between two decisions. */
const IDLE_GAPS = 4;

/** The common settings of the hot keys of a store. */
export interface Keeping extends Slicing {
  readonly store: Pick<Store, 'decide'>;
  /** Called when a key begins to have a slice. */
  readonly holds: (hot: HotKey) => void;
  /** Receives the units of a slice that must be returned. */
  readonly giveBack: (rest: ChargeChange, slice: Slice) => void;
  /** The connection to the server of a key, as far as the client knows. */
  readonly connectionOf: (subject: Subject) => SliceConnection;
}

/** A set that charges the same counts and does nothing else: no bans, attempts or shadows. */
const bareOf = (set: PolicySet): PolicySet => variant(set, 'bare', bareFields);

function bareFields({ policies, ban }: PolicySet): Partial<PolicySet> | undefined {
  if (!ban && !policies.some(({ shadow, attempts }) => shadow || attempts)) return undefined;
  return {
    policies: policies.map((policy) => policyWith(policy, { shadow: false, attempts: false })),
    ban: undefined,
  };
}

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

/** The pause of a key that was dropped. */
const FOREVER = Infinity;

/**
 * A key that this process decides as long as it holds units of the key, with all counts together. The key has no slice, a spent slice, or a
 * second slice that was charged ahead. A paused key charges no slice, and returns the slice on its way.
 */
export class HotKey {
  readonly #keeping: Keeping;
  readonly #size: SliceSize;
  #slices: Slice[] = [];
  #charging: Promise<unknown> | undefined;
  #pausedUntil = 0;

  constructor(keeping: Keeping) {
    this.#keeping = keeping;
    this.#size = new SliceSize(keeping);
  }

  ask(set: PolicySet, cost: number, now: number): void {
    this.#size.ask(set, cost, now);
  }

  /** The slice that can pay for a decision. */
  take(set: PolicySet, cost: number, now: number): Slice | undefined {
    for (;;) {
      const slice = this.#slices[0];
      if (!slice) return undefined;
      const left = slice.left(now);
      if (left >= cost) return slice.fits(set) ? slice : undefined;
      if (left > 0 && this.#slices.length === 1) return undefined;
      this.#slices.shift();
      this.#giveBack(slice, now);
    }
  }

  /** The units left to spend for this process. */
  held(now: number): number {
    return this.#slices.reduce((sum, slice) => sum + slice.left(now), 0);
  }

  /** Whether it is time for the next slice. */
  isLow(now: number): boolean {
    const slice = this.#slices[0];
    if (!slice || this.#slices.length > 1 || this.#charging || slice.units < MIN_UNITS_FETCHED_AHEAD)
      return false;
    return slice.left(now) < slice.units / 2;
  }

  /** Charges a slice if it is worth a call. */
  refill(subject: Subject, cost: number, now: number): void {
    const units = this.worth(subject.set, cost, now);
    if (units > 0) void inBackground('A slice was not charged', this.#charge(subject, units, now));
  }

  /**
   * Decides without a slice. If a slice is worth a call, its call also decides: while many units remain, the query is certainly admitted.
   */
  decide(query: Query, subject: Subject, now: number): MaybePromise<Reply> {
    const { cost } = query;
    const { set } = subject;
    const units = this.worth(set, cost, now);
    if (units > 0 && this.#size.isCertain(units) && !set.ban)
      return this.#charge(subject, units, now, query).then((reply) => reply ?? this.#ask(query));
    const reply = this.#ask(query);
    this.refill(subject, cost, now);
    return reply;
  }

  #ask(query: Query): MaybePromise<Reply> {
    const answer = this.#keeping.store.decide(query);
    if (!this.#size.isWanted(query.cost)) return answer;
    return tapped(answer, (reply) => this.learn(query.set, reply, query.cost));
  }

  /** The units of the next slice. 0 if a slice is not worth a call. */
  worth(set: PolicySet, cost: number, now: number): number {
    if (this.#charging || this.#slices.length > 1 || now < this.#pausedUntil) return 0;
    return this.#size.next(set, cost, this.held(now), now);
  }

  /**
   * @param carried the decision that is part of this call
   * @returns the decision, if the units are granted
   */
  #charge(subject: Subject, units: number, now: number, carried?: Query): Promise<Reply | undefined> {
    const answer = this.#receive(subject, units, now, carried);
    const done = (): void => (this.#charging = undefined);
    this.#charging = answer.then(done, done);
    return answer;
  }

  async #receive(
    { set, key }: Subject,
    units: number,
    asked: number,
    carried?: Query,
  ): Promise<Reply | undefined> {
    const { store, hold, holds, connectionOf } = this.#keeping;
    const subject = { set: bareOf(set), key };
    const before = connectionOf(subject);
    const call = carried?.call ?? newCall();
    try {
      const [reply, look] = await Promise.all([
        store.decide({ ...subject, cost: units, peek: false, lease: '', call }),
        set.ban && store.decide(lookOf({ set, key, call: newCall() }, NO_COSTS)),
      ]);
      const now = performance.now();
      if (look && look.ban > 0) this.#pause(now);
      if (!this.learn(subject.set, reply, units)) return undefined;
      // The call may have been redirected to a server that the client knows only now.
      const connections = [...new Set([before, connectionOf(subject)])];
      const slice = new Slice({
        subject,
        units,
        reply,
        asked,
        received: now,
        // A slice ends one sweep earlier, so that the units are returned within `hold`.
        hold: hold - hold / SWEEPS_PER_HOLD,
        connections,
      });
      const answer = carried && !reply.limits ? slice.spend(carried.set, carried.cost, now) : undefined;
      this.#end(now);
      this.#slices.push(slice);
      if (now < this.#pausedUntil) this.#end(now, true);
      else holds(this);
      return answer;
    } catch (error) {
      this.#pause(performance.now());
      throw error;
    }
  }

  /** Ends all slices. For a time, no other is charged. */
  stop(): void {
    const now = performance.now();
    this.#pause(now);
    this.#end(now, true);
  }

  #pause(now: number): void {
    this.#pausedUntil = Math.max(this.#pausedUntil, now + this.#keeping.hold);
  }

  /**
   * Learns from the store's reply about the key.
   *
   * @param set the policies of this key
   * @param at the positions of the policies in the reply; by default the reply is about these policies only
   * @returns whether the reply admits
   */
  learn(set: PolicySet, reply: Reply, units: number, at?: readonly number[]): boolean {
    const { verdicts, limits } = reply;
    // If an override changes the limits of a key, only the store decides.
    if (limits !== undefined || isUndecided(reply)) this.stop();
    return verdicts.length > 0 && this.#size.learn(set, verdicts, units, at);
  }

  /** Returns every ended slice, or every slice. */
  #end(now: number, all = false): void {
    const before = this.#slices;
    this.#slices = before.filter((slice) => !all && slice.left(now) > 0);
    for (const slice of before) if (!this.#slices.includes(slice)) this.#giveBack(slice, now);
  }

  /** Returns the rest of a slice. If the return fails, the slice's units stay charged until they expire. */
  #giveBack(slice: Slice, now: number): void {
    const rest = slice.rest(now);
    if (!rest) return;
    this.#size.gaveBack(-rest.units[0]!);
    this.#keeping.giveBack(rest, slice);
  }

  /** Returns slices that have ended or are idle. @returns whether the key still has a slice */
  sweep(now: number): boolean {
    const [idle, gap] = this.#size.idle(now);
    this.#end(now, idle > Math.max(this.#keeping.hold / SWEEPS_PER_HOLD, IDLE_GAPS * gap));
    return this.#slices.length > 0;
  }

  isCold(now: number): boolean {
    return this.#slices.length === 0 && !this.#charging && this.#size.isCold(now);
  }

  /** Returns all units, including the units of a slice under way. The key charges no further slice. */
  async drop(): Promise<void> {
    this.#pausedUntil = FOREVER;
    this.#end(performance.now(), true);
    await this.#charging;
  }
}

/** The count of sweeps within `hold` that look for ended or idle slices. */
export const SWEEPS_PER_HOLD = 8;
