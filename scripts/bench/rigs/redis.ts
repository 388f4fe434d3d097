// One limiter on a Redis server, which rigs use in turns. The calls are the same as in the limiter's own middleware.
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Cluster, Redis } from 'ioredis';
import { RateLimiterRedis } from 'rate-limiter-flexible';
import { RedisStore } from 'rate-limit-redis';
import { createClient } from 'redis';
import { fastifyCounter } from '../lib/fastify-counter.js';
import { Keys } from '../lib/keys.js';
import { quantile } from '../lib/stats.js';

/** The default window, ms. */
const WINDOW_MS = 3_600_000;

/** One in so many decisions is timed. Denials from memory are timed less often, because reading the clock would cost the fastest limiter most. */
const DECISIONS_PER_SAMPLE = 8;
const DENIALS_PER_SAMPLE = 64;

/**
 * The warm-up of a limiter for each number of decisions in flight, ms. The measurement is about a server with some uptime, where V8 has
 * compiled all code, including functions that run once for many decisions.
 */
const WARM_UP_MS = 3000;

/** The number of decisions after which each user yields to the event loop. */
const DECISIONS_PER_TURN = 1000;

export interface RedisOptions {
  readonly subject: RedisSubject;
  readonly port: number;
  /** The port through which the limiter reaches the server, if it differs from the server's. */
  readonly via?: number;
  readonly limit: number;
  readonly keys: number;
  /** Whether the port belongs to a cluster. */
  readonly cluster?: boolean;
  /** The name of Headgate's limiter, if limiters with other limits use the same server. */
  readonly scope?: string;
  /** The number of deciding policies, all alike. */
  readonly policies?: number;
  /** The window of Headgate's limiter, ms. */
  readonly window?: number;
  /** Whether Headgate's limiter asks the server for every denial as well. */
  readonly remote?: boolean;
  /** Whether each policy is by a separate dimension. */
  readonly dimensions?: boolean;
  /** One in so many keys has an override in Headgate's limiter. 0: no key. */
  readonly overrides?: number;
}

/** A limiter under test. `allowed` reads its answers; a rejection that is not an Error is a denial. */
interface Subject {
  ask(key: string): unknown;
  allowed(answer: never): boolean;
}

type Algorithm = 'sliding-window' | 'fixed-window' | 'gcra' | 'sliding-log' | 'calendar';

function connect({ port, via, cluster }: RedisOptions): Redis | Cluster {
  return cluster ? new Cluster([{ host: '127.0.0.1', port }]) : new Redis(via ?? port);
}

const ours =
  (algorithm: Algorithm) =>
  async (options: RedisOptions): Promise<Subject> => {
    const redis = connect(options);
    const count = options.policies ?? 1;
    const limiter = createLimiter({
      name: options.scope ?? 'api',
      store: redisStore(redis, options.remote ? { localDenials: false } : {}),
      // A stall of the machine must not change the measurement.
      timeout: '10s',
      onStoreError: 'throw',
      overrides: options.overrides !== undefined,
      policies: Array.from({ length: count }, (_, i) => ({
        ...(count > 1 && { name: `policy ${i}` }),
        ...(options.dimensions && i > 0 && { by: `dimension${i}` }),
        limit: options.limit,
        ...(algorithm === 'calendar'
          ? { algorithm, period: 'day' as const }
          : { algorithm, window: options.window ?? WINDOW_MS }),
      })),
    });
    if (options.overrides) {
      const keys = new Keys(options.keys);
      for (let i = 0; i < keys.count; i += options.overrides)
        await limiter.override(keys.at(i), { limit: 2 * options.limit });
    }
    const others = options.dimensions ? Array.from({ length: count - 1 }, (_, i) => `dimension${i + 1}`) : [];
    const keysOf = (key: string) => ({ key, ...Object.fromEntries(others.map((name) => [name, key])) });
    return {
      ask: options.dimensions ? (key) => limiter.decide(keysOf(key)) : (key) => limiter.decide(key),
      allowed: ({ allowed }: { allowed: boolean }) => allowed,
    };
  };

