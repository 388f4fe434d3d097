// A process that shares an SQLite file with others.
import { createRequire } from 'node:module';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { sqliteStore, type SqliteDatabase } from 'headgate/sqlite';
import { Redis } from 'ioredis';
import { RateLimiterSQLite } from 'rate-limiter-flexible';
import { Keys } from '../lib/keys.js';
import { quantile } from '../lib/stats.js';

export type SqliteSubject =
  'headgate' | 'headgate, Redis' | 'rate-limiter-flexible' | 'rate-limiter-flexible, WAL' | 'no limiter';

export interface SqliteRound {
  readonly perSecond: number;
  /** The duration of a decision, us. */
  readonly p50: number;
  readonly p99: number;
  /** The 99th percentile of all turns of the event loop, ms. */
  readonly turn99: number;
  /** The longest turn in each tenth of a second, ms. */
  readonly blocks: readonly number[];
}

const SLICE_MS = 100;
const points = 1e9;

interface Driver extends SqliteDatabase {
  transaction?: unknown;
}

const load = createRequire(import.meta.url);
const sqlite = process.getBuiltinModule?.('node:sqlite' as 'node:fs') as unknown as
  { DatabaseSync: new (path: string) => Driver } | undefined;

/** Whether there is an SQLite: in Node, or on NODE_PATH. */
export function hasSqlite(): boolean {
  try {
    return sqlite !== undefined || load.resolve('better-sqlite3') !== '';
  } catch {
    return false;
  }
}

/** A database as users open it: better-sqlite3's, or node:sqlite's with the methods for rate-limiter-flexible. */
function open(path: string): Driver {
  if (!sqlite) return new (load('better-sqlite3') as new (path: string) => Driver)(path);
  const database = new sqlite.DatabaseSync(path);
  // The default of better-sqlite3.
  database.exec('PRAGMA busy_timeout = 5000');
  database.transaction = (run: () => unknown) => () => {
    database.exec('BEGIN');
    try {
      const result = run();
      database.exec('COMMIT');
      return result;
    } catch (error) {
      database.exec('ROLLBACK');
      throw error;
    }
  };
  return database;
}

async function consumer(subject: SqliteSubject, path: string) {
  // The effect of the machine alone on a process that is as busy.
  if (subject === 'no limiter') {
    return (): Promise<unknown> => {
      for (const until = performance.now() + 0.03; performance.now() < until;);
      return Promise.resolve();
    };
  }
  if (subject.startsWith('headgate')) {
    const policy = { name: 'api', algorithm: 'fixed-window', limit: points, window: '1m' } as const;
    const limiter = createLimiter({
      ...policy,
      onStoreError: 'throw',
      timeout: '10s',
      store:
        subject === 'headgate' ? sqliteStore(open(path)) : redisStore(new Redis(path), { publish: false }),
    });
    return (key: string): Promise<unknown> => limiter.consume(key);
  }
  const storeClient = open(path);
  if (subject.endsWith('WAL')) storeClient.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL');
  const limiter = await new Promise<RateLimiterSQLite>((resolve, reject) => {
    const options = { storeClient, storeType: 'better-sqlite3', tableName: 'limits', points, duration: 60 };
    const limiter: RateLimiterSQLite = new RateLimiterSQLite(options, (error?: Error) =>
      error ? reject(error) : setImmediate(() => resolve(limiter)),
    );
  });
  // On a busy machine it fails, because the file stays locked for longer than its driver waits. A failure counts as an answer.
  const answerOf = (error: Error): void => {
    if (!/locked/.test(error.message)) throw error;
  };
  return (key: string): Promise<unknown> => limiter.consume(key).catch(answerOf);
}

export async function start({ subject, path }: { subject: SqliteSubject; path: string }) {
  const consume = await consumer(subject, path);
  const keys = new Keys(10_000);
  return {
    /** Keeps `inFlight` requests waiting for `ms`. */
    async round(inFlight: number, ms: number): Promise<SqliteRound> {
      const took: number[] = [];
      const blocks: number[] = [];
      const turns: number[] = [];
      const begin = performance.now();
      const until = begin + ms;
      let last = begin;
      const turn = (): void => {
        const now = performance.now();
        const at = Math.floor((now - begin) / SLICE_MS);
        blocks[at] = Math.max(blocks[at] ?? 0, now - last);
        turns.push(now - last);
        last = now;
        if (now < until) setImmediate(turn);
      };
      setImmediate(turn);
      const ask = async (): Promise<void> => {
        for (let now = begin; now < until;) {
          await consume(keys.random());
          const ended = performance.now();
          took.push(1000 * (ended - now));
          now = ended;
          // Requests arrive by the event loop.
          if (inFlight > 1) await new Promise(setImmediate);
        }
      };
      await Promise.all(Array.from({ length: inFlight }, ask));
      took.sort((a, b) => a - b);
      return {
        perSecond: (1000 * took.length) / (performance.now() - begin),
        p50: quantile(took, 0.5),
        p99: quantile(took, 0.99),
        turn99: quantile(
          turns.sort((a, b) => a - b),
          0.99,
        ),
        blocks: blocks.filter((block) => block !== undefined),
      };
    },
  };
}
