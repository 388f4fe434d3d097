import type { Admin, JudgedKey, KeySearch, KeyVerdictFind } from 'headgate/admin';
import { Cached } from './cached.js';
import type { Show } from './hidden.js';
import { NearRows, type NearKeyOfAll } from './near-rows.js';
import { isUnknown, type Searches } from './searches.js';

/** The keys that rounds read a second on average, so that the list costs Redis less than half a millisecond a second; and at once at first. */
const KEYS_PER_SECOND = 15;
const FIRST_KEYS = 1_000;

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

export interface NearOfAll {
  readonly rows: readonly NearKeyOfAll[];
  /** The number of earlier rows that are too old, and not yet read again. */
  readonly old: number;
  /** The end of the last whole round, ms since 1970, or `null` before the first one has ended. */
  readonly at: number | null;
  /** The keys that the last whole round read, or, before its end, the first one so far. */
  readonly checked: number;
  /** Whether the last round found more keys than are listed. */
  readonly isCut: boolean;
  /** The limiters whose limits are unknown: they depend on the request, or are not published. */
  readonly unjudged: readonly string[];
  /** The number of keys without a known name. */
  readonly unnamed: number;
}

/** A search of the keys of all limiters, which goes on where the last slice ended. */
class Round {
  readonly startedAt = Date.now();
  readonly search: KeySearch;
  readonly #finds: AsyncIterator<KeyVerdictFind>;
  readonly #pace: Pace;
  /** The next find, for which a slice may have waited until its end. */
  #next: Promise<IteratorResult<KeyVerdictFind>> | undefined;
  #paid = 0;
  isDone = false;
  /** Whether the last slice took its longest time. */
  isSlow = false;

  private constructor(search: KeySearch, pace: Pace) {
    this.search = search;
    this.#finds = search[Symbol.asyncIterator]();
    this.#pace = pace;
  }

  static async begin(admin: Admin): Promise<Round> {
    const pace = new Pace();
    const kinds = ['admitted', 'limited'] as const;
    const search = await admin.keys({ kinds, count: SLICE_KEYS, progress: () => pace.step() });
    return new Round(search, pace);
  }

