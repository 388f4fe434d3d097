import type { Decision, Key, Policy } from 'headgate';
import { DEFAULT_DIMENSION } from 'headgate/admin';
import { Engine } from './engine.js';
import { shownKeys } from './dimensions.js';
import { Keys } from './keys.js';
import type { LogSummary } from './log-file.js';
import { Timeline } from './timeline.js';

export type ReplayResult = ReturnType<Replay['result']>;
export type ClientResult = ReplayResult['top'][number];
export type Interval = ReplayResult['timeline']['intervals'][number];

/** Ten tenths of the capacity, and one more for clients that were denied. */
const USES = 11;

interface Effect {
  readonly number: number;
  readonly name: string;
  readonly policy: Policy;
  readonly capacity: number;
  /** The number of its dimension. */
  readonly side: number;
  /** The most that each client used. */
  readonly peaks: Uint32Array;
  denied: number;
  /** The time of the first denial, ms since the epoch, or undefined if there was none. */
  first: number | undefined;
  last: number | undefined;
}

/**
 * Sends the requests of a log to a limiter, and counts, in columns with a value per client. With several dimensions, each key of each
 * dimension is a client.
 */
export class Replay {
  readonly #engine: Engine;
  readonly #keys = new Keys();
  /** The number of the key's dimension. */
  readonly #side = this.#keys.column(Uint32Array);
  readonly #requests = this.#keys.column(Uint32Array);
  readonly #denied = this.#keys.column(Uint32Array);
  /** One bit per policy. */
  readonly #by = this.#keys.column(Uint32Array);
  readonly #first = this.#keys.column(Float64Array);
  readonly #last = this.#keys.column(Float64Array);
  readonly #run = this.#keys.column(Uint32Array);
  readonly #runAt = this.#keys.column(Float64Array);
  readonly #streak = this.#keys.column(Uint32Array);
  readonly #streakAt = this.#keys.column(Float64Array);
  readonly #timeline: Timeline;
  readonly #dimensions: readonly string[];
  readonly #policies: ReadonlyMap<string, Effect>;
  /** The current request, by dimension: its client, or -1; and whether it is denied. */
  readonly #clients: number[];
  readonly #hit: boolean[];
  #admitted = 0;
  #deniedSum = 0;
  #held = 0;
  #longestHold = 0;
  #start = 0;
  #end = 0;

