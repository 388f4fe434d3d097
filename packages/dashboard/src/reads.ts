import {
  USE_LEVELS,
  type Admin,
  type HistoryOptions,
  type KeyRates,
  type OverriddenKey,
} from 'headgate/admin';
import { Answers } from './answers.js';
import { Cached, CachedByName } from './cached.js';
import { BanOrigins } from './ban-origins.js';
import { changeRow, FIRST_KEYS, importedRows, type ChangeRow, type ImportedRow } from './change-row.js';
import { firstOf } from './first.js';
import type { Show, ShownKey } from './hidden.js';
import { choice, optional, refuse, text, type Body } from './input.js';
import { timesLeft, type Judged } from './judges.js';
import { KeyQuestions } from './key-questions.js';
import { openedRows, readListed, totalOf, type Listed } from './listed.js';
import { NearAll, type NearOfAll } from './near-all.js';
import { Near } from './near.js';
import type { Now } from './now.js';
import { Searches, type Denied } from './searches.js';
import { Turns } from './turns.js';
import type { HasLeft } from './visitors.js';

/** The precision of the times that the page shows, ms. A younger answer counts as one of now. */
const SHOWN_MS = 1000;

/** The most changes of a screen, their age, ms, and the most logs that wait to be read. */
const LOGGED = 500;
const LOG_MS = 2_000;
const MAX_LOGS_WAITING = 20;

/** The age of the lists of an opened limiter, ms. A change from the page shows at once. */
const LISTS_MS = 10_000;

/** The age of the denied keys of an opened limiter, ms. */
const DENIED_MS = 10_000;

/** The age of the answers about another limit, ms. */
const USES_MS = 20_000;

/** The ages of the decisions of the last hour and of the last day, ms. */
const HOUR_MS = 20_000;
const DAY_MS = 120_000;

const SPANS = ['1h', '24h'] as const;

const AGES = ['1h', '1d', '7d', '30d', 'all'] as const;

/** The number of denied keys with their state, in an opened limiter. */
const JUDGED = 5;

interface Lists {
  /** By dimension and key. */
  readonly judged: ReadonlyMap<string, Judged>;
  readonly bans: Listed<object>;
  readonly overrides: Listed<object>;
  /** The ids of the recorded bans. */
  readonly banned: ReadonlySet<string>;
  readonly tenants: readonly object[];
}

/** The answers to the questions of the page. None changes anything. */
export class Reads {
  readonly #admin: Admin;
  readonly #now: Now;
  readonly #show: Show;
  readonly #lists: CachedByName<Lists>;
  readonly #denied: CachedByName<Denied & { readonly at: number }>;
  readonly #uses: CachedByName<object>;
  readonly #spans: Readonly<Record<(typeof SPANS)[number], Cached<object>>>;
  readonly #near: Near;
  readonly #nearAll: NearAll;
  /** The newest change that the keys near a limit show. */
  #newest: string | undefined;
  readonly #searches: Searches;
  readonly #origins: BanOrigins;
  readonly #questions: KeyQuestions;
  readonly #logTurns = new Turns(MAX_LOGS_WAITING);
  readonly #logs = new Answers<ChangeRow[]>(LOG_MS, this.#logTurns);
  /** The keys of imports, by the ids of the changes. */
  readonly #imports = new Answers<ImportedRow[]>(LOG_MS, this.#logTurns);

