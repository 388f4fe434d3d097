import {
  USE_LEVELS,
  type Admin,
  type BannedKey,
  type KeyRates,
  type KeyView,
  type OverriddenKey,
} from 'headgate/admin';
import { CachedByName } from './cached.js';
import { changeRow, type ChangeRow } from './change-row.js';
import type { Show, ShownKey } from './hidden.js';
import { choice, optional, refuse, text, type Body } from './input.js';
import type { Now } from './now.js';

/** The most bans and overrides of an opened limiter. */
const LISTED = 50;

/** The most changes of a screen, and of the changes of one key. */
const LOGGED = 500;
const LOGGED_OF_KEY = 50;

/** The newest changes among which those of a key are searched. */
const SCANNED_OF_KEY = 2_000;

/** The bounds of a search for keys near their limit, so that no visitor causes a search of all keys. */
const SAMPLED_KEYS = 3_000;
const SAMPLE_TIMEOUT_MS = 2_000;
const SAMPLE_SHOWN = 200;

/** The age of the lists of an opened limiter, ms. A change from the page shows at once. */
const LISTS_MS = 10_000;

/** The ages of the answers about another limit, ms. */
const USES_MS = 20_000;
const SAMPLES_MS = 30_000;

/** A network of addresses, apart from the keys that limiters make of IPv6 addresses. */
const NETWORK = /^(\d{1,3}(\.\d{1,3}){3}\/(\d|[12]\d|3[01])|[\da-f:]*:[\da-f:]*\/([1-4]?\d|5[0-5]))$/i;

const AGES = ['1h', '1d', '7d', '30d', 'all'] as const;

/** The number of denied keys with their state, in an opened limiter. */
const JUDGED = 5;

/** The state of a denied key. */
interface Judged {
  readonly retryAfterMs: number | null;
  readonly bannedForMs: number;
  readonly isOverridden: boolean;
}

interface Lists {
  /** By dimension and key. */
  readonly judged: ReadonlyMap<string, Judged>;
  readonly bans: readonly object[];
  readonly overrides: readonly object[];
}

/** The answers to the questions of the page. None changes anything. */
export class Reads {
  readonly #admin: Admin;
  readonly #now: Now;
  readonly #show: Show;
  readonly #lists: CachedByName<Lists>;
  readonly #uses: CachedByName<object>;
  readonly #samples: CachedByName<object>;

