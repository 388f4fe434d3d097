import { lazy } from '../common/lazy.js';
import { withoutSecrets } from '../common/shown.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { Reply } from '../contract/reply.js';
import { ONE_UNIT } from '../contract/costs.js';
import { lookOf, type MaybePromise, type PolicySet, type Store, type Subject } from '../contract/store.js';
import type { ListedChange, LoggedChange } from '../stores/journal.js';
import { PROBE_SCOPE } from '../contract/health.js';
import { ownerTextOfAll } from '../features/overrides/record-keys.js';
import { recordAmong } from '../features/overrides/state-record.js';
import type { PublishedLimiter } from '../stores/published.js';
import type { Published } from './published.js';
import { escapeName, parseStateKey, type Hash } from '../stores/keys.js';
import type { Finding } from '../stores/redis/operators/finding.js';
import { countedText, type DatabaseParts } from '../stores/state/database-store.js';
import { OPTIONS_ROW, storedLimiter } from '../stores/state/configurations.js';
import { KeyState } from '../stores/state/key-state.js';
import { LAYOUT_VERSION, summaryOf } from '../stores/state/saved-state.js';
import { stateKeys } from '../stores/state/state-keys.js';
import { banSet } from './bans/ban-source.js';
import { LocalState, type ListedRow } from './local-state.js';
import { LogPages } from './log-pages.js';
import { nextTurn } from './next-turn.js';
import type { OwnedRecord } from './overrides/override-source.js';
import { rowCounts } from './row-counts.js';
import type { CountSource, Owner, StateSettings } from './state.js';
import { hashOnly } from './typed-keys.js';

/** The number of rows that are read at a time. */
export const BATCH_SIZE = 500;

export interface StateRow {
  readonly key: string;
  readonly state: Uint8Array;
}

export interface LogRow {
  readonly id: number | string;
  readonly entry: string;
}

/** The state of limiters in a database. Other processes may write in the meantime. */
export abstract class DatabaseState<Parts extends DatabaseParts> extends LocalState {
  protected readonly parts: Parts;
  readonly counts: CountSource;
  protected readonly isCounted: boolean;

  constructor(store: Store, parts: Parts, settings: StateSettings) {
    super(store, parts.announced, parts.isHashed ? 'file' : undefined, settings);
    this.parts = parts;
    this.isCounted = parts.isCounted;
    this.counts = rowCounts(this, countedText(parts.name));
  }

  abstract states(keys: readonly string[]): MaybePromise<readonly (Uint8Array | undefined)[]>;
  /** The next rows after a key, in the order of their keys. */
  abstract rowsAfter(key: string): MaybePromise<readonly StateRow[]>;
  /** The newest changes before the one with an id. @param most the most changes */
  protected abstract changesBefore(
    id: LogRow['id'] | undefined,
    most: number,
  ): MaybePromise<readonly LogRow[]>;

  ownerOf(name: string | object, key: string | object, by = DEFAULT_DIMENSION): Owner {
    if (typeof name !== 'string' || typeof key !== 'string') throw hashOnly();
    const text = this.#textOf({ set: banSet(name, by, this.timeout), key });
    return { scope: escapeName(name), name, key, by, text };
  }

