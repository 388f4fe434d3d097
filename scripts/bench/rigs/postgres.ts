// A process that shares a table of PostgreSQL.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createLimiter } from 'headgate';
import { postgresStore } from 'headgate/postgres';
import { Pool } from 'pg';
import { RateLimiterPostgres } from 'rate-limiter-flexible';
import { Keys } from '../lib/keys.js';
import { quantile } from '../lib/stats.js';

export type PostgresSubject = 'headgate' | 'rate-limiter-flexible' | 'one upsert per request';

export interface PostgresRound {
  readonly perSecond: number;
  /** The duration of a decision, us. */
  readonly p50: number;
  readonly p99: number;
  /** The longest wait for a connection of the pool, ms. */
  readonly connect: number;
  /** The delay of the event loop, its 99th percentile and the longest, ms. */
  readonly delay99: number;
  readonly delay: number;
  /** The processor time of the process for a decision, us. */
  readonly cpu: number;
}

const points = 1e9;

const UPSERT = `INSERT INTO upserts AS t VALUES ($1, 1, now() + interval '1 minute') ON CONFLICT (key) DO UPDATE SET
n = CASE WHEN t.until <= now() THEN 1 ELSE t.n + 1 END, until = CASE WHEN t.until <= now() THEN excluded.until ELSE t.until END
RETURNING n, until`;

async function consumer(subject: PostgresSubject, pool: Pool): Promise<(key: string) => Promise<unknown>> {
  if (subject === 'headgate') {
    const store = postgresStore(pool);
    await store.setup();
    const policy = { name: 'api', algorithm: 'fixed-window', limit: points, window: '1m' } as const;
    const limiter = createLimiter({ ...policy, onStoreError: 'throw', timeout: '1m', store });
    return (key) => limiter.consume(key);
  }
  if (subject === 'one upsert per request') {
    const table =
      'CREATE UNLOGGED TABLE IF NOT EXISTS upserts (key text PRIMARY KEY, n bigint, until timestamptz) WITH (fillfactor = 70)';
    await pool.query(table);
    return (key) => pool.query({ name: 'upsert', text: UPSERT, values: [key] });
  }
  const limiter = await new Promise<RateLimiterPostgres>((resolve, reject) => {
    const options = { storeClient: pool, tableName: 'limits', points, duration: 60 };
    const limiter: RateLimiterPostgres = new RateLimiterPostgres(options, (error?: Error) =>
      error ? reject(error) : setImmediate(() => resolve(limiter)),
    );
  });
  return (key) => limiter.consume(key);
}

export async function start(options: { subject: PostgresSubject; url: string; keys: number }) {
  const pool = new Pool({ connectionString: options.url });
  let connect = 0;
  const original = pool.connect.bind(pool) as (...args: unknown[]) => unknown;
  // Pool.query calls connect with a callback.
  pool.connect = ((...args: unknown[]) => {
    const asked = performance.now();
    const note = (): void => void (connect = Math.max(connect, performance.now() - asked));
    const [callback] = args as [((...found: unknown[]) => void) | undefined];
    if (callback)
      return original((...found: unknown[]) => {
        note();
        callback(...found);
      });
    const connected = original() as Promise<unknown>;
    void connected.then(note);
    return connected;
  }) as typeof pool.connect;
  const consume = await consumer(options.subject, pool);
  const keys = new Keys(options.keys);
  return {
    /** Keeps `inFlight` requests waiting for `ms`. */
    async round(inFlight: number, ms: number): Promise<PostgresRound> {
      connect = 0;
      const took: number[] = [];
      const delay = monitorEventLoopDelay({ resolution: 1 });
      delay.enable();
      const begun = process.cpuUsage();
      const begin = performance.now();
      const until = begin + ms;
      const ask = async (): Promise<void> => {
        for (let now = begin; now < until;) {
          await consume(keys.random());
          const ended = performance.now();
          took.push(1000 * (ended - now));
          now = ended;
        }
      };
      await Promise.all(Array.from({ length: inFlight }, ask));
      const { user, system } = process.cpuUsage(begun);
      delay.disable();
      took.sort((a, b) => a - b);
      return {
        perSecond: (1000 * took.length) / (performance.now() - begin),
        p50: quantile(took, 0.5),
        p99: quantile(took, 0.99),
        connect,
        delay99: delay.percentile(99) / 1e6,
        delay: delay.max / 1e6,
        cpu: (user + system) / took.length,
      };
    },
  };
}
