import { HeadgateError } from '../common/errors.js';
import { within } from '../common/within.js';
import type { Store } from '../contract/store.js';
import type { StoredCrossing } from '../stores/crossings.js';
import type { Row } from '../stores/postgres/pool.js';
import type { PostgresDatabase } from '../stores/postgres/postgres.js';
import { ackText, logText, readText, type EntryRow } from '../stores/postgres/records.js';
import { clockText, rowsText, statesText } from '../stores/postgres/statements.js';
import { BATCH_SIZE, DatabaseState, type LogRow, type StateRow } from './database-state.js';
import type { CrossingSource } from './state.js';
import type { Origin } from './unlogged.js';

/** The state of limiters in a table of PostgreSQL. */
export class PostgresState extends DatabaseState {
  readonly kind = 'postgres';
  readonly crossings: CrossingSource = {
    read: async (group, most, idle) => {
      const { table, clock } = this.#database;
      const rows = await this.#rows(readText(table, group, most, idle, clock?.()));
      return (rows.filter((row) => 'entry' in row) as unknown as EntryRow[]).map(({ id, entry }) => ({
        id,
        ...(JSON.parse(entry) as StoredCrossing),
      }));
    },
    ack: async (group, ids) => void (await this.#rows(ackText(this.#database.table, group, ids))),
  };
  readonly #database: PostgresDatabase;

  constructor(
    store: Store,
    database: PostgresDatabase,
    settings: { readonly timeout: number; readonly origin: Origin },
  ) {
    super(store, database, settings);
    this.#database = database;
  }

  /** Runs a text. @returns the rows of its statements @throws HeadgateError `HEADGATE_STORE_TIMEOUT` */
  async #rows(text: string): Promise<readonly Row[]> {
    const results = await within(this.timeout, this.#database.run(text, this.timeout), () => {
      const message = `PostgreSQL did not answer within ${this.timeout} ms.`;
      throw new HeadgateError('HEADGATE_STORE_TIMEOUT', message);
    });
    return results.flatMap(({ rows }) => rows);
  }

  protected async now(): Promise<number> {
    const { clock } = this.#database;
    return clock ? clock() : Number((await this.#rows(clockText()))[0]!['now']);
  }

  protected async states(keys: readonly string[]): Promise<(Uint8Array | undefined)[]> {
    if (keys.length === 0) return [];
    const rows = (await this.#rows(statesText(this.#database.table, keys))) as unknown as StateRow[];
    const states = new Map(rows.map(({ key, state }) => [key, state]));
    return keys.map((key) => states.get(key));
  }

  protected async rowsAfter(key: string): Promise<StateRow[]> {
    return (await this.#rows(rowsText(this.#database.table, key, BATCH_SIZE))) as unknown as StateRow[];
  }

  protected async changesBefore(id: LogRow['id'] | undefined): Promise<LogRow[]> {
    return (await this.#rows(logText(this.#database.table, id, BATCH_SIZE))) as unknown as LogRow[];
  }
}
