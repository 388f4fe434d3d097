// The stores that the model is compared with.
import { join } from 'node:path';
import { memoryStore, type Store } from 'headgate';
import { mapStore } from '../../examples/map-store.js';
import { startServer } from '../support/servers.js';
import { drivers, makeDirectory } from '../support/sqlite.js';
import type { TestClock } from 'headgate/testing';
import type { SqliteDatabase } from 'headgate/sqlite';
import type { Subject } from './play.js';

export interface OpenSubject {
  readonly subject: Subject;
  close(): Promise<void>;
}

/** The names of subjects on servers. */
export const SERVED: readonly string[] = ['redis', 'valkey', 'postgres', 'rest'];

/** The names of all subjects. */
export const SUBJECTS: readonly string[] = ['memory', 'map-store', ...Object.keys(drivers), ...SERVED];

const SECRET = 'a secret of more than sixteen characters';
const OPTIONS = 'clock: clock.read, ...storeOptions';

/** @param publish the interval at which stores on a server publish their limiters, for views */
export async function openSubject(name: string, publish: '10ms' | false = false): Promise<OpenSubject> {
  if (name === 'memory' || name === 'map-store') return inProcess(name);
  if (name in drivers) return onSqlite(name);
  if (name === 'postgres') return onPostgres();
  if (!SUBJECTS.includes(name)) throw new Error(`${name} is not one of the stores ${SUBJECTS.join(', ')}.`);
  return onServer(name, publish);
}

function inProcess(name: string): OpenSubject {
  const isMemory = name === 'memory';
  const lines = isMemory
    ? ['const store = memoryStore({ clock: clock.read });']
    : ["import { mapStore } from './examples/map-store.js';", 'const store = mapStore(clock.read);'];
  const create = (clock: TestClock): Store =>
    isMemory ? memoryStore({ clock: clock.read }) : mapStore(clock.read);
  return { subject: { name, lines, isOrdered: true, create }, close: async () => {} };
}

async function onSqlite(name: string): Promise<OpenSubject> {
  const { sqliteStore } = await import('headgate/sqlite');
  const directory = makeDirectory();
  let open: readonly [place: number, database: SqliteDatabase][] = [];
  const lines = [
    "import { sqliteStore } from 'headgate/sqlite';",
    `const store = sqliteStore('file.db', { ${OPTIONS} }); // ${name}`,
  ];
  const create = (clock: TestClock, options: object, place: number): Store => {
    // A process may have 20,000 files open at most.
    for (const [other, each] of open) if (other !== place) each.close();
    const database = new drivers[name]!(join(directory, `${place}.db`));
    open = [...open.filter(([other]) => other === place), [place, database]];
    return sqliteStore(database, { clock: clock.read, synchronous: 'off', ...options } as never);
  };
  return {
    subject: { name, lines, isOrdered: true, isDatabase: true, secret: SECRET, create },
    close: async () => {},
  };
}

async function onPostgres(): Promise<OpenSubject> {
  const { postgresStore } = await import('headgate/postgres');
  const { startPostgres } = await import('../support/postgres.js');
  const server = await startPostgres();
  const pool = server.pool();
  pool.on('error', () => {});
  const lines = [
    "import { Pool } from 'pg';",
    "import { postgresStore } from 'headgate/postgres';",
    `const store = postgresStore(new Pool(), { table: 'new', ${OPTIONS} });`,
    'await store.setup();',
  ];
  return {
    subject: {
      ...{ name: 'postgres', lines, isOrdered: false, isDatabase: true, secret: SECRET },
      async create(clock, options, place) {
        const store = postgresStore(pool, { clock: clock.read, table: `o${place}`, ...options });
        await store.setup();
        return store;
      },
    },
    async close() {
      await pool.end();
      await server.stop();
    },
  };
}

async function onServer(name: string, publish: '10ms' | false): Promise<OpenSubject> {
  const { Redis } = await import('ioredis');
  const isRest = name === 'rest';
  const { redisStore, upstashRedis } = await import('headgate/upstash');
  const { redisStore: storeOf } = await import('headgate/redis');
  const server = await startServer(name === 'valkey' ? 'valkey' : 'redis');
  const client = new Redis(server.port);
  const rest = isRest ? await (await import('../support/rest-server.js')).startRest(client) : undefined;
  const lines = isRest
    ? [
        "import { redisStore, upstashRedis } from 'headgate/upstash';",
        `const store = redisStore(upstashRedis({ url, token }), { ${OPTIONS}, prefix: 'new' });`,
      ]
    : [
        "import { Redis } from 'ioredis';",
        "import { redisStore } from 'headgate/redis';",
        `const store = redisStore(new Redis(), { ${OPTIONS}, prefix: 'new', publish: false });`,
      ];
  return {
    subject: {
      ...{ name, lines, isOrdered: !isRest, secret: SECRET, hasSlices: !isRest },
      create(clock, options, place) {
        // Slices are refused beside a clock. In real time, denials would be remembered, too.
        const inTime = { localDenials: false, counts: false } as const;
        const all = {
          ...('slices' in options ? inTime : { clock: clock.read }),
          prefix: `o${place}`,
          publish,
          ...options,
        };
        return rest
          ? redisStore(upstashRedis({ url: rest.url, token: rest.token }), all)
          : storeOf(client, all);
      },
    },
    async close() {
      await rest?.close();
      client.disconnect();
      await server.stop();
    },
  };
}
