import { HeadgateError } from '../common/errors.js';
import { within } from '../common/within.js';
import type { CrossingSource, StoredCrossing } from '../features/thresholds/crossings.js';
import { bytesOf, type PostgresRow } from '../stores/postgres/pool.js';
import type { PostgresDatabase } from '../stores/postgres/postgres.js';
import { ackText, readText } from '../stores/postgres/crossing-tables.js';
import { logText, type EntryRow } from '../stores/postgres/side-tables.js';
import { clockText, rowsText, statesText } from '../stores/postgres/statements.js';
import { BATCH_SIZE, DatabaseState, type LogRow, type StateRow } from './database-state.js';
import type { Finding } from '../stores/redis/operators/finding.js';

/** The finding about a pool of `pg` with the default of the option. */
const NO_TIMEOUT: Finding = {
  level: 'warning',
  code: 'client',
  message:
    'The pool has no connectionTimeoutMillis, so a connection that never opens keeps its place in the pool for ever. Headgate asks again after a ' +
    'second, but a pool with only such connections serves nobody. Set connectionTimeoutMillis: 2000.',
};

export class PostgresState extends DatabaseState<PostgresDatabase> {
  readonly kind = 'postgres';
  readonly crossings: CrossingSource = {
    read: async (group, most, idle) => {
      const { table, clock } = this.parts;
      const rows = await this.#rows(readText(table, group, { most, idle, now: clock?.() }));
      return (rows.filter((row) => 'entry' in row) as unknown as EntryRow[]).map(({ id, entry }) => ({
        id,
        ...(JSON.parse(entry) as StoredCrossing),
      }));
    },
    ack: async (group, ids) => void (await this.#rows(ackText(this.parts.table, group, ids))),
  };
  /** Runs a text. @returns the rows of its statements @throws HeadgateError `HEADGATE_STORE_TIMEOUT` */
  async #rows(text: string): Promise<readonly PostgresRow[]> {
    const results = await within(this.timeout, this.parts.run(text, this.timeout), () => {
      const message = `PostgreSQL did not answer within ${this.timeout} ms.`;
      throw new HeadgateError('HEADGATE_STORE_TIMEOUT', message);
    });
    return results.flatMap(({ rows }) => rows);
  }

  override async check(): Promise<readonly Finding[]> {
    const { options } = this.parts.pool as { options?: { connectionTimeoutMillis?: number } };
    return [...(await super.check()), ...(options && !options.connectionTimeoutMillis ? [NO_TIMEOUT] : [])];
  }

  async #stateRows(text: string): Promise<StateRow[]> {
    return (await this.#rows(text)).map(({ key, state }) => ({ key: key as string, state: bytesOf(state) }));
  }

  async now(): Promise<number> {
    const { clock } = this.parts;
    return clock ? clock() : Number((await this.#rows(clockText()))[0]!['now']);
  }

  async states(keys: readonly string[]): Promise<(Uint8Array | undefined)[]> {
    if (keys.length === 0) return [];
    const rows = await this.#stateRows(statesText(this.parts.table, keys));
    const states = new Map(rows.map(({ key, state }) => [key, state]));
    return keys.map((key) => states.get(key));
  }

  async rowsAfter(key: string): Promise<StateRow[]> {
    return this.#stateRows(rowsText(this.parts.table, key, BATCH_SIZE));
  }

  protected async changesBefore(id: LogRow['id'] | undefined, most: number): Promise<LogRow[]> {
    return (await this.#rows(logText(this.parts.table, id, most))) as unknown as LogRow[];
  }
}
