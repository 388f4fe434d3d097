// A database table for a store that keeps bytes. The table answers later, and writes a row only if the row has not changed since it was read.
import type { Clock, Store } from 'headgate';
import { stateStore, type StateBackend } from 'headgate/stores';

interface Row {
  readonly version: number;
  readonly bytes: Uint8Array | undefined;
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

export class Table implements StateBackend {
  readonly rows = new Map<string, Row>();
  readonly #clock: Clock;
  /** The number of requested updates, of rows read, and of rows written. */
  updates = 0;
  reads = 0;
  writes = 0;
  /** The error of the next write. */
  failure: Error | undefined;

  constructor(clock: Clock = Date.now) {
    this.#clock = clock;
  }

  async update(key: string, change: Parameters<StateBackend['update']>[1]): Promise<void> {
    this.updates++;
    for (;;) {
      const row = await this.#read(key);
      const { changed, bytes } = change(row?.bytes, this.#clock());
      if (!changed || (await this.#replace(key, row?.version ?? 0, bytes))) return;
    }
  }

  async updateAll(
    keys: readonly string[],
    change: Parameters<NonNullable<StateBackend['updateAll']>>[1],
  ): Promise<void> {
    this.updates++;
    for (;;) {
      const rows = await Promise.all(keys.map((key) => this.#read(key)));
      const changes = change(
        rows.map((row) => row?.bytes),
        this.#clock(),
      );
      await turn();
      if (this.failure) throw this.failure;
      const isNew = (key: string, i: number): boolean => this.rows.get(key)?.version !== rows[i]?.version;
      if (keys.some(isNew)) continue;
      for (const [i, { changed, bytes }] of changes.entries()) {
        if (!changed) continue;
        this.writes++;
        this.rows.set(keys[i]!, { version: (rows[i]?.version ?? 0) + 1, bytes });
      }
      return;
    }
  }

  async #read(key: string): Promise<Row | undefined> {
    this.reads++;
    await turn();
    return this.rows.get(key);
  }

  async #replace(key: string, version: number, bytes: Uint8Array | undefined): Promise<boolean> {
    await turn();
    if (this.failure) throw this.failure;
    if ((this.rows.get(key)?.version ?? 0) !== version) return false;
    this.writes++;
    this.rows.set(key, { version: version + 1, bytes });
    return true;
  }
}

/** The table for one of several processes: each process has its own store on the same table. */
export const tableStore = (clock?: Clock, table = new Table(clock)): Store => stateStore(table);
