import { banSummary, strikesIn } from '../features/bans/saved-ban.js';
import type { TenantState } from '../algorithms/sharing.js';
import { hostname } from 'node:os';
import { compileBan } from '../contract/ban-options.js';
import { dimensionsOf } from '../contract/dimensions.js';
import { entryInForce } from '../contract/overrides.js';
import type { Announcement } from '../contract/announcement.js';
import type { Reply } from '../contract/reply.js';
import type { MaybePromise, PolicySet, Store } from '../contract/store.js';
import type { JournalEntry, LoggedChange } from '../stores/journal.js';
import { wake } from '../limiter/waiting/wake-ups.js';
import { BAN_TAG } from '../stores/keys.js';
import { instanceOf, type PublishedLimiter } from '../stores/published.js';
import type { Finding } from '../stores/redis/operators/finding.js';
import type { StateSummary } from '../stores/state/saved-state.js';
import { changesSince, notesIn, type Entries } from './local-log.js';
import { Published } from './published.js';
import type {
  BanChange,
  BanState,
  ChangeLog,
  CrossingSource,
  FoundKey,
  Owner,
  Search,
  State,
  StateSettings,
} from './state.js';
import { wrongArgument } from './typed-keys.js';
import { unlogged, type Origin } from './unlogged.js';

const KEYS_PER_STEP = 500;

export interface ListedRow {
  readonly owner: Owner;
  readonly state: StateSummary;
  readonly bytes?: number | undefined;
}

/** State of which a row has the whole state of a key: in memory, in a file, or in a table. */
export abstract class LocalState implements State {
  abstract readonly kind: 'sqlite' | 'postgres' | 'memory';
  abstract readonly crossings: CrossingSource;
  readonly timeout: number;
  readonly log: ChangeLog = {
    add: async (change) => {
      await this.append({ ...change, at: await this.now() });
      return undefined;
    },
    since: (time) => changesSince(this.logged(), time),
    notesOf: (owners) => notesIn(this.logged(), owners),
  };
  readonly #store: Store;
  readonly #origin: Origin;
  readonly #announced: ReadonlySet<Announcement>;
  readonly #mark: string | undefined;

  constructor(
    store: Store,
    announced: ReadonlySet<Announcement>,
    mark: string | undefined,
    { timeout, origin }: StateSettings,
  ) {
    this.#store = store;
    this.#announced = announced;
    this.#mark = mark;
    this.timeout = timeout;
    this.#origin = origin;
  }

  /** Whether the store counts decisions of this process. */
  protected abstract readonly isCounted: boolean;
  /** The time by the store's clock. */
  abstract now(): MaybePromise<number>;
  protected abstract rowsOf(owners: readonly Owner[]): MaybePromise<readonly (ListedRow | undefined)[]>;
  protected abstract rows(name: string | undefined): Iterable<ListedRow> | AsyncIterable<ListedRow>;
  protected abstract append(change: LoggedChange): MaybePromise<void>;
  /** The newest first. */
  protected abstract logged(): Entries;
  protected abstract lookAt(set: PolicySet, owners: readonly Owner[]): MaybePromise<readonly Reply[]>;
  abstract ownerOf(name: string | object, key: string | object, dimension?: string): Owner;
  abstract overrideRecords(isWanted: (owner: string) => boolean): AsyncIterable<readonly [string, unknown]>;
  abstract overrideRecordOfAll(name: string): Promise<unknown>;
  abstract check(): Promise<readonly Finding[]>;

