// The denials of single keys by minute and cause, for 24 hours: why a key was denied in the past.

import { HOUR_MS, MINUTE_MS } from './times.js';

/** The time for which denials are kept, ms. Each hour has a record of its own. */
export const DENIALS_LIFE_MS = 24 * HOUR_MS;

/** The most denied keys of an hour. With minutes and causes, 24 hours of them take less than 10 MB. */
export const MAX_KEYS_PER_HOUR = 540;

export const MAX_CAUSES = 8;

/** The most keys that a process keeps until they are written, and that it writes at a time. */
const MAX_PENDING_KEYS = 2000;
const MAX_KEYS_PER_WRITE = 50;

/** The same for keys that were denied because of the key of another dimension: a client with one denied key may send any number of them. */
const MAX_PENDING_OTHERS = 500;
const MAX_OTHERS_PER_WRITE = 25;

export interface DenialCount {
  /** The key in the notation of owner texts, with its limiter. */
  readonly owner: string;
  /** The start of the minute, ms since 1970. */
  readonly minute: number;
  readonly cause: string;
  count: number;
  /** The time of the first and of the last of these denials, ms since 1970, to a second. */
  readonly first: number;
  last: number;
}

export type DenialCounts = readonly DenialCount[];

/** The cause of a denial in a record: the name of a policy, or a reason after an exclamation mark. It contains no separator. */
export const causeOf = (policy: string | undefined, reason: string | undefined): string =>
  policy === undefined ? `!${encodeURIComponent(reason ?? '')}` : encodeURIComponent(policy.toWellFormed());

/** The denials of this process that are not yet written. */
class PendingDenials {
  readonly #pending = new Map<string, DenialCount>();
  readonly #most: number;

  constructor(most = MAX_PENDING_KEYS) {
    this.#most = most;
  }

  /** @param now the time of the store, ms */
  add(owner: string, cause: string, count: number, now: number): void {
    const minute = now - (now % MINUTE_MS);
    const id = `${minute} ${cause} ${owner}`;
    const known = this.#pending.get(id);
    if (known) {
      known.count += count;
      known.last = now;
    } else if (this.#pending.size < this.#most) {
      this.#pending.set(id, { owner, minute, cause, count, first: now, last: now });
    }
  }

  /** The next denials to write, which are then no longer pending, the oldest first. */
  take(): DenialCount[] {
    return this.#taken([...this.#pending].slice(0, MAX_KEYS_PER_WRITE));
  }

  /** The denials of the most denied keys. */
  takeMost(most: number): DenialCount[] {
    if (this.#pending.size === 0) return [];
    return this.#taken([...this.#pending].sort(([, a], [, b]) => b.count - a.count).slice(0, most));
  }

  #taken(taken: readonly [id: string, denial: DenialCount][]): DenialCount[] {
    for (const [id] of taken) this.#pending.delete(id);
    return taken.map(([, denial]) => denial);
  }
}

/** The pending denials of keys that decided, and those of the other keys of the same requests. */
export class DenialBooks {
  readonly own = new PendingDenials();
  readonly other = new PendingDenials(MAX_PENDING_OTHERS);

  /** The next denials to write. The other keys have the room that is left. */
  take(): DenialCounts {
    const own = this.own.take();
    const room = Math.min(MAX_OTHERS_PER_WRITE, MAX_KEYS_PER_WRITE - own.length);
    return [...own, ...this.other.takeMost(room)];
  }
}

export interface KeyDenials {
  first: number;
  last: number;
  /** By cause, then by the start of the minute. */
  readonly causes: Map<string, Map<number, number>>;
}

/**
 * The record of a key and an hour as text: the first and the last denial, then a line for each cause with pairs of a minute of the hour and a
 * count. `count.lua` writes the same text.
 */
export function denialsText({ first, last, causes }: KeyDenials, hour: number): string {
  const lines = [...causes].map(([cause, minutes]) => {
    const pairs = [...minutes].map(([minute, count]) => `${(minute - hour) / MINUTE_MS}:${count}`);
    return `${cause} ${pairs.join(' ')}\n`;
  });
  return `${first} ${last}\n${lines.join('')}`;
}

/** Parses a record. @returns undefined if it is not one */
export function parseDenials(text: string, hour: number): KeyDenials | undefined {
  const [head = '', ...lines] = text.trimEnd().split('\n');
  const times = /^(\d+) (\d+)$/.exec(head);
  if (!times) return undefined;
  const causes = new Map<string, Map<number, number>>();
  for (const line of lines) {
    const [cause = '', ...pairs] = line.split(' ');
    const minutes = pairs.map((pair) => pair.split(':').map(Number) as [number, number]);
    causes.set(cause, new Map(minutes.map(([minute, count]) => [hour + minute * MINUTE_MS, count])));
  }
  return { first: Number(times[1]), last: Number(times[2]), causes };
}

export function addDenial(known: KeyDenials | undefined, denial: DenialCount): KeyDenials {
  const { minute, cause, count, first, last } = denial;
  if (!known) return { first, last, causes: new Map([[cause, new Map([[minute, count]])]]) };
  known.first = Math.min(known.first, first);
  known.last = Math.max(known.last, last);
  const minutes = known.causes.get(cause);
  if (minutes) minutes.set(minute, (minutes.get(minute) ?? 0) + count);
  else if (known.causes.size < MAX_CAUSES) known.causes.set(cause, new Map([[minute, count]]));
  return known;
}

/** The least denied key, which leaves for another one. Its successor inherits the number, so that a key with many denials stays. */
export const leastOf = (numbers: Iterable<readonly [key: string, number: number]>) =>
  [...numbers].reduce((a, b) => (b[1] < a[1] ? b : a));

export const hourOf = (time: number): number => time - (time % HOUR_MS);

/** The hours whose records are kept, the oldest first. */
export const hoursUntil = (now: number): number[] =>
  Array.from(
    { length: DENIALS_LIFE_MS / HOUR_MS + 1 },
    (_, i) => hourOf(now) - DENIALS_LIFE_MS + i * HOUR_MS,
  );
