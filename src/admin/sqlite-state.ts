import { DEFAULT_DIMENSION } from '../contract/key.js';
import { dimensionsOf } from '../contract/dimensions.js';
import type { PolicySet, Reply, Store, Subject } from '../contract/store.js';
import type { ListedChange, LoggedChange } from '../stores/journal.js';
import { ALL_KEYS, escapeName, parseStateKey, type Hash } from '../stores/keys.js';
import type { Finding } from '../stores/redis/operators/check.js';
import type { Database } from '../stores/sqlite/database.js';
import type { SqliteFile } from '../stores/sqlite/sqlite.js';
import { KeyState, stateKeys } from '../stores/state/key-state.js';
import { LAYOUT_VERSION, summaryOf } from '../stores/state/saved-state.js';
import { hashOnly, LocalState, type Row } from './local-state.js';
import type { Owner } from './state.js';
import type { Origin } from './unlogged.js';

/** The number of rows or entries that are read at a time. */
const BATCH_SIZE = 500;

/** A row of the table of state. */
interface StateRow {
  readonly key: string;
  readonly state: Uint8Array;
}

/** The state of limiters in a file of SQLite. Other processes may write in the meantime. */
export class SqliteState extends LocalState {
  readonly kind = 'sqlite';
  readonly #file: SqliteFile;

  constructor(
    store: Store,
    file: SqliteFile,
    settings: { readonly timeout: number; readonly origin: Origin },
  ) {
    super(store, file.announced, file.isHashed ? 'file' : undefined, settings);
    this.#file = file;
  }

  #read<T>(use: (database: Database) => T): T {
    return this.#file.transactions.read(use);
  }

  ownerOf(name: string | object, key: string | object, by = DEFAULT_DIMENSION): Owner {
    if (typeof name !== 'string' || typeof key !== 'string') throw hashOnly();
    const slots = { banBy: by, slotBy: undefined, acrossSlots: false };
    const ban = { after: 0, within: 1, first: 1, factor: 1, max: 1 };
    const set = { name, policies: [], ban, dimensions: dimensionsOf([], ban, slots), timeout: this.timeout };
    return { scope: escapeName(name), name, key, by, text: this.#textOf({ set, key }) };
  }

  /** The owner text of a subject of one dimension, as the file has it. */
  #textOf(subject: Subject): string {
    const [written = ''] = stateKeys(subject);
    return ownerTextIn(this.#file.name(written));
  }

  protected now(): number {
    return this.#file.transactions.clock();
  }

  #stateOf(text: string): Uint8Array | undefined {
    return this.#read((database) => database.read(`{${text}}${LAYOUT_VERSION}`));
  }

  protected rowOf(owner: Owner): Row | undefined {
    const state = this.#stateOf(owner.text);
    return state && { owner, state: summaryOf(state), bytes: owner.text.length + 4 + state.length };
  }

  /** All rows in the order of their keys. */
  protected *rows(wanted: string | undefined): Generator<Row> {
    for (const { key, state } of this.#stateRows()) {
      const owner = parseOwner(key);
      // The record of overrides of all keys does not belong to a key.
      if (!owner || owner.scope === '' || (wanted !== undefined && owner.name !== wanted)) continue;
      yield { owner, state: summaryOf(state), bytes: key.length + state.length };
    }
  }

  *#stateRows(): Generator<StateRow> {
    const sql = 'SELECT key, state FROM headgate WHERE key > ? ORDER BY key LIMIT ?';
    for (let last = ''; ;) {
      const page = this.#read((database) => database.all(sql, last, BATCH_SIZE)) as StateRow[];
      yield* page;
      if (page.length < BATCH_SIZE) return;
      last = page.at(-1)!.key;
    }
  }

  protected lookAt(set: PolicySet, { text }: Owner): Reply {
    const query = { set, key: '', cost: 1, costs: undefined, peek: true, lease: '' };
    return new KeyState(this.#stateOf(text), this.now()).decide(query);
  }

  protected append(change: LoggedChange): Promise<void> {
    const nothing = { changed: false, bytes: undefined, expiresAt: 0, log: [change] };
    return this.#file.transactions.update([''], () => [nothing], []);
  }

  protected *logged(): Generator<ListedChange> {
    const sql = [0, 1].map(
      (automatic) => `SELECT id, entry FROM headgate_log WHERE automatic = ${automatic} AND id < ?1`,
    );
    const newest = `SELECT id, entry FROM (${sql.join(' UNION ALL ')}) ORDER BY id DESC LIMIT ${BATCH_SIZE}`;
    for (let last = Number.MAX_SAFE_INTEGER; ;) {
      const page = this.#read((database) => database.all(newest, last)) as { id: number; entry: string }[];
      for (const { id, entry } of page) yield { ...(JSON.parse(entry) as LoggedChange), id: String(id) };
      if (page.length < BATCH_SIZE) return;
      last = page.at(-1)!.id;
    }
  }

  async *records(isWanted: (owner: string) => boolean): AsyncGenerator<readonly [string, unknown]> {
    let read = 0;
    for (const { key, state } of this.#stateRows()) {
      if (++read % BATCH_SIZE === 0) await new Promise(setImmediate);
      const { overrides } = summaryOf(state);
      const found = parseStateKey('x', `x:${key}`);
      if (!found || overrides === '') continue;
      // The record of all keys is stored under the limiter's name, in a scope without a limiter.
      const isOfAll = found.scope === '' && typeof found.key === 'string';
      const owner = isOfAll ? `${escapeName(found.key)}:${ALL_KEYS}` : ownerTextIn(key);
      if (isWanted(owner)) yield [owner, overrides];
    }
  }

  recordOfAll(name: string): Promise<unknown> {
    const set = { name: '', policies: [], ban: undefined, timeout: this.timeout };
    const { overrides } = summaryOf(this.#stateOf(this.#textOf({ set, key: name })));
    return Promise.resolve(overrides === '' ? undefined : overrides);
  }

  check(): Promise<readonly Finding[]> {
    try {
      this.#read((database) => database.all('SELECT 1 FROM headgate LIMIT 1'));
      return Promise.resolve([{ level: 'ok', code: 'connection', message: 'The file can be read.' }]);
    } catch (error) {
      const message = `The file cannot be read: ${(error as Error).message}`;
      return Promise.resolve([{ level: 'error', code: 'connection', message }]);
    }
  }
}

function parseOwner(key: string): Owner | undefined {
  const found = parseStateKey('x', `x:${key}`);
  if (found) return { ...found, text: ownerTextIn(key) };
  if (!key.endsWith(`}${LAYOUT_VERSION}`)) return undefined;
  // Of a limiter whose name is not ASCII, only a hash of the whole is stored.
  const hash: Hash = { hash: /#([\w-]+)/.exec(key)?.[1] ?? '' };
  return { scope: '?', name: hash, key: hash, by: DEFAULT_DIMENSION, text: ownerTextIn(key) };
}

/** The text between the braces of a row's key. */
const ownerTextIn = (key: string): string => key.slice(1, key.lastIndexOf('}'));