  /** Reads some more keys. @returns their cost, in keys */
  async slice(take: (find: JudgedKey) => void): Promise<number> {
    const before = this.search.checked;
    const end = this.#pace.begin();
    this.isSlow = false;
    const timer = setTimeout(() => {
      this.isSlow = true;
      this.#pace.end();
    }, SLICE_MS);
    try {
      while (this.search.checked - before < SLICE_KEYS) {
        this.#next ??= this.#finds.next();
        const next = await Promise.race([this.#next, end]);
        if (!next) break;
        this.#next = undefined;
        this.isDone = next.done === true;
        if (this.isDone) break;
        const find = next.value as KeyVerdictFind;
        if (find.kind === 'admitted' || (find.kind === 'limited' && find.likely)) take(find);
      }
    } finally {
      clearTimeout(timer);
    }
    // A step without a key of Headgate costs about as much as reading a key.
    const cost = this.search.checked + this.#pace.steps;
    const due = cost - this.#paid;
    this.#paid = cost;
    return due;
  }
}

/** Ends slices after some steps, whether they find keys of Headgate or not: others may have millions of keys in the same Redis. */
class Pace {
  steps = 0;
  #last = 0;
  #isOver = false;
  #end: (() => void) | undefined;
  #goOn: (() => void) | undefined;

  /** Begins a slice. @returns a promise of its end */
  begin(): Promise<undefined> {
    this.#last = this.steps + SLICE_STEPS;
    this.#isOver = false;
    this.#goOn?.();
    return new Promise((resolve) => {
      this.#end = () => resolve(undefined);
    });
  }

  end(): void {
    this.#isOver = true;
    this.#end?.();
  }

  /** Counts a step. @returns a promise of the next slice after the last step of this one */
  step(): Promise<void> | undefined {
    if (++this.steps >= this.#last) this.end();
    if (!this.#isOver) return undefined;
    return new Promise((resolve) => {
      this.#goOn = resolve;
    });
  }
}

/**
 * Lists the keys of all limiters that have used most of a limit. Rounds read all keys, so that also keys of long windows are found that have no
 * requests now; in small slices, at a rate that does not depend on the number of visitors, and only while one asks.
 */
export class NearAll {
  readonly #admin: Admin;
  readonly #searches: Searches;
  readonly #answer = new Cached(ANSWER_MS, () => this.#advance());
  readonly #rows: NearRows;
  #round: Round | undefined;
  #last: Omit<NearOfAll, 'rows' | 'old'> | undefined;
  #roundMs = 0;
  /** The changes that were made, and those that the rows have. */
  #changes = 0;
  #updated = 0;
  /** The keys that may be read at this time. */
  #budget = FIRST_KEYS;
  #budgetAt = Date.now();

  constructor(admin: Admin, searches: Searches, show: Show) {
    this.#admin = admin;
    this.#searches = searches;
    this.#rows = new NearRows(show);
  }

  read(): Promise<NearOfAll> {
    return this.#answer.get();
  }

  /** Makes the next reading judge the listed keys again, after a change that was made just now. A new round at each change would never end. */
  expire(): void {
    this.#changes++;
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
        const round = (this.#round ??= await this.#begin());
        this.#budget -= await this.#searches.inTurn(() => round.slice((find) => this.#take(find)));
        // After a change, two readings may share the end of a round.
        if (round.isDone && this.#round === round) this.#end(round);
        // The visitor of a slow store gets the keys that were found so far.
        if (round.isDone || round.isSlow) break;
      }
      await this.#update();
    } catch (error) {
      this.#round = undefined;
      if (!isUnknown(error)) throw error;
      return { ...EMPTY, at: now };
    }
    return this.#list();
  }

  async #begin(): Promise<Round> {
    const round = await Round.begin(this.#admin);
    this.#rows.begin();
    return round;
  }

  #take(find: JudgedKey): void {
    this.#rows.take(find, Math.max(MAX_GAP_MS, MAX_GAP_ROUNDS * this.#roundMs));
  }

  #end(round: Round): void {
    this.#round = undefined;
    this.#roundMs = Date.now() - round.startedAt;
    this.#rows.end();
    this.#last = { ...this.#factsOf(round), at: Date.now() };
  }

  /** Judges the listed keys after a change, because this round may have read them before, or will read them only in an hour. */
  async #update(): Promise<void> {
    const changes = this.#changes;
    if (changes === this.#updated) return;
    await this.#searches.inTurn(() =>
      this.#rows.update(SHOWN, ({ key, name, dimension }) => {
        // A search of all keys, for a limiter that is not published, ends at once.
        const options = { name, raw: true, signal: AbortSignal.abort() };
        const whose = { ...options, ...(dimension !== undefined && { dimension }) };
        return this.#admin.key(key, whose).catch((error: unknown) => {
          if (isUnknown(error)) return [];
          throw error;
        });
      }),
    );
    this.#updated = changes;
  }

  /** The rows of the last round, with those that the present one has read again. */
  #list(): NearOfAll {
    const rows = this.#rows.list();
    const facts = this.#last ?? (this.#round ? { ...this.#factsOf(this.#round), at: null } : EMPTY);
    const isCut = facts.isCut || this.#rows.isCut || rows.length > SHOWN;
    return { ...facts, rows: rows.slice(0, SHOWN), old: this.#rows.old, isCut };
  }

  #factsOf({ search: { checked, unjudged, unnamed } }: Round) {
    return { checked, unjudged, unnamed, isCut: this.#rows.isCut };
  }
}

const EMPTY: NearOfAll = { rows: [], old: 0, at: null, checked: 0, isCut: false, unjudged: [], unnamed: 0 };