  constructor(admin: Admin, now: Now, show: Show) {
    this.#admin = admin;
    this.#now = now;
    this.#show = show;
    this.#lists = new CachedByName(LISTS_MS, (name) => this.#readLists(name));
    this.#uses = new CachedByName(USES_MS, (name) => this.#readUse(name));
    this.#samples = new CachedByName(SAMPLES_MS, (names) =>
      this.#readSample(...(JSON.parse(names) as [string, string])),
    );
  }

  /** The keys, bans and overrides of an opened limiter. */
  async limiter(name: string): Promise<object> {
    const [rates, { judged, bans, overrides }] = await Promise.all([
      this.#now.keysOf(name),
      this.#lists.get(name),
    ]);
    const keys = rates.map((each) => ({ ...each, ...judged.get(idOf(each)), key: this.#show(each.key) }));
    return { name, keys, bans, overrides };
  }

  /** Makes the next reading show a change that was made just now. */
  expire(): void {
    this.#lists.expire();
  }

  async #readLists(name: string): Promise<Lists> {
    const bans = await firstOf(this.#admin.bans({ name, scan: 'never' }), LISTED);
    const overrides = await firstOf(this.#admin.overrides({ name }), LISTED);
    const denied = (await this.#now.keysOf(name)).filter((each) => each.denied > 0).slice(0, JUDGED);
    const judged = await Promise.all(
      denied.map(async (each) => [idOf(each), await this.#judge(name, each)] as const),
    );
    return {
      judged: new Map(judged),
      bans: bans.map((ban: BannedKey) => ({ ...ban, ...this.#hidden(ban) })),
      overrides: overrides.map((each: OverriddenKey) => ({ ...each, ...this.#hidden(each) })),
    };
  }

  /** The state of a key. Without a ban or a wait if the limiter's answer depends on the request. */
  async #judge(name: string, { key, dimension }: KeyRates): Promise<Judged> {
    const unknown = { retryAfterMs: null, bannedForMs: 0, isOverridden: false };
    if (typeof key !== 'string') return unknown;
    const options = { name, raw: true, ...(dimension !== undefined && { dimension }) };
    const [view] = await this.#admin.key(key, options).catch(() => []);
    if (!view) return unknown;
    const { retryAfterMs, bannedForMs, override } = view;
    return { retryAfterMs, bannedForMs, isOverridden: override !== null && !override.all };
  }

  #hidden({ key, within }: { key?: ShownKey; within?: string }): { key?: ShownKey; within?: ShownKey } {
    return {
      ...(key !== undefined && { key: this.#show(key) }),
      ...(within !== undefined && { within: this.#show(within) }),
    };
  }

  /** The answers of all limiters to a typed key, and the changes of this key. */
  async key(body: Body): Promise<object> {
    const key = text(body, 'key');
    const dimension = optional(body, 'dimension', text);
    // A network has many keys, and so no single answer. It can be banned and reset.
    const isNetwork = dimension === undefined && NETWORK.test(key);
    const options = { ...(dimension !== undefined && { dimension }) };
    const views = isNetwork ? [] : await this.#admin.key(key, options);
    const keys = new Set([key, ...views.map((view) => view.key)]);
    const changes: ChangeRow[] = [];
    let scanned = 0;
    for await (const change of this.#admin.log()) {
      const { key: changed, network } = change;
      // The visitor typed this key, so it is not hidden here.
      if ([changed, network].some((each) => typeof each === 'string' && keys.has(each)))
        changes.push(changeRow(change, (each) => each as never));
      if (changes.length === LOGGED_OF_KEY || ++scanned === SCANNED_OF_KEY) break;
    }
    return { key, isNetwork, views: views satisfies KeyView[], changes };
  }

  /** The changes, the newest first. */
  async log(query: URLSearchParams): Promise<object> {
    const since = choice('since', query.get('since') ?? '1d', AGES);
    const name = query.get('name') || undefined;
    const options = { ...(since !== 'all' && { since }), ...(name !== undefined && { name }) };
    const rows = await firstOf(this.#admin.log(options), LOGGED);
    return { rows: rows.map((row) => changeRow(row, this.#show)), isCut: rows.length === LOGGED };
  }

  /** The distribution of use of a limiter's policies in the last hour. */
  use(name: string): Promise<object> {
    return this.#uses.get(name);
  }

  async #readUse(name: string): Promise<object> {
    const { limiters } = await this.#admin.history({ minutes: 60, name });
    const use = limiters.find((each) => each.name === name)?.use ?? {};
    const sums = Object.entries(use).map(([policy, minutes]) => [
      policy,
      USE_LEVELS.map((_, i) => minutes.reduce((sum, levels) => sum + (levels[i] ?? 0), 0)),
    ]);
    return { levels: USE_LEVELS, use: Object.fromEntries(sums) as Record<string, number[]> };
  }

  /** A sample of keys, the same for all viewers, with their rest of a policy, the smallest first. */
  sample(body: Body): Promise<object> {
    return this.#samples.get(JSON.stringify([text(body, 'name'), text(body, 'policy')]));
  }

  async #readSample(name: string, policy: string): Promise<object> {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), SAMPLE_TIMEOUT_MS);
    try {
      const search = await this.#admin.keys({ name, kinds: ['admitted', 'limited'], signal: stop.signal });
      const found: { key: ShownKey; remaining: number; limit: number }[] = [];
      for await (const find of search) {
        if (find.kind !== 'admitted' && find.kind !== 'limited') continue;
        const verdict = find.policies.find((each) => each.name === policy);
        if (!verdict) continue;
        found.push({ key: this.#show(find.key), remaining: verdict.remaining, limit: verdict.limit });
        if (found.length >= SAMPLED_KEYS) stop.abort();
      }
      found.sort((a, b) => a.remaining / a.limit - b.remaining / b.limit);
      return { keys: found.slice(0, SAMPLE_SHOWN), count: found.length, isCut: stop.signal.aborted };
    } finally {
      clearTimeout(timer);
    }
  }
}

const idOf = ({ key, dimension = '' }: Pick<KeyRates, 'key' | 'dimension'>): string =>
  JSON.stringify([dimension, key]);

async function firstOf<T>(items: AsyncIterable<T>, most: number): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) {
    found.push(item);
    if (found.length === most) break;
  }
  return found;
}

/** The limiter in a query. */
export function nameIn(query: URLSearchParams): string {
  return query.get('name') || refuse('name: missing. Pass the name of a limiter.');
}