  constructor(admin: Admin, now: Now, show: Show) {
    this.#admin = admin;
    this.#now = now;
    this.#show = show;
    this.#lists = new CachedByName(LISTS_MS, (name) => this.#readLists(name));
    this.#denied = new CachedByName(DENIED_MS, async (name): Promise<Denied & { readonly at: number }> => {
      const { bans, ...denied } = await this.#searches.denied(name);
      const at = Date.now();
      const origins = await this.#origins.of(bans);
      return { ...denied, bans: bans.map((ban, i) => ({ ...ban, ...origins[i] })), at };
    });
    this.#uses = new CachedByName(USES_MS, (name) => this.#readUse(name));
    this.#spans = {
      '1h': new Cached(HOUR_MS, () => linesOf(admin, { minutes: 60 })),
      '24h': new Cached(DAY_MS, () => linesOf(admin, { hours: 24 })),
    };
    this.#searches = new Searches(admin, show);
    this.#origins = new BanOrigins(admin);
    this.#questions = new KeyQuestions(admin, show, now.judges.tiers);
    this.#nearAll = new NearAll(admin, this.#searches, show);
    this.#near = new Near(this.#searches, show, (name) => now.slotsOf(name));
  }

  /** @param query the numbers of pages of `bans` and `overrides` */
  async limiter(name: string, query: URLSearchParams): Promise<object> {
    await this.#checkName(name);
    const [rates, queues, { judged, bans, overrides, tenants }] = await Promise.all([
      this.#now.keysOf(name),
      this.#now.queuesOf(name),
      this.#lists.get(name),
    ]);
    const keys = rates.map((each) => ({ ...each, ...judged.get(idOf(each)), ...this.#hidden(each) }));
    return {
      ...{ name, keys, queues, tenants },
      bans: openedRows(bans, query.get('bans')),
      overrides: openedRows(overrides, query.get('overrides')),
      totals: { bans: totalOf(bans), overrides: totalOf(overrides) },
    };
  }

  /**
   * The keys of a limiter that are denied by their state, and bans, by a search. It finds keys without a counted denial, too, because counts are
   * those of the last seconds, and of the most denied keys.
   */
  async denied(name: string): Promise<object> {
    await this.#checkName(name);
    const { at, limited, bans } = await this.#denied.get(name);
    const { banned } = await this.#lists.get(name);
    const ageMs = Date.now() - at;
    const passed = ageMs < SHOWN_MS ? 0 : ageMs;
    const left = bans.map((ban) => ({ ...ban, bannedForMs: ban.bannedForMs - passed }));
    return {
      ageMs,
      limited: limited && { ...limited, rows: limited.rows.map((row) => timesLeft(row, passed)) },
      bans: left
        .filter(({ bannedForMs }) => bannedForMs > 0)
        .map((ban) => ({ ...ban, ...this.#hidden(ban), isRecorded: banned.has(idOf(ban)) })),
    };
  }

  /** Runs a search of all keys after the searches of other visitors. */
  inTurn<T>(search: () => Promise<T>): Promise<T> {
    return this.#searches.inTurn(search);
  }

  /** Makes the next reading show a change that was made just now. */
  expire(): void {
    this.#lists.expire();
    this.#denied.expire();
    this.#logs.expire();
    this.#imports.expire();
    this.#questions.expire();
    this.#nearAll.expire();
  }

  async #readLists(name: string): Promise<Lists> {
    const recorded = await readListed(this.#admin.bans({ name, scan: 'never' }));
    const origins = await this.#origins.of(recorded.rows);
    const overrides = await readListed(this.#admin.overrides({ name }));
    const counted = await this.#now.keysOf(name);
    // A tenant is judged with its limit.
    const denied = counted.filter((each) => each.denied > 0 && each.within === undefined).slice(0, JUDGED);
    const judged = await Promise.all(
      denied.map(async (each) => [idOf(each), await this.#now.judges.of(name, each)] as const),
    );
    return {
      judged: new Map(judged),
      bans: {
        ...recorded,
        rows: recorded.rows.map((ban, i) => ({ ...ban, ...origins[i], ...this.#hidden(ban) })),
      },
      overrides: {
        ...overrides,
        rows: overrides.rows.map((each: OverriddenKey) => ({ ...each, ...this.#hidden(each) })),
      },
      banned: new Set(recorded.rows.map(idOf)),
      tenants: (await this.#now.hasTenants(name)) ? await this.#searches.tenants(name) : [],
    };
  }

  #hidden({ key, within }: { key?: ShownKey; within?: string }): { key?: ShownKey; within?: ShownKey } {
    return {
      ...(key !== undefined && { key: this.#show(key) }),
      ...(within !== undefined && { within: this.#show(within) }),
    };
  }

  /** See `KeyQuestions.key`. */
  key(body: Body, visitor: HasLeft): Promise<object> {
    return this.#questions.key(body, visitor);
  }

  /** See `KeyQuestions.past`. */
  past(body: Body, visitor: HasLeft): Promise<object> {
    return this.#questions.past(body, visitor);
  }

  /** The decisions of the last hour by the minute, or of the last day by ten minutes, as the first screen has those of the last minutes. */
  history(query: URLSearchParams): Promise<object> {
    return this.#spans[choice('span', query.get('span') ?? '1h', SPANS)].get();
  }

  /** The keys of a limiter that have used 80 % of a limit. */
  async near(name: string): Promise<object> {
    await this.#checkName(name);
    const { at, ...found } = await this.#near.of(name);
    return { ...found, ageMs: Date.now() - at };
  }

  /** The keys of all limiters that have used 80 % of a limit. */
  nearAll(): Promise<NearOfAll> {
    const newest = this.#now.newestChange;
    if (newest !== this.#newest) this.#nearAll.expire();
    this.#newest = newest;
    return this.#nearAll.read();
  }

  /** The changes, read one after the other, because a rare name reads the whole log. */
  async log(query: URLSearchParams, visitor: HasLeft): Promise<object> {
    const since = choice('since', query.get('since') ?? '1d', AGES);
    const name = query.get('name') || undefined;
    if (name !== undefined) await this.#checkName(name);
    const options = {
      ...(since !== 'all' && { since }),
      ...(name !== undefined && { name }),
      withKeys: FIRST_KEYS,
    };
    const read = async (): Promise<ChangeRow[]> =>
      (await firstOf(this.#admin.log(options), LOGGED)).map((row) => changeRow(row, this.#show));
    const rows = await this.#logs.get(JSON.stringify(options), read, visitor);
    return { rows, isCut: rows.length === LOGGED };
  }

  /** All keys of a logged import. */
  async imported(query: URLSearchParams, visitor: HasLeft): Promise<object> {
    const id = query.get('id') ?? '';
    const read = async (): Promise<ImportedRow[]> => {
      const [found] = await firstOf(this.#admin.log({ id, actions: ['import'], withKeys: true }), 1);
      return importedRows(found?.imported ?? [], this.#show);
    };
    return { keys: await this.#imports.get(id, read, visitor) };
  }

  /** The distribution of use of a limiter's policies in the last hour. */
  async use(name: string): Promise<object> {
    await this.#checkName(name);
    return this.#uses.get(name);
  }

  async #readUse(name: string): Promise<object> {
    const { minutes, limiters } = await this.#admin.history({ minutes: 60, name });
    const found = limiters.find((each) => each.name === name);
    const { use = {}, units = {}, policies = {}, reasons = {}, admitted = [], denied = [] } = found ?? {};
    const sumOf = (counts: readonly number[]): number => counts.reduce((sum, each) => sum + each, 0);
    const first = admitted.findIndex((each, i) => each + denied[i]! > 0);
    const sumsOf = (byName: Readonly<Record<string, readonly number[]>>): Record<string, number> =>
      Object.fromEntries(Object.entries(byName).map(([each, counts]) => [each, sumOf(counts)]));
    const sums = Object.entries(use).map(([policy, counts]) => [
      policy,
      // The last count is that of denied keys.
      [...USE_LEVELS.keys(), USE_LEVELS.length].map((i) =>
        counts.reduce((sum, levels) => sum + (levels[i] ?? 0), 0),
      ),
    ]);
    return {
      levels: USE_LEVELS,
      /** The first minute with a decision, ms since 1970, or null without one. */
      since: minutes[first] ?? null,
      use: Object.fromEntries(sums) as Record<string, number[]>,
      admitted: sumOf(admitted),
      denied: sumOf(denied),
      /** The admitted units by policy. */
      units: sumsOf(units),
      policies: sumsOf(policies),
      reasons: sumsOf(reasons),
    };
  }

  /**
   * A sample of the keys of a policy, the same for all viewers, with their rest of it, the smallest first. A limiter with tiers judges all keys
   * by one of them, or, with an empty tier, as requests without one.
   */
  async sample(body: Body): Promise<object> {
    const [name, tier] = [text(body, 'name'), optional(body, 'tier', (from, field) => String(from[field]))];
    await this.#checkName(name);
    const sampled = await this.#now.sampledIn(name, tier);
    return this.#searches.sample(sampled, text(body, 'policy'));
  }

  /** Refuses invented names, for each of which the store would be searched. */
  async #checkName(name: string): Promise<void> {
    if (!(await this.#now.knows(name))) refuse('name: no limiter is called that.', 404);
  }
}

async function linesOf(admin: Admin, span: HistoryOptions): Promise<object> {
  const { minutes, limiters } = await admin.history(span);
  const sparks = limiters.map(
    ({ name, admitted, denied, degraded, unreachable, unanswered }): [string, object] => [
      `spark ${name}`,
      { admitted, denied, degraded, unreachable, unanswered, near: 0 },
    ],
  );
  return { minutes, ...(Object.fromEntries(sparks) as Record<string, object>) };
}

const idOf = ({ key, dimension = '' }: Pick<KeyRates, 'key' | 'dimension'>): string =>
  JSON.stringify([dimension, key]);

export function nameIn(query: URLSearchParams): string {
  return query.get('name') || refuse('name: missing. Pass the name of a limiter.');
}
