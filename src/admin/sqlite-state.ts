import { crossingsOf } from '../features/thresholds/sqlite.js';
import type { SqliteHandle } from '../stores/sqlite/database.js';
import type { SqliteFile } from '../stores/sqlite/sqlite.js';
import { BATCH_SIZE, DatabaseState, type LogRow, type StateRow } from './database-state.js';

export class SqliteState extends DatabaseState<SqliteFile> {
  readonly kind = 'sqlite';
  readonly crossings = crossingsOf((use) => this.#write(use));
  #read<T>(use: (database: SqliteHandle) => T): T {
    return this.parts.transactions.read(use);
  }

  now(): number {
    return this.parts.transactions.clock();
  }

  states(keys: readonly string[]): (Uint8Array | undefined)[] {
    return this.#read((database) => keys.map((key) => database.read(key)));
  }

  rowsAfter(key: string): StateRow[] {
    const sql = 'SELECT key, state FROM headgate WHERE key > ? ORDER BY key LIMIT ?';
    return this.#read((database) => database.all(sql, key, BATCH_SIZE)) as StateRow[];
  }

  protected changesBefore(id: LogRow['id'] = Number.MAX_SAFE_INTEGER, most: number): LogRow[] {
    const sql = [0, 1].map(
      (automatic) => `SELECT id, entry FROM headgate_log WHERE automatic = ${automatic} AND id < ?`,
    );
    const newest = `SELECT id, entry FROM (${sql.join(' UNION ALL ')}) ORDER BY id DESC LIMIT ${most}`;
    return this.#read((database) => database.all(newest, id, id)) as LogRow[];
  }

  async #write<T>(run: (database: SqliteHandle, now: number) => T): Promise<T> {
    let result: T;
    const change = (_: unknown, now: number) => {
      result = this.#read((database) => run(database, now));
      return [{ changed: false, bytes: undefined, expiresAt: 0 }];
    };
    await this.parts.transactions.update([''], change, []);
    return result!;
  }
}
