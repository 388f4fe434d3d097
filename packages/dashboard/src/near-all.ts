import type { Admin, JudgedKey, KeySearch, KeyVerdictFind } from 'headgate/admin';
import { Cached } from './cached.js';
import type { Show, ShownKey } from './hidden.js';
import { byUse, nearIn, seenWith, withTrend, type NearFind, type NearKey, type Seen } from './near-finds.js';
import { isUnknown, type Searches } from './searches.js';

/** The keys that rounds read a second on average, so that the list costs Redis less than half a millisecond a second; and at once at first. */
const KEYS_PER_SECOND = 15;
const FIRST_KEYS = 1_000;

/** The steps of a search that cost as much as reading a key. A step without a key of Headgate has a cost, too. */
const STEPS_PER_KEY = 1;

/** The keys that are read before the searches of other visitors have their turn, and the most steps and the longest time for them, ms. */
const SLICE_KEYS = 100;
const SLICE_STEPS = 200;
const SLICE_MS = 1_000;

const SHOWN = 50;

/** The age of an answer, ms. All visitors share it. */
const ANSWER_MS = 5_000;

/** The time without a visitor after which a round begins anew, ms. */
const LEFT_MS = 60_000;

/** The longest time between two rounds of a trend, ms, or this many rounds. */
const MAX_GAP_MS = 40_000;
const MAX_GAP_ROUNDS = 3;

export interface NearKeyOfAll extends NearKey {
  /** The limiter. */
  readonly name: ShownKey;
}

export interface NearOfAll {
  readonly rows: readonly NearKeyOfAll[];
  /** The end of the last whole round, ms since 1970, or `null` before the first one has ended. */
  readonly at: number | null;
  /** The keys that the last whole round read, or, before its end, the first one so far. */
  readonly checked: number;
  /** Whether the last round ended early, or found more keys than are listed. */
  readonly isCut: boolean;
  /** The limiters whose limits are unknown: they depend on the request, or are not published. */
  readonly unjudged: readonly string[];
  /** The number of keys without a known name. */
  readonly unnamed: number;
}

interface Listed {
  readonly name: ShownKey;
  readonly find: NearFind;
  readonly seen: readonly Seen[];
}

/** A search of the keys of all limiters, which goes on where the last slice ended. */
class Round {
  readonly startedAt = Date.now();
  readonly found = new Map<string, Listed>();
  readonly search: KeySearch;
  readonly #finds: AsyncIterator<KeyVerdictFind>;
  readonly #stop: AbortController;
  readonly #steps: { count: number };
  isDone = false;

  private constructor(search: KeySearch, stop: AbortController, steps: { count: number }) {
    this.search = search;
    this.#finds = search[Symbol.asyncIterator]();
    this.#stop = stop;
    this.#steps = steps;
  }

  static async begin(admin: Admin): Promise<Round> {
    const stop = new AbortController();
    const steps = { count: 0 };
    const progress = (): void => {
      if (++steps.count >= SLICE_STEPS) stop.abort();
    };
    const kinds = ['admitted', 'limited'] as const;
    const search = await admin.keys({ kinds, count: SLICE_KEYS, progress, signal: stop.signal });
    return new Round(search, stop, steps);
  }

  get isCut(): boolean {
    return this.#stop.signal.aborted;
  }

