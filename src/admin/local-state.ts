import type { TenantState } from '../algorithms/shares/sharing.js';
import { hostname } from 'node:os';
import type { Announcement } from '../contract/announcement.js';
import { OVERRIDE_TAG } from '../features/overrides/contract/records.js';
import type { Reply } from '../contract/reply.js';
import type { MaybePromise, PolicySet, Store } from '../contract/store.js';
import type { ListedChange, LoggedChange } from '../stores/journal.js';
import { BAN_TAG } from '../stores/keys.js';
import { instanceOf, type PublishedLimiter } from '../stores/published.js';
import type { Finding } from '../stores/redis/operators/finding.js';
import type { StateSummary } from '../stores/state/saved-state.js';
import { localBans, type BanSource } from './bans/ban-source.js';
import {
  inForce,
  localOverrides,
  type OverrideSource,
  type OwnedRecord,
  type OverrideFields,
} from './overrides/override-source.js';
import { nextTurn } from './next-turn.js';
import { Published } from './published.js';
import type { ChangeLog, FoundKey, Owner, Search, State, StateSettings } from './state.js';
import { unlogged, type Origin } from './unlogged.js';

const KEYS_PER_STEP = 500;

/** The changes of a log, the newest first. */
type Entries = Iterable<ListedChange> | AsyncIterable<ListedChange>;

/** The changes from a time on, ms since 1970. */
async function* changesSince(entries: Entries, time: number): AsyncGenerator<ListedChange> {
  for await (const change of entries) if (change.at >= time) yield change;
}

export interface ListedRow {
  readonly owner: Owner;
  readonly state: StateSummary;
  readonly bytes?: number | undefined;
}

/** State of which a row has the whole state of a key: in memory, in a file, or in a table. */
export abstract class LocalState implements State {
  abstract readonly kind: 'sqlite' | 'postgres' | 'memory';
  abstract readonly crossings: State['crossings'];
  readonly timeout: number;
  readonly log: ChangeLog = {
    add: async (change) => {
      await this.append({ ...change, at: await this.now() });
      return undefined;
    },
    since: (time) => changesSince(this.logged(), time),
  };
  readonly bans: BanSource;
  readonly overrides: OverrideSource;
  readonly store: Store;
  readonly #origin: Origin;
  readonly announced: ReadonlySet<Announcement>;
  readonly #mark: string | undefined;

  constructor(
    store: Store,
    announced: ReadonlySet<Announcement>,
    mark: string | undefined,
    { timeout, origin }: StateSettings,
  ) {
    this.store = store;
    this.announced = announced;
    this.#mark = mark;
    this.timeout = timeout;
    this.#origin = origin;
    this.bans = localBans(this);
    this.overrides = localOverrides(this);
  }

  /** Whether the store counts decisions of this process. */
  protected abstract readonly isCounted: boolean;
  abstract now(): MaybePromise<number>;
  abstract rowsOf(owners: readonly Owner[]): MaybePromise<readonly (ListedRow | undefined)[]>;
  protected abstract rows(name: string | undefined): Iterable<ListedRow> | AsyncIterable<ListedRow>;
  /** The records of keys and of all keys, and that of all keys of a limiter. */
  abstract records(): Iterable<OwnedRecord> | AsyncIterable<OwnedRecord>;
  abstract recordOfAll(name: string): MaybePromise<string>;
  protected abstract append(change: LoggedChange): MaybePromise<void>;
  /** The newest first. */
  protected abstract logged(): Entries;
  protected abstract lookAt(set: PolicySet, owners: readonly Owner[]): MaybePromise<readonly Reply[]>;
  abstract ownerOf(name: string | object, key: string | object, dimension?: string): Owner;
  abstract check(): Promise<readonly Finding[]>;

  openStore(changes?: OverrideFields): Store {
    return unlogged(this.store, this.#origin, false, changes);
  }

  /** The limiters of earlier and other processes. */
  protected stored(): MaybePromise<readonly PublishedLimiter[]> {
    return [];
  }

  async published(): Promise<Published> {
    const instance = { ...instanceOf(this.announced, hostname(), 0), id: 'process' };
    const counted = this.isCounted ? instance : { ...instance, counts: false as const };
    const hashed = this.#mark === undefined ? counted : { ...counted, hashed: this.#mark };
    const instances = this.announced.size === 0 ? [] : [hashed];
    const isComplete = this.kind === 'memory';
    return new Published(instances, { mark: this.#mark, isComplete, stored: await this.stored() });
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
      await nextTurn();
      // The number of rows is unknown.
      await progress?.(0);
      if (signal?.aborted) return;
    }
    await progress?.(1);
    yield page;
  }

  async look(set: PolicySet, owners: readonly Owner[]): Promise<(Reply | Error)[]> {
    const records = await this.values(owners.map((owner) => ({ owner, id: OVERRIDE_TAG })));
    const replies = await this.lookAt(set, owners);
    return replies.map((reply, i) => inForce(reply, [records[i], set.overrides?.all]));
  }

  async values(found: readonly FoundKey[]): Promise<(string | undefined)[]> {
    const now = await this.now();
    const rows = await this.rowsOf(found.map(({ owner }) => owner));
    return found.map(({ id }, i) => {
      const [until = 0, value] = rows[i]?.state.kept.get(id) ?? [];
      return until > now ? String(value) : undefined;
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

function foundIn({ owner, state }: ListedRow, now: number): FoundKey[] {
  const ids = [...state.policies].filter(([, until]) => until > now).map(([id]) => id);
  if (untilOf(state, BAN_TAG)! > now) ids.unshift(BAN_TAG);
  return ids.map((id) => ({ owner, id }));
}

function untilOf({ policies, bannedUntil, countedUntil }: StateSummary, id: string): number | undefined {
  return id === BAN_TAG ? Math.max(bannedUntil, countedUntil) : policies.get(id);
}
