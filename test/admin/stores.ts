// The stores that headgate/admin works on, each with its limiters' store and an admin.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createAdmin, type Admin, type AdminOptions } from 'headgate/admin';
import { memoryStore, type Limiter, type Store } from 'headgate';
import { redisStore } from 'headgate/redis';
import { clients, freshPrefix, limiterOn } from '../support/stores.js';
import { drivers, openDatabase, storeOn } from '../support/sqlite.js';
import { serverKinds } from '../support/shared-servers.js';

export interface Place {
  readonly store: Store;
  readonly admin: Admin;
  /** Another interface to the same state, as in another process. */
  again(options?: AdminOptions): Admin;
  /** Another store on the same state, as in another process. Absent in memory. */
  another?(): Promise<Store>;
  close(): Promise<void>;
}

/** The limiters of a test on a place. */
interface Limiters {
  /** Creates a limiter, which is closed after the test. */
  make(options: object): Limiter;
  /** Resolves when the admin knows limiters of these names. */
  known(...names: string[]): Promise<void>;
}

/** Opens a place before each test of a suite, and closes the place and its limiters afterwards. @param take receives the place */
export function useLimiters(open: () => Promise<Place>, take: (place: Place) => void): Limiters {
  let place: Place;
  let closing: Limiter[];
  beforeEach(async () => {
    closing = [];
    place = await open();
    take(place);
  });
  afterEach(async () => {
    await Promise.all(closing.map((each) => each.close()));
    await place.close();
  });
  return {
    make(options) {
      const made = limiterOn(place.store, options as never);
      closing.push(made);
      return made;
    },
    known: (...names) =>
      until(async () => {
        const { limiters } = await place.admin.limiters();
        return names.every((name) => limiters.some((each) => each.name === name));
      }),
  };
}

async function onMemory(): Promise<Place> {
  const store = memoryStore();
  return {
    store,
    admin: createAdmin(store),
    again: (options) => createAdmin(store, options),
    close: async () => {},
  };
}

async function onSqlite(): Promise<Place> {
  const directory = mkdtempSync(join(tmpdir(), 'headgate-admin-'));
  const path = join(directory, 'limits.db');
  const store = storeOn(path);
  const others: Admin[] = [];
  return {
    store,
    admin: createAdmin(store),
    again: (options) => {
      const other = createAdmin(openDatabase(path), options);
      others.push(other);
      return other;
    },
    another: async () => storeOn(path),
    async close() {
      for (const other of others) await other.close();
      await store.close?.();
      rmSync(directory, { recursive: true });
    },
  };
}

async function onRedis(): Promise<Place> {
  const prefix = freshPrefix();
  const store = redisStore(clients.redis, { prefix, publish: '10ms', localDenials: false });
  return {
    store,
    admin: createAdmin(store),
    again: (options) => createAdmin(clients.redis, { prefix, ...options }),
    another: async () => redisStore(clients.redis, { prefix, publish: '10ms', localDenials: false }),
    async close() {
      await store.close?.();
      for (const key of await clients.redis.keys(`${prefix}:*`)) await clients.redis.del(key);
    },
  };
}

export const places: Readonly<Record<string, () => Promise<Place>>> = {
  memory: onMemory,
  ...(Object.keys(drivers).length > 0 && { sqlite: onSqlite }),
  ...(serverKinds.includes('redis') && { redis: onRedis }),
};

/** The items of a list. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

const MOST_MS = 30_000;

/** Resolves once a condition holds. @throws if it does not hold within 30 s: a random test then prints its site */
export async function until(isTrue: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + MOST_MS;
  while (!(await isTrue())) {
    if (performance.now() > end) throw new Error(`30 s later still not: ${isTrue.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