const ZSET = `
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2] * 1000)
  local count = redis.call('ZCARD', KEYS[1])
  if count >= tonumber(ARGV[1]) then return { 0, count } end
  redis.call('ZADD', KEYS[1], now, now)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return { 1, count + 1 }
`;

/** node-redis at its fastest: by default each command has a timeout, and an AbortSignal for the timeout. */
async function tunedClient({ port: own, via: port = own }: RedisOptions) {
  const client = createClient({ socket: { port }, commandOptions: { timeout: undefined } as object });
  await client.connect();
  return client;
}

function flexible(options: ConstructorParameters<typeof RateLimiterRedis>[0]): Subject {
  const limiter = new RateLimiterRedis(options);
  return { ask: (key) => limiter.consume(key), allowed: () => true };
}

type Send = (...args: string[]) => Promise<unknown>;

async function expressRateLimit(send: Send, { limit }: RedisOptions): Promise<Subject> {
  const store = new RedisStore({ sendCommand: send as never });
  await store.init({ windowMs: WINDOW_MS } as Parameters<RedisStore['init']>[0]);
  return {
    ask: (key) => store.increment(key),
    allowed: ({ totalHits }: { totalHits: number }) => totalHits <= limit,
  };
}

const subjects = {
  'headgate sliding-window (default)': ours('sliding-window'),
  'headgate fixed-window': ours('fixed-window'),
  'headgate gcra': ours('gcra'),
  'headgate sliding-log': ours('sliding-log'),
  'headgate calendar': ours('calendar'),
  'a log in a sorted set': ({ port, limit }: RedisOptions): Subject => {
    const redis = new Redis(port);
    redis.defineCommand('logInSet', { numberOfKeys: 1, lua: ZSET });
    const { logInSet } = redis as unknown as Record<'logInSet', (...args: unknown[]) => unknown>;
    return {
      ask: (key) => logInSet.call(redis, `set:${key}`, limit, WINDOW_MS),
      allowed: ([admitted]: [number]) => admitted === 1,
    };
  },
  'rate-limiter-flexible': (options: RedisOptions): Subject => {
    const storeClient = connect(options);
    return flexible({ storeClient, points: options.limit, duration: WINDOW_MS / 1000 });
  },
  'rate-limiter-flexible, tuned': async (options: RedisOptions): Promise<Subject> => {
    const points = options.limit;
    return flexible({
      ...{ storeClient: await tunedClient(options), useRedisPackage: true, keyPrefix: 'tuned' },
      ...{ points, duration: WINDOW_MS / 1000, inMemoryBlockOnConsumed: points },
    });
  },
  'express-rate-limit': (options: RedisOptions) => {
    const redis = new Redis(options.via ?? options.port);
    const send: Send = (command, ...args) => redis.call(command, ...args);
    return expressRateLimit(send, options);
  },
  'express-rate-limit, tuned': async (options: RedisOptions) => {
    const client = await tunedClient(options);
    return expressRateLimit((...args) => client.sendCommand(args), options);
  },
  '@fastify/rate-limit': (options: RedisOptions): Subject => ({
    ask: fastifyCounter('RedisStore', connect(options), WINDOW_MS, options.limit),
    allowed: ({ current }: { current: number }) => current <= options.limit,
  }),
};

export type RedisSubject = keyof typeof subjects;
export const redisSubjects = Object.keys(subjects) as RedisSubject[];