  openStore(undoes?: string): Store {
    return unlogged(this.#store, this.#origin, false, undoes);
  }

  /** The limiters of earlier and other processes. */
  protected stored(): MaybePromise<readonly PublishedLimiter[]> {
    return [];
  }

  async published(): Promise<Published> {
    const instance = { ...instanceOf(this.#announced, hostname(), 0), id: 'process' };
    const counted = this.isCounted ? instance : { ...instance, counts: false as const };
    const hashed = this.#mark === undefined ? counted : { ...counted, hashed: this.#mark };
    const instances = this.#announced.size === 0 ? [] : [hashed];
    const isShared = this.kind === 'memory';
    return new Published(instances, { mark: this.#mark, isShared, stored: await this.stored() });
  }

  async *search({
    name,
    key,
    id,
    count = KEYS_PER_STEP,
    progress,
    signal,
  }: Search): AsyncGenerator<FoundKey[]> {
    let page: FoundKey[] = [];
    let checked = 0;
    const now = await this.now();
    for await (const row of this.rows(name)) {
      if (key === undefined || row.owner.key === key)
        page.push(...foundIn(row, now).filter((found) => id === undefined || found.id === id));
      if (++checked % count > 0) continue;
      yield page;
      page = [];
      // Requests of this process come first.
      await new Promise(setImmediate);
      if (signal?.aborted) return;
    }
    progress?.(1);
    yield page;
  }

  /** Without the limits of overrides that have ended. Their records stay for as long as charges of their time count. */
  async look(set: PolicySet, owners: readonly Owner[]): Promise<(Reply | Error)[]> {
    const rows = await this.rowsOf(owners);
    const replies = await this.lookAt(set, owners);
    return replies.map(({ limits, ...reply }, i) => {
      const records = [rows[i]?.state.record, set.overrides?.all];
      const isOverridden = records.some((record) => entryInForce(record, reply.now) !== undefined);
      return isOverridden && limits ? { ...reply, limits } : reply;
    });
  }

  async lives(found: readonly FoundKey[]): Promise<(number | undefined)[]> {
    const now = await this.now();
    const rows = await this.rowsOf(found.map(({ owner }) => owner));
    return found.map(({ id }, i) => {
      const until = rows[i] && untilOf(rows[i].state, id);
      return until !== undefined && until > now ? until - now : undefined;
    });
  }

  async bans(owners: readonly Owner[]): Promise<number[]> {
    const now = await this.now();
    const rows = await this.rowsOf(owners);
    return rows.map((row) => Math.max(0, (row?.state.bannedUntil ?? 0) - now));
  }

  async banState(owner: Owner): Promise<BanState> {
    const now = await this.now();
    const [row] = await this.rowsOf([owner]);
    const [bannedForMs = 0] = await this.bans([owner]);
    return { bannedForMs, ...strikesIn(row?.state ?? banSummary([]), now) };
  }

  async setBans(changes: readonly BanChange[], logged?: JournalEntry): Promise<undefined> {
    const bans = changes.map(async ({ owner, duration }) => {
      const { name, key, by } = owner;
      if (typeof name !== 'string' || typeof key !== 'string') throw hashOnly();
      const subject = { set: this.#banning(name, by), key };
      await this.#store.ban(subject, duration, undefined, false);
      wake(name, subject);
    });
    await Promise.all(bans);
    if (logged) await this.log.add(logged);
    return undefined;
  }

  /** The set for bans of a limiter's keys, by the ban options of a limiter in this process, if there is one. */
  #banning(name: string, by: string): PolicySet {
    const own = [...this.#announced].find((limiter) => limiter.name === name && limiter.ban)?.ban;
    // The longest spans do not shorten the service's memory of denials and earlier bans.
    const ban = own ?? compileBan({ within: '366d', max: '366d' });
    const dimensions = dimensionsOf([], ban, { banBy: by, slotBy: undefined, acrossSlots: false });
    return { name, policies: [], ban, dimensions, timeout: this.timeout };
  }

  async overridden(): Promise<string[]> {
    const owners: string[] = [];
    const now = await this.now();
    for await (const [owner, record] of this.overrideRecords(() => true))
      if (entryInForce(record, now)) owners.push(owner);
    return owners;
  }

  async tenants(found: readonly FoundKey[], segments: number): Promise<(TenantState | undefined)[]> {
    const rows = await this.rowsOf(found.map(({ owner }) => owner));
    return found.map(({ id }, i) => {
      const saved = rows[i]?.state.tenants.get(id) as readonly number[] | undefined;
      if (saved?.length !== 4 + 4 * segments) return undefined;
      const [start = 0, , mark = 0, weight = 0] = saved;
      return { start, mark, weight, used: saved.slice(4 + 2 * segments, 4 + 3 * segments) };
    });
  }

  async bytes(found: readonly FoundKey[]): Promise<(number | undefined)[]> {
    const now = await this.now();
    const rows = await this.rowsOf(found.map(({ owner }) => owner));
    return rows.map((row) => row?.bytes && row.bytes / Math.max(1, foundIn(row, now).length));
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

export function hashOnly(): Error {
  return wrongArgument('key: this store needs the key itself, not its hash.');
}

function foundIn({ owner, state }: ListedRow, now: number): FoundKey[] {
  const ids = [...state.policies].filter(([, until]) => until > now).map(([id]) => id);
  if (untilOf(state, BAN_TAG)! > now) ids.unshift(BAN_TAG);
  return ids.map((id) => ({ owner, id }));
}

function untilOf({ policies, bannedUntil, countedUntil }: StateSummary, id: string): number | undefined {
  return id === BAN_TAG ? Math.max(bannedUntil, countedUntil) : policies.get(id);
}
