import type { Key, Policy } from '../../index.js';
import { Engine } from './engine.js';
import { shownKeys } from './dimensions.js';
import { Keys, type Column } from './keys.js';
import type { LogSummary } from './log-file.js';
import { DEFAULT_DIMENSION } from './policies.js';
import { Timeline } from './timeline.js';

/** The effect of a policy on a log. */
export interface PolicyResult {
  readonly name: string;
  readonly policy: Policy;
  /** Requests that the policy denied, or would have denied as a shadow. */
  readonly denied: number;
  readonly clients: number;
  /** The clients that the policy could deny: those with a key of its dimension. */
  readonly of: number;
  /** The time of the first denial, ms since the epoch, or `undefined` if there was none. */
  readonly first: number | undefined;
  readonly last: number | undefined;
  /** The clients by the largest part of the capacity that they used, in tenths. The last entry counts the denied clients. */
  readonly use: readonly number[];
}

/** The results of a client that was denied. */
export interface ClientResult {
  readonly key: string;
  readonly requests: number;
  readonly denied: number;
  readonly first: number;
  readonly last: number;
  /** The most denials in a row, and when they began. */
  readonly streak: number;
  readonly streakAt: number;
  /** The names of the policies that denied it. */
  readonly policies: readonly string[];
}

export interface Interval {
  readonly start: number;
  readonly admitted: number;
  readonly denied: number;
  /** Denied requests by each policy. */
  readonly policies: readonly number[];
}

export interface ReplayResult {
  readonly requests: number;
  readonly admitted: number;
  readonly denied: number;
  /** Requests that were admitted, but held until their turn (leaky bucket with maxDelay). */
  readonly held: number;
  readonly longestHold: number;
  readonly clients: number;
  readonly deniedClients: number;
  /** The client with the most requests. */
  readonly busiest: { readonly key: string; readonly value: number };
  readonly first: number;
  readonly last: number;
  readonly policies: readonly PolicyResult[];
  /** The clients denied most often. */
  readonly top: readonly ClientResult[];
  readonly timeline: { readonly width: number; readonly intervals: readonly Interval[] };
}

/** Ten tenths of the capacity, and one more for clients that were denied. */
const USES = 11;

/**
 * Sends the requests of a log to a limiter, and counts. It keeps about 60 bytes per client, and 4 more per policy. With several dimensions,
 * each key of each dimension is a client.
 */