export async function start(options: RedisOptions) {
  const subject = await subjects[options.subject](options);
  const server = new Redis(options.port);
  const keys = new Keys(options.keys);

  const { ask, allowed } = subject;

  function decide(key: string): boolean | Promise<boolean> {
    const answer = ask(key);
    return answer instanceof Promise ? awaited(answer) : allowed(answer as never);
  }

  async function awaited(answer: Promise<unknown>): Promise<boolean> {
    try {
      return allowed((await answer) as never);
    } catch (denial) {
      if (denial instanceof Error) throw denial;
      return false;
    }
  }

  /** Keeps `inFlight` decisions in flight for `ms`. Returns their number, and the microseconds of some. */
  async function load(inFlight: number, ms: number, admitted: boolean | 'any') {
    const times: number[] = [];
    const every = admitted === false ? DENIALS_PER_SAMPLE : DECISIONS_PER_SAMPLE;
    const end = performance.now() + ms;
    let decisions = 0;
    let over = false;
    async function user() {
      while (!over) {
        const timed = decisions++ % every === 0;
        const begin = timed ? performance.now() : 0;
        const decision = decide(keys.random());
        const answer = decision instanceof Promise ? await decision : decision;
        if (admitted !== 'any' && answer !== admitted)
          throw new Error(`${options.subject}: not as expected.`);
        // Answers from memory would leave the other users no turn.
        if (decisions % DECISIONS_PER_TURN === 0) await new Promise(setImmediate);
        if (!timed) continue;
        const now = performance.now();
        times.push((now - begin) * 1000);
        over ||= now >= end;
      }
    }
    await Promise.all(Array.from({ length: inFlight }, user));
    return { decisions, times: times.sort((a, b) => a - b) };
  }

  /** Some decisions for each key. */
  async function decideAll(times: number): Promise<void> {
    for (let n = 0; n < times; n++) {
      for (let i = 0; i < keys.count; i += 100) {
        const length = Math.min(100, keys.count - i);
        await Promise.all(Array.from({ length }, async (_, j) => decide(keys.at(i + j))));
      }
    }
  }

  return {
    /** Spends the whole quota of each key, and asks again, so that limiters that remember denials do so. */
    exhaust: () => decideAll(options.limit + 2),

    /** Decides once (or `times` times) for each key. Returns the bytes per key by MEMORY USAGE, and by the server's memory. */
    async fill(times = 1) {
      await server.flushall('SYNC');
      await decide(keys.at(0));
      const before = await memoryOf(server);
      await decideAll(times);
      let usage = 0;
      const sample = 200;
      for (let i = 0; i < sample; i++)
        usage += Number(await server.memory('USAGE', (await server.randomkey())!));
      return { usage: usage / sample, total: ((await memoryOf(server)) - before) / keys.count };
    },

    async warmUp(inFlight: readonly number[], admitted: boolean | 'any') {
      for (const each of inFlight) await load(each, WARM_UP_MS, admitted);
    },

    /** @param admitted the expected answer of every decision */
    async round(inFlight: number, ms: number, admitted: boolean | 'any') {
      await load(inFlight, ms / 5, admitted);
      await server.config('RESETSTAT');
      const redisBefore = await cpuOf(server);
      const nodeBefore = process.cpuUsage();
      const spentBefore = keys.spent;
      const begin = performance.now();
      const { decisions, times } = await load(inFlight, ms, admitted);
      const spent = keys.spent - spentBefore;
      const elapsed = performance.now() - begin - spent;
      const { user, system } = process.cpuUsage(nodeBefore);
      const redis = (await cpuOf(server)) - redisBefore;
      return {
        perSecond: (decisions / elapsed) * 1000,
        p50: quantile(times, 0.5),
        p99: quantile(times, 0.99),
        node: (user + system - 1000 * spent) / decisions,
        redis: redis / decisions,
        script: (await scriptTime(server)) / decisions,
      };
    },
  };
}

/** Microseconds of CPU that the server has used. */
const cpuOf = async (server: Redis): Promise<number> =>
  1e6 * (await sumOf(server, 'cpu', /^used_cpu_(?:sys|user):([\d.]+)/gm));

/** Microseconds that scripts have taken since the last reset. */
const scriptTime = (server: Redis): Promise<number> =>
  sumOf(server, 'commandstats', /^cmdstat_(?:evalsha|eval|fcall):.*?usec=(\d+)/gm);

/** The sum of all numbers that an expression finds in a section of INFO. */
async function sumOf(server: Redis, section: string, found: RegExp): Promise<number> {
  const matches = (await server.info(section)).matchAll(found);
  return [...matches].reduce((sum, [, figure]) => sum + Number(figure), 0);
}

async function memoryOf(server: Redis): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await server.info('memory'))?.[1]);
}
