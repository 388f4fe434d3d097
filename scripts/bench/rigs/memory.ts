// One limiter in memory, called like the limiter's own middleware calls it.
import { subscribe } from 'node:diagnostics_channel';
import { MemoryStore, rateLimit as peerRateLimit } from 'express-rate-limit';
import { createLimiter } from 'headgate';
import { rateLimit } from 'headgate/express';
import { RateLimiterMemory } from 'rate-limiter-flexible';
import { fastifyCounter } from '../lib/fastify-counter.js';
import { KEYS_PER_BATCH, Keys } from '../lib/keys.js';

/** A window, ms, in which no key expires during the measurement. */
const WINDOW_MS = 3_600_000;

interface Limits {
  readonly limit: number;
  readonly keys: number;
  /** The window of Headgate's limiter, ms. */
  readonly window?: number;
}

type Ask = (key: string, options?: { cost: number }) => unknown;

const ours =
  (algorithm: 'sliding-window' | 'fixed-window' | 'gcra') =>
  ({ limit, window = WINDOW_MS }: Limits): Ask => {
    const limiter = createLimiter({ algorithm, limit, window });
    return (key, options) => limiter.consume(key, options);
  };

/** The methods of Express' responses that an admitting middleware uses. */
class Response {
  readonly headersSent = false;
  readonly #headers = new Map<string, unknown>();
  setHeader(name: string, value: unknown): void {
    this.#headers.set(name, value);
  }
  getHeader(name: string): unknown {
    return this.#headers.get(name);
  }
}

type Middleware = (request: never, response: never, next: (error?: unknown) => void) => unknown;

/** The work between a request and the next middleware: key, decision, header fields. */
const called = (middleware: Middleware): Ask => {
  return (key) =>
    new Promise<void>((resolve, reject) => {
      const next = (error?: unknown): void => (error instanceof Error ? reject(error) : resolve());
      void middleware({ key, ip: key, headers: {} } as never, new Response() as never, next);
    });
};
const keyGenerator = (request: unknown): string => (request as { key: string }).key;

/** A decision from a count, as the peer's middleware makes it in a few lines without an export. */
function counter(): MemoryStore {
  const store = new MemoryStore();
  store.init({ windowMs: WINDOW_MS } as Parameters<MemoryStore['init']>[0]);
  return store;
}

const subjects = {
  'headgate sliding-window (default)': ours('sliding-window'),
  'headgate fixed-window': ours('fixed-window'),
  'headgate gcra': ours('gcra'),
  'headgate sliding-window, listened to': (limits: Limits) => {
    subscribe('headgate:decision', () => {});
    return ours('sliding-window')(limits);
  },
  'rate-limiter-flexible': ({ limit }: Limits): Ask => {
    const limiter = new RateLimiterMemory({ points: limit, duration: WINDOW_MS / 1000 });
    return (key) => limiter.consume(key);
  },
  'express-rate-limit': ({ limit }: Limits): Ask => {
    const store = counter();
    return async (key) => {
      const { totalHits, resetTime } = await store.increment(key);
      const remaining = Math.max(limit - totalHits, 0);
      return { allowed: totalHits <= limit, limit, used: totalHits, remaining, resetTime, key };
    };
  },
  'express-rate-limit, its count alone': (): Ask => {
    const store = counter();
    return (key) => store.increment(key);
  },
  'middleware of headgate (default)': ({ limit }: Limits): Ask =>
    called(rateLimit({ limit, window: WINDOW_MS, headers: 'draft-6', keyGenerator })),
  'middleware of express-rate-limit': ({ limit }: Limits): Ask => {
    const quiet = { standardHeaders: 'draft-6', legacyHeaders: false, validate: false } as const;
    return called(peerRateLimit({ limit, windowMs: WINDOW_MS, ...quiet, keyGenerator }));
  },
  '@fastify/rate-limit': ({ limit, keys }: Limits): Ask => {
    // As large as the number of keys, so that no key is forgotten.
    const count = fastifyCounter('LocalStore', keys, WINDOW_MS, limit);
    return async (key) => {
      const { current, ttl } = await count(key);
      const remaining = Math.max(0, limit - current);
      const ttlInSeconds = Math.ceil(ttl / 1000);
      return { key, max: limit, remaining, ttl, ttlInSeconds, isExceeded: current > limit };
    };
  },
};

/** The decisions to deny. Only Headgate's limiter supports the choice. */
export type Denied = 'none' | 'half' | 'all';

export type MemorySubject = keyof typeof subjects;
export const memorySubjects = Object.keys(subjects) as MemorySubject[];

export async function start({ subject, ...limits }: Limits & { subject: MemorySubject }) {
  const keys = new Keys(limits.keys);
  const batch = new Array<string>(KEYS_PER_BATCH).fill('');
  // Memory of the code itself does not belong to a key.
  const first = subjects[subject](limits);
  for (let i = 0; i < KEYS_PER_BATCH; i++) await first(keys.at(i % keys.count));
  collect();
  const before = bytes();
  const ask = subjects[subject](limits);
  /** The longest batch of the fill, ms, which shows the worst growth of the table. */
  let pause = 0;

  /** Microseconds of CPU, including garbage collection, because a busy machine makes the wall clock meaningless. */
  async function decide(batch: readonly string[], count: number, denied?: Denied): Promise<number> {
    // Peers have no options, so comparisons pass no options either.
    const one = denied && { cost: 1 };
    // Once a key is charged, a cost of the whole limit is denied.
    const whole = { cost: limits.limit };
    const begin = process.cpuUsage();
    for (let i = 0; i < count; i++) {
      const isDenied = denied === 'all' || (denied === 'half' && i % 2 === 1);
      const answer = ask(batch[i]!, isDenied ? whole : one);
      if (answer instanceof Promise) await answer;
    }
    const { user, system } = process.cpuUsage(begin);
    return user + system;
  }

  return {
    /** Decides once for each key. Returns the bytes per key, on the heap and outside. */
    async fill() {
      for (let from = 0; from < keys.count; from += KEYS_PER_BATCH) {
        const count = Math.min(KEYS_PER_BATCH, keys.count - from);
        for (let i = 0; i < count; i++) batch[i] = keys.at(from + i);
        pause = Math.max(pause, (await decide(batch, count)) / 1000);
      }
      batch.fill('');
      collect();
      return { bytes: (bytes() - before) / keys.count, pause };
    },

    /** Nanoseconds per decision. */
    async round(decisions: number, denied?: Denied) {
      let time = 0;
      // The keys are created before the clock is read.
      for (let done = 0; done < decisions; done += KEYS_PER_BATCH)
        time += await decide(keys.batch(), KEYS_PER_BATCH, denied);
      return { ns: (time * 1000) / decisions };
    },
  };
}

function collect() {
  for (let i = 0; i < 3; i++) globalThis.gc?.();
}

function bytes(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
