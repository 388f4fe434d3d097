// One limiter on a Redis that other rigs use too, in turns; called as its own middleware calls it.
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Cluster, Redis } from 'ioredis';
import { RateLimiterRedis } from 'rate-limiter-flexible';
import { RedisStore } from 'rate-limit-redis';
import { createClient } from 'redis';
import { fastifyCounter } from '../lib/fastify-counter.js';
import { Keys } from '../lib/keys.js';
import { quantile } from '../lib/stats.js';

/** Unless the options say otherwise, ms. */
const WINDOW = 3_600_000;

/** One decision in so many is timed, of what is answered from memory fewer: the clock would cost the fastest most. */
const TIMED = 8;
const TIMED_DENIED = 64;

/**
 * How long a limiter warms up for each number of decisions in flight, ms. What is measured is a server that has been up for a while. V8 has
 * compiled its code, also that which is called once for many decisions.
 */
const WARM_UP = 3000;

/** After so many decisions each user gives way to the event loop. */
const AT_ONCE = 1000;

export interface RedisOptions {
  readonly subject: RedisSubject;
  readonly port: number;
  /** The port by which the limiter goes to the server, if it is not the server's. */
  readonly via?: number;
  readonly limit: number;
  readonly keys: number;
  /** The port is one of a cluster's. */
  readonly cluster?: boolean;
  /** Of Headgate's limiter, where others of another limit are on the same server. */
  readonly scope?: string;
  /** How many policies decide, all alike. */
  readonly policies?: number;
  /** Of Headgate's limiter, ms. */
  readonly window?: number;
  /** Headgate's limiter asks the server for every denial, too. */
  readonly remote?: boolean;
  /** Each of them is by another dimension. */
  readonly dimensions?: boolean;
  /** Headgate's limiter has overrides: of one key in so many. 0: of none. */
  readonly overrides?: number;
}

/** A limiter under test; `allowed` reads its answers, a rejection that is no error is a denial. */
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
      // A stall of the machine must not change what is measured.
      timeout: '10s',
      onStoreError: 'throw',
      overrides: options.overrides !== undefined,
      policies: Array.from({ length: count }, (_, i) => ({
        ...(count > 1 && { name: `policy ${i}` }),
        ...(options.dimensions && i > 0 && { by: `dimension${i}` }),
        limit: options.limit,
        ...(algorithm === 'calendar'
          ? { algorithm, period: 'day' as const }
          : { algorithm, window: options.window ?? WINDOW }),
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

/** node-redis at its best: by default each command has a timeout, and an AbortSignal for it. */
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
  await store.init({ windowMs: WINDOW } as Parameters<RedisStore['init']>[0]);
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
      ask: (key) => logInSet.call(redis, `set:${key}`, limit, WINDOW),
      allowed: ([admitted]: [number]) => admitted === 1,
    };
  },
  'rate-limiter-flexible': (options: RedisOptions): Subject => {
    const storeClient = connect(options);
    return flexible({ storeClient, points: options.limit, duration: WINDOW / 1000 });
  },
  'rate-limiter-flexible, tuned': async (options: RedisOptions): Promise<Subject> => {
    const points = options.limit;
    return flexible({
      ...{ storeClient: await tunedClient(options), useRedisPackage: true, keyPrefix: 'tuned' },
      ...{ points, duration: WINDOW / 1000, inMemoryBlockOnConsumed: points },
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
    ask: fastifyCounter('RedisStore', connect(options), WINDOW, options.limit),
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

  /** Keeps so many decisions in flight for a while; returns how many there were, and microseconds of some. */
  async function load(inFlight: number, ms: number, admitted: boolean | 'any') {
    const times: number[] = [];
    const every = admitted === false ? TIMED_DENIED : TIMED;
    const end = performance.now() + ms;
    let decisions = 0;
    let over = false;
    async function user() {
      while (!over) {
        const timed = decisions++ % every === 0;
        const begin = timed ? performance.now() : 0;
        const made = decide(keys.random());
        const answer = made instanceof Promise ? await made : made;
        if (admitted !== 'any' && answer !== admitted)
          throw new Error(`${options.subject}: not as expected.`);
        // What is answered at once would leave the others no turn.
        if (decisions % AT_ONCE === 0) await new Promise(setImmediate);
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
    /** Spends all of each key's quota, and asks again, so that who remembers denials does. */
    exhaust: () => decideAll(options.limit + 2),

    /** One decision (or more) for each key; bytes of a key by MEMORY USAGE, and of the server's memory by all of them. */
    async fill(times = 1) {
      await server.flushall();
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
      for (const each of inFlight) await load(each, WARM_UP, admitted);
    },

    /** @param admitted what every answer must be */
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

/** The sum of all that an expression finds in a section of INFO. */
async function sumOf(server: Redis, section: string, found: RegExp): Promise<number> {
  const matches = (await server.info(section)).matchAll(found);
  return [...matches].reduce((sum, [, figure]) => sum + Number(figure), 0);
}

async function memoryOf(server: Redis): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await server.info('memory'))?.[1]);
}