  #textOf(subject: Subject): string {
    const [written = ''] = stateKeys(subject);
    return ownerTextIn(this.parts.name(written));
  }

  async rowsOf(owners: readonly Owner[]): Promise<(ListedRow | undefined)[]> {
    const states = await this.states(owners.map(keyOf));
    return owners.map((owner, i) => {
      const state = states[i];
      return state && { owner, state: summaryOf(state), bytes: keyOf(owner).length + state.length };
    });
  }

  /** All rows in the order of their keys. */
  protected async *rows(wanted: string | undefined): AsyncGenerator<ListedRow> {
    for await (const { key, state } of this.#stateRows()) {
      const owner = parseOwner(key);
      // A record of all keys does not belong to a key.
      if (
        !owner ||
        owner.scope === '' ||
        owner.scope === PROBE_SCOPE ||
        (wanted !== undefined && owner.name !== wanted)
      )
        continue;
      yield { owner, state: summaryOf(state), bytes: key.length + state.length };
    }
  }

  protected override async stored(): Promise<PublishedLimiter[]> {
    const limiters: PublishedLimiter[] = [];
    for await (const { key, state } of this.#stateRows(OPTIONS_ROW)) {
      if (!key.startsWith(OPTIONS_ROW)) break;
      limiters.push(...storedLimiter(key, state));
    }
    return limiters;
  }

  async *#stateRows(after = ''): AsyncGenerator<StateRow> {
    for (let last = after; ;) {
      const page = await this.rowsAfter(last);
      yield* page;
      if (page.length < BATCH_SIZE) return;
      last = page.at(-1)!.key;
      await nextTurn();
    }
  }

  protected async lookAt(set: PolicySet, owners: readonly Owner[]): Promise<Reply[]> {
    const query = lookOf({ set, key: '' }, ONE_UNIT);
    const states = await this.states(owners.map(keyOf));
    const now = await this.now();
    return states.map((state) => new KeyState(state, now).decide(query));
  }

  protected append(change: LoggedChange): Promise<void> {
    const nothing = { changed: false, bytes: undefined, expiresAt: 0, log: [change] };
    return this.parts.transactions.update([''], () => [nothing], []);
  }

  protected async *logged(): AsyncGenerator<ListedChange> {
    const pages = new LogPages();
    for (let last: LogRow['id'] | undefined; ;) {
      const page = await this.changesBefore(last, pages.size);
      const isLast = pages.isLast(page.map(({ entry }) => entry));
      for (const { id, entry } of page) yield { ...(JSON.parse(entry) as LoggedChange), id: String(id) };
      if (isLast) return;
      last = page.at(-1)!.id;
      await nextTurn();
    }
  }

  async *records(): AsyncGenerator<OwnedRecord> {
    const published = lazy(() => this.published());
    for await (const { key, state } of this.#stateRows()) {
      const found = parseStateKey('x', `x:${key}`);
      const record = found ? recordAmong(summaryOf(state).kept) : '';
      if (!found || record === '') continue;
      // The record of all keys is stored under the limiter's name, in a scope without a limiter.
      const ofAll =
        found.scope !== '' ? undefined : await this.#nameIn(found.key, ownerTextIn(key), published);
      yield [ofAll === undefined ? ownerTextIn(key) : ownerTextOfAll(ofAll), record];
    }
  }

  /** The limiter with a record of all keys. The hash of a name is compared with those of known limiters. */
  async #nameIn(
    name: string | Hash,
    text: string,
    published: () => Promise<Published>,
  ): Promise<string | undefined> {
    if (typeof name === 'string') return name;
    const { scopes } = await published();
    return [...scopes.keys()].find((each) => this.#textOfAll(each) === text);
  }

  #textOfAll(name: string): string {
    return this.#textOf({ set: { name: '', policies: [], timeout: this.timeout }, key: name });
  }

  async recordOfAll(name: string): Promise<string> {
    const [state] = await this.states([keyOf({ text: this.#textOfAll(name) })]);
    return recordAmong(summaryOf(state).kept);
  }

  async check(): Promise<readonly Finding[]> {
    const what = this.kind === 'sqlite' ? 'file' : 'table';
    try {
      await this.states(['']);
      return [{ level: 'ok', code: 'connection', message: `The ${what} can be read.` }];
    } catch (error) {
      const message = `The ${what} cannot be read: ${withoutSecrets((error as Error).message)}`;
      return [{ level: 'error', code: 'connection', message }];
    }
  }
}

function parseOwner(key: string): Owner | undefined {
  const found = parseStateKey('x', `x:${key}`);
  if (found) return { ...found, text: ownerTextIn(key) };
  if (!key.endsWith(`}${LAYOUT_VERSION}`)) return undefined;
  // Of a limiter with a name that is not ASCII, only a hash of the whole is stored.
  const hash: Hash = { hash: /#([\w-]+)/.exec(key)?.[1] ?? '' };
  return { scope: '?', name: hash, key: hash, by: DEFAULT_DIMENSION, text: ownerTextIn(key) };
}

const keyOf = ({ text }: Pick<Owner, 'text'>): string => `{${text}}${LAYOUT_VERSION}`;

/** The text between the braces of a row's key. */
const ownerTextIn = (key: string): string => key.slice(1, key.lastIndexOf('}'));
