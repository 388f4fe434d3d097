// The store of a process at a place. A process loads the client of its store alone, because loading all of them takes most of its start.
import type { Store } from 'headgate';
import type { Place, StoreKind } from './task.js';

export interface OpenStore {
  readonly store: Store;
  close(): Promise<void>;
}

const thresholds = 'stream';

/** Loads the client of a store. @returns the function that opens a store at a place */
export async function openerOf(kind: StoreKind): Promise<(place: Place) => Promise<OpenStore>> {
  if (kind === 'sqlite') return onSqlite();
  if (kind === 'unshared') return onSqlite(String(process.pid));
  return kind === 'postgres' ? onPostgres() : onRedis();
}

async function onSqlite(file = '') {
  const { storeOn } = await import('../../support/sqlite.js');
  return async ([, path]: Place) => {
    const store = storeOn(path + file, { thresholds });
    return { store, close: async () => store.close?.() };
  };
}

async function onPostgres() {
  const { Pool } = await import('pg');
  const { postgresStore } = await import('headgate/postgres');
  return async ([, connectionString, table]: Place) => {
    const pool = new Pool({ connectionString, max: 4 });
    // A server that stops may end a connection that is closing.
    pool.on('error', () => {});
    const store = postgresStore(pool, { table, thresholds });
    await store.setup();
    return {
      store,
      async close() {
        await store.close?.();
        await pool.end();
      },
    };
  };
}

async function onRedis() {
  const { Redis } = await import('ioredis');
  const { redisStore } = await import('headgate/redis');
  return async ([, port, prefix]: Place) => {
    const client = new Redis(Number(port));
    const store = redisStore(client, { prefix, thresholds });
    return {
      store,
      async close() {
        await store.close?.();
        client.disconnect();
      },
    };
  };
}