export class Replay {
  readonly #engine: Engine;
  readonly #keys = new Keys();
  /** The number of the key's dimension. */
  readonly #side = this.#keys.column('count');
  readonly #requests = this.#keys.column('count');
  readonly #denied = this.#keys.column('count');
  /** One bit per policy. */
  readonly #by = this.#keys.column('count');
  readonly #first = this.#keys.column('time');
  readonly #last = this.#keys.column('time');
  readonly #run = this.#keys.column('count');
  readonly #runAt = this.#keys.column('time');
  readonly #streak = this.#keys.column('count');
  readonly #streakAt = this.#keys.column('time');
  readonly #timeline: Timeline;
  /** The dimensions of the requests. */
  readonly #dimensions: readonly string[];
  readonly #policies: {
    readonly name: string;
    readonly policy: Policy;
    readonly capacity: number;
    /** The number of its dimension. */
    readonly side: number;
    /** The most that each client used. */
    readonly peaks: Column;
    denied: number;
    first: number | undefined;
    last: number | undefined;
  }[];
  /** For each name, the number of the policy. */
  readonly #numbers: ReadonlyMap<string, number>;
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
    this.#policies = this.#engine.policies.map(({ name, traits: { capacity } }, i) => {
      const policy = policies[i]!;
      const side = several ? dimensions.indexOf(policy.by ?? DEFAULT_DIMENSION) : 0;
      const none = { denied: 0, first: undefined, last: undefined };
      return { name, policy, capacity, side, peaks: this.#keys.column('count'), ...none };
    });
    this.#numbers = new Map(this.#policies.map(({ name }, i) => [name, i]));
    this.#timeline = new Timeline(2 + policies.length);
  }

  /** Decides the next request. Returns whether it is admitted. */
  add(key: Key, time: number): boolean {
    const decision = this.#engine.decide(key, time);
    this.#number(key);
    if (this.#admitted + this.#deniedSum === 0) this.#start = time;
    this.#end = time;
    const counts = this.#timeline.at(time);
    const allowed = decision?.allowed ?? true;
    for (const verdict of decision?.policies ?? []) {
      const i = this.#numbers.get(verdict.name)!;
      const policy = this.#policies[i]!;
      const client = this.#clients[policy.side]!;
      if (!verdict.allowed) {
        policy.denied += 1;
        policy.first ??= time;
        policy.last = time;
        this.#by.values[client] = (this.#by.values[client]! | (1 << i)) >>> 0;
        counts[2 + i]! += 1;
        if (!policy.policy.shadow) this.#hit[policy.side] = true;
      }
      const used = policy.capacity - verdict.remaining;
      const { values } = policy.peaks;
      if (used > values[client]!) values[client] = used;
    }
    if (allowed) {
      this.#admitted += 1;
      counts[0]! += 1;
      for (const client of this.#clients) if (client >= 0) this.#run.values[client] = 0;
      const delay = decision?.delayMs ?? 0;
      if (delay > 0) this.#held += 1;
      this.#longestHold = Math.max(this.#longestHold, delay);
    } else {
      this.#deniedSum += 1;
      counts[1]! += 1;
      this.#clients.forEach((client, side) => this.#hit[side] && this.#deny(client, time));
    }
    return allowed;
  }

  /** Records the clients of the current request. */
  #number(key: Key): void {
    const isSole = typeof key === 'string';
    for (let side = 0; side < this.#clients.length; side++) {
      const dimension = this.#dimensions[side]!;
      const text = isSole ? key : key[dimension];
      const id = text === undefined ? undefined : isSole ? text : shownKeys({ [dimension]: text })[0]!;
      const client = id === undefined ? -1 : this.#keys.numberOf(id);
      this.#clients[side] = client;
      this.#hit[side] = false;
      if (client < 0) continue;
      this.#side.values[client] = side;
      this.#requests.values[client]! += 1;
    }
  }

  #deny(client: number, time: number): void {
    if (this.#denied.values[client]! === 0) this.#first.values[client] = time;
    this.#denied.values[client]! += 1;
    this.#last.values[client] = time;
    const run = (this.#run.values[client]! += 1);
    if (run === 1) this.#runAt.values[client] = time;
    if (run > this.#streak.values[client]!) {
      this.#streak.values[client] = run;
      this.#streakAt.values[client] = this.#runAt.values[client]!;
    }
  }

  /** The number of clients. They are numbered in order of appearance. */
  get size(): number {
    return this.#keys.size;
  }

  /** Whether a client was ever denied. */
  isDenied(client: number): boolean {
    return this.#denied.values[client]! > 0;
  }

  /** @param top the number of denied clients to name */
  result(top: number): ReplayResult {
    return {
      requests: this.#admitted + this.#deniedSum,
      admitted: this.#admitted,
      denied: this.#deniedSum,
      held: this.#held,
      longestHold: this.#longestHold,
      clients: this.#keys.size,
      deniedClients: this.#count((client) => this.isDenied(client)),
      busiest: this.#keys.largest(this.#requests),
      first: this.#start,
      last: this.#end,
      policies: this.#policies.map(({ name, policy, side, denied, first, last }, i) => ({
        name,
        policy,
        clients: this.#count((client) => this.#deniedBy(client, i)),
        of: this.#count((client) => this.#side.values[client] === side),
        denied,
        first,
        last,
        use: this.#use(i),
      })),
      top: this.#top(top),
      timeline: {
        width: this.#timeline.width,
        intervals: [...this.#timeline.intervals()].map(([start, [admitted, denied, ...by]]) => ({
          start,
          admitted: admitted!,
          denied: denied!,
          policies: by,
        })),
      },
    };
  }

  #count(matches: (client: number) => boolean): number {
    let count = 0;
    for (let i = 0; i < this.#keys.size; i++) if (matches(i)) count += 1;
    return count;
  }

  #deniedBy(client: number, policy: number): boolean {
    return ((this.#by.values[client]! >>> policy) & 1) === 1;
  }

  #use(number: number): number[] {
    const use = new Array<number>(USES).fill(0);
    const { side, capacity, peaks } = this.#policies[number]!;
    for (let i = 0; i < this.#keys.size; i++) {
      if (this.#side.values[i] !== side) continue;
      const tenth = Math.ceil((10 * peaks.values[i]!) / capacity) - 1;
      use[this.#deniedBy(i, number) ? USES - 1 : Math.min(9, Math.max(0, tenth))]! += 1;
    }
    return use;
  }

  #top(count: number): ClientResult[] {
    const denied = this.#denied.values;
    const all: number[] = [];
    for (let i = 0; i < this.#keys.size; i++) if (denied[i]! > 0) all.push(i);
    const chosen = all.sort((a, b) => denied[b]! - denied[a]!).slice(0, count);
    const wanted = new Set(chosen);
    const names = this.#keys.namesOf((i) => wanted.has(i));
    return chosen.map((i) => ({
      key: names.get(i)!,
      requests: this.#requests.values[i]!,
      denied: denied[i]!,
      first: this.#first.values[i]!,
      last: this.#last.values[i]!,
      streak: this.#streak.values[i]!,
      streakAt: this.#streakAt.values[i]!,
      policies: this.#policies.filter((_, j) => this.#deniedBy(i, j)).map(({ name }) => name),
    }));
  }
}

/** The results of a replay. */
export interface Results {
  readonly result: ReplayResult;
  readonly logs: readonly LogSummary[];
  /** Policies that are not replayed. */
  readonly left: readonly string[];
  readonly compared: Comparison | undefined;
}

/** The results of two sets of policies for one log. */
export interface Comparison {
  /** The result of the second set. */
  readonly result: ReplayResult;
  /** Policies of the second set that are not replayed. */
  readonly left: readonly string[];
  /** The clients that both sets deny, or only one of them. */
  readonly both: number;
  readonly firstOnly: number;
  readonly secondOnly: number;
}

/** Compares two replays of the same requests. A client has the same number in both. */
export function compare(first: Replay, second: Replay, left: readonly string[], top: number): Comparison {
  let [both, firstOnly, secondOnly] = [0, 0, 0];
  for (let client = 0; client < first.size; client++) {
    const [a, b] = [first.isDenied(client), second.isDenied(client)];
    if (a && b) both += 1;
    else if (a) firstOnly += 1;
    else if (b) secondOnly += 1;
  }
  return { result: second.result(top), left, both, firstOnly, secondOnly };
}