  /** Reads some more keys. @returns their cost, in keys */
  async slice(take: (find: JudgedKey) => void): Promise<number> {
    const before = this.search.checked;
    this.#steps.count = 0;
    const timer = setTimeout(() => this.#stop.abort(), SLICE_MS);
    try {
      while (this.search.checked - before < SLICE_KEYS) {
        const next = await this.#finds.next();
        this.isDone = next.done === true;
        if (this.isDone) break;
        const find = next.value as KeyVerdictFind;
        if (find.kind === 'admitted' || (find.kind === 'limited' && find.likely)) take(find);
      }
    } finally {
      clearTimeout(timer);
    }
    return this.search.checked - before + this.#steps.count / STEPS_PER_KEY;
  }
}

/**
 * Lists the keys of all limiters that have used most of a limit. Rounds read all keys, so that also keys of long windows are found that have no
 * requests now; in small slices, at a rate that does not depend on the number of visitors, and only while one asks.
 */
export class NearAll {
  readonly #admin: Admin;
  readonly #searches: Searches;
  readonly #show: Show;
  readonly #answer = new Cached(ANSWER_MS, () => this.#advance());
  #round: Round | undefined;
  /** The rows of the last whole round, by id. */
  #listed: ReadonlyMap<string, Listed> = new Map<string, Listed>();
  #last: Omit<NearOfAll, 'rows'> | undefined;
  #roundMs = 0;
  /** The keys that may be read at this time. */
  #budget = FIRST_KEYS;
  #budgetAt = Date.now();

  constructor(admin: Admin, searches: Searches, show: Show) {
    this.#admin = admin;
    this.#searches = searches;
    this.#show = show;
  }

  read(): Promise<NearOfAll> {
    return this.#answer.get();
  }

  /** Makes the next reading go on at once, after a change that was made just now. A new round at each change would never end. */
  expire(): void {
    this.#answer.expire();
  }

  async #advance(): Promise<NearOfAll> {
    const now = Date.now();
    const passed = now - this.#budgetAt;
    this.#budget = Math.min(FIRST_KEYS, this.#budget + (KEYS_PER_SECOND * passed) / 1000);
    this.#budgetAt = now;
    if (passed > LEFT_MS) this.#round = undefined;
    try {
      while (this.#budget > 0) {
        const round = (this.#round ??= await Round.begin(this.#admin));
        this.#budget -= await this.#searches.inTurn(() => round.slice((find) => this.#take(round, find)));
        if (!round.isDone) continue;
        this.#end(round);
        break;
      }
    } catch (error) {
      this.#round = undefined;
      if (!isUnknown(error)) throw error;
      return { ...EMPTY, at: now };
    }
    return this.#list();
  }

  #take(round: Round, find: JudgedKey): void {
    const { name } = find;
    const maxGapMs = Math.max(MAX_GAP_MS, MAX_GAP_ROUNDS * this.#roundMs);
    for (const each of nearIn(find, this.#show)) {
      const seen = seenWith(this.#listed.get(each.id)?.seen, each, Date.now(), maxGapMs);
      round.found.set(each.id, { name, find: each, seen });
    }
  }

  #end(round: Round): void {
    this.#round = undefined;
    this.#roundMs = Date.now() - round.startedAt;
    this.#listed = round.found;
    this.#last = { ...factsOf(round), at: Date.now() };
  }

  /** The rows of the last round, with those that the present one has read again. */
  #list(): NearOfAll {
    const round = this.#round;
    const listed = [...new Map([...this.#listed, ...(round?.found ?? [])]).values()];
    const rows = listed.map(({ name, find, seen }) => ({ ...withTrend(find, seen), name })).sort(byEnd);
    const facts = this.#last ?? (round ? { ...factsOf(round), at: null } : EMPTY);
    return { ...facts, rows: rows.slice(0, SHOWN), isCut: facts.isCut || rows.length > SHOWN };
  }
}

/** The order: keys that are soon full first, then the fullest, and at last those that are full, which are listed as denied, too. */
const byEnd = (a: NearKey, b: NearKey): number =>
  Number(isFull(a)) - Number(isFull(b)) || (endOf(a) === endOf(b) ? byUse(a, b) : endOf(a) - endOf(b));

const isFull = ({ used, limit }: NearKey): boolean => used >= limit;

const endOf = ({ fullInMs }: NearKey): number => fullInMs ?? Number.MAX_SAFE_INTEGER;

const EMPTY: NearOfAll = { rows: [], at: null, checked: 0, isCut: false, unjudged: [], unnamed: 0 };

const factsOf = ({ search: { checked, unjudged, unnamed }, isCut }: Round) => ({
  ...{ checked, unjudged, unnamed, isCut },
});