  /** @param dimensions the dimensions for which requests have keys */
  constructor(policies: readonly Policy[], dimensions: readonly string[] = [DEFAULT_DIMENSION]) {
    const several = dimensions.length > 1;
    this.#engine = new Engine(policies, several);
    this.#dimensions = dimensions;
    this.#clients = dimensions.map(() => -1);
    this.#hit = dimensions.map(() => false);
    const effects = this.#engine.policies.map(({ name, traits: { capacity } }, i) => {
      const policy = policies[i]!;
      const side = several ? dimensions.indexOf(policy.by ?? DEFAULT_DIMENSION) : 0;
      const none = { denied: 0, first: undefined, last: undefined };
      return [
        name,
        { number: i, name, policy, capacity, side, peaks: this.#keys.column(Uint32Array), ...none },
      ] as const;
    });
    this.#policies = new Map<string, Effect>(effects);
    this.#timeline = new Timeline(2 + policies.length);
  }

  /** Decides the next request. Returns whether it is admitted. */
  add(key: Key, time: number): boolean {
    const decision = this.#engine.decide(key, time);
    this.#number(key);
    if (this.#admitted + this.#deniedSum === 0) this.#start = time;
    this.#end = time;
    const counts = this.#timeline.at(time);
    decision?.policies.forEach((verdict) => this.#judge(verdict, time, counts));
    if (decision?.allowed === false) {
      this.#deniedSum += 1;
      counts[1]! += 1;
      this.#clients.forEach((client, side) => this.#hit[side] && this.#deny(client, time));
      return false;
    }
    this.#admitted += 1;
    counts[0]! += 1;
    for (const client of this.#clients) if (client >= 0) this.#run[client] = 0;
    const delay = decision?.delayMs ?? 0;
    if (delay > 0) this.#held += 1;
    this.#longestHold = Math.max(this.#longestHold, delay);
    return true;
  }

  #number(key: Key): void {
    const isSole = typeof key === 'string';
    this.#dimensions.forEach((dimension, side) => {
      const text = isSole ? key : key[dimension];
      this.#hit[side] = false;
      this.#clients[side] = -1;
      if (text === undefined) return;
      const client = this.#keys.numberOf(isSole ? text : shownKeys({ [dimension]: text })[0]!);
      this.#clients[side] = client;
      this.#side[client] = side;
      this.#requests[client]! += 1;
    });
  }

  #judge({ name, allowed, remaining }: Decision['policies'][number], time: number, counts: number[]): void {
    const effect = this.#policies.get(name)!;
    const { number, capacity, side, peaks, policy } = effect;
    const client = this.#clients[side]!;
    peaks[client] = Math.max(peaks[client]!, capacity - remaining);
    if (allowed) return;
    effect.denied += 1;
    effect.first ??= time;
    effect.last = time;
    this.#by[client] = (this.#by[client]! | (1 << number)) >>> 0;
    counts[2 + number]! += 1;
    if (!policy.shadow) this.#hit[side] = true;
  }

  #deny(client: number, time: number): void {
    if (this.#denied[client]! === 0) this.#first[client] = time;
    this.#denied[client]! += 1;
    this.#last[client] = time;
    const run = (this.#run[client]! += 1);
    if (run === 1) this.#runAt[client] = time;
    if (run > this.#streak[client]!) {
      this.#streak[client] = run;
      this.#streakAt[client] = this.#runAt[client]!;
    }
  }

  /** The denials of each client. They are numbered in order of appearance. */
  get denials(): Uint32Array {
    return this.#denied.slice(0, this.#keys.names.length);
  }

  /** @param top the number of denied clients to name */
  result(top: number) {
    const denying = this.#clientsWhere((client) => this.#denied[client]! > 0);
    return {
      requests: this.#admitted + this.#deniedSum,
      admitted: this.#admitted,
      denied: this.#deniedSum,
      /** Requests that were admitted, but held until their turn (leaky bucket with maxDelay). */
      held: this.#held,
      longestHold: this.#longestHold,
      clients: this.#keys.names.length,
      deniedClients: denying.length,
      /** The client with the most requests. */
      busiest: this.#keys.largest(this.#requests),
      first: this.#start,
      last: this.#end,
      policies: [...this.#policies.values()].map((effect) => this.#policyResult(effect)),
      /** The clients denied most often. */
      top: denying
        .sort((a, b) => this.#denied[b]! - this.#denied[a]!)
        .slice(0, top)
        .map((client) => this.#clientResult(client)),
      timeline: {
        width: this.#timeline.width,
        intervals: [...this.#timeline.intervals()].map(([start, [admitted, denied, ...policies]]) => ({
          ...{ start, admitted: admitted!, denied: denied!, policies },
        })),
      },
    };
  }

  #clientsWhere(holds: (client: number) => boolean): number[] {
    const found: number[] = [];
    for (let i = 0; i < this.#keys.names.length; i++) if (holds(i)) found.push(i);
    return found;
  }

  #isDeniedBy(client: number, { number }: Effect): boolean {
    return ((this.#by[client]! >>> number) & 1) === 1;
  }

  /**
   * The denials by a policy, or those that a shadow would have made, and its clients: those with a key of its dimension. `use` has the clients by
   * the largest part of the capacity that they used, in tenths, and last the denied clients.
   */
  #policyResult(effect: Effect) {
    const { name, policy, side, capacity, peaks, denied, first, last } = effect;
    const clients = this.#clientsWhere((client) => this.#side[client] === side);
    const use = new Array<number>(USES).fill(0);
    for (const client of clients) {
      const tenth = Math.ceil((10 * peaks[client]!) / capacity) - 1;
      use[this.#isDeniedBy(client, effect) ? USES - 1 : Math.min(9, Math.max(0, tenth))]! += 1;
    }
    return { name, policy, clients: use.at(-1)!, of: clients.length, denied, first, last, use };
  }

  /** The denials of a client, with the most in a row, and when they began. */
  #clientResult(client: number) {
    const effects = [...this.#policies.values()].filter((effect) => this.#isDeniedBy(client, effect));
    return {
      key: this.#keys.names[client]!,
      requests: this.#requests[client]!,
      denied: this.#denied[client]!,
      first: this.#first[client]!,
      last: this.#last[client]!,
      streak: this.#streak[client]!,
      streakAt: this.#streakAt[client]!,
      policies: effects.map(({ name }) => name),
    };
  }
}

export interface Results {
  readonly result: ReplayResult;
  readonly logs: readonly LogSummary[];
  /** Policies that are not replayed. */
  readonly left: readonly string[];
  readonly compared: Comparison | undefined;
}

export type Comparison = ReturnType<typeof compare>;

/** Compares two replays of the same requests. A client has the same number in both. @param left policies of the second set that are not replayed */
export function compare(first: Replay, second: Replay, left: readonly string[], top: number) {
  /** The clients that both sets deny, or only one of them. */
  const sums = { both: 0, firstOnly: 0, secondOnly: 0 };
  const others = second.denials;
  first.denials.forEach((denials, client) => {
    const isInSecond = others[client]! > 0;
    if (denials > 0) sums[isInSecond ? 'both' : 'firstOnly'] += 1;
    else if (isInSecond) sums.secondOnly += 1;
  });
  return { result: second.result(top), left, ...sums };
}
