// Drives every collection that grows with clients' requests past its bound, and reports the sizes. Argument: a Redis server's port.
import { kept, peaks } from './collections.js';
import { once } from 'node:events';
import type { Server } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import type { Limiter, Policy, Store } from 'headgate';
import type { Query, Reply } from 'headgate/stores';

const { createLimiter, memoryStore } = await import('headgate');
const { redisStore } = await import('headgate/redis');
const { clientKey } = await import('headgate/http');
const { rateLimit } = await import('headgate/express');
const { rateLimit: expressRateLimit } = await import('headgate/compat/express-rate-limit');
const { fastifyRateLimit } = await import('headgate/compat/fastify-rate-limit');
const { default: Fastify } = await import('fastify');
const { instrument } = await import('headgate/opentelemetry');
const { default: express } = await import('express');
const { Redis } = await import('ioredis');
const { clients } = await import('../../../packages/cli/src/replay/addresses.js');

/** The report to the parent process. */
export interface Report {
  readonly peaks: Readonly<Record<string, number>>;
  /** The entries in use by file, while no request is open (`idle`), and after all is closed (`closed`). */
  readonly idle: Readonly<Record<string, number>>;
  readonly closed: Readonly<Record<string, number>>;
  /** The additional listeners of many limiters or requests, compared with a single limiter or request, by listened-to object. */
  readonly listeners: Readonly<Record<string, number>>;
  /** Bytes per round, when the same work is repeated. */
  readonly growth: number;
}

const redis = new Redis(Number(process.argv[2]));
await once(redis, 'ready');

let prefixes = 0;
const prefix = (): string => `resources-${prefixes++}`;

const count = (emitter: NodeJS.EventEmitter): number =>
  emitter.eventNames().reduce((sum, event) => sum + emitter.listenerCount(event), 0);

/** Calls `ask` for `n` keys, some at a time. */
async function forEachKey(n: number, ask: (key: string, i: number) => unknown): Promise<void> {
  for (let i = 0; i < n; i += 500) {
    const calls = Array.from({ length: Math.min(500, n - i) }, (_, j) => ask(`key-${i + j}`, i + j));
    await Promise.all(calls);
  }
}

/** Sends requests on one connection. Returns the number of listeners that the server's side has in the middle of the last request. */
async function pipeline(middleware: unknown, requests: readonly string[]): Promise<number> {
  let onSocket = 0;
  const app = express();
  app.use(middleware as never, (req: { socket: NodeJS.EventEmitter }, res: { end(): void }) => {
    onSocket = count(req.socket);
    res.end();
  });
  const server: Server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  let answers = 0;
  let rest = '';
  const done = new Promise<void>((resolve) => {
    socket.setEncoding('latin1').on('data', (text: string) => {
      const parts = (rest + text).split('HTTP/1.1 ');
      answers += parts.length - 1;
      rest = parts.at(-1)!.slice(-8);
      if (answers === requests.length) resolve();
    });
  });
  for (let i = 0; i < requests.length; i += 100) socket.write(requests.slice(i, i + 100).join(''));
  await done;
  socket.destroy();
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
  return onSocket;
}

const request = (user: string | number) => `GET / HTTP/1.1\r\nHost: localhost\r\nX-User: ${user}\r\n\r\n`;
const user = (req: { headers: Record<string, unknown> }): string => String(req.headers['x-user']);

async function addresses(): Promise<void> {
  for (let i = 0; i < 2500; i++) clientKey(`2001:db8:${i.toString(16)}::1`);
  for (let subnet = 1; subnet <= 128; subnet++) clientKey('2001:db8::1', subnet);
  const logged = clients({ subnet: 56, trustedHops: undefined });
  for (let i = 0; i < 12_000; i++) logged(`10.0.0.1, 2001:db8:${i.toString(16)}::1`);
}

/** Refunds and resets many keys of a memory store. */
async function returns(): Promise<void> {
  const limiter = createLimiter({ store: memoryStore(), policies: 'token-bucket 100/1d' });
  await forEachKey(60_000, async (key) => (await limiter.consume(key)).refund());
  await forEachKey(60_000, (key) => limiter.reset(`${key} reset`));
  await limiter.close();
}

async function bans(): Promise<void> {
  const store = memoryStore({ maxKeys: 1000 });
  const limiter = createLimiter({ store, limit: 1, window: '1h', ban: { after: 1, for: '1h' } });
  await forEachKey(3000, async (key) => {
    await limiter.consume(key);
    await limiter.consume(key);
  });
  await forEachKey(1500, (key) => limiter.ban(key, '2h'));
  await limiter.close();
}

async function slots(): Promise<void> {
  const limiter = createLimiter({ algorithm: 'concurrency', limit: 700, lease: '1h' });
  await forEachKey(3000, () => limiter.acquire('one'));
  await limiter.close();
}

/** Builds policies from the contents of requests. */
async function policies(): Promise<void> {
  const limit = rateLimit({
    policies: (req: never) => [{ name: `p${user(req)}`, limit: 5, window: '1h' }],
    keyGenerator: () => 'one',
  } as never);
  await pipeline(
    limit,
    Array.from({ length: 2500 }, (_, i) => request(i)),
  );
}

/** Remembers denials, of one policy and of several, and ends them by refunds. */
async function denials(): Promise<void> {
  const quota: Policy = { name: 'a', algorithm: 'fixed-window', limit: 1, window: '1h' };
  const common = {
    store: redisStore(redis, { prefix: prefix(), localDenials: '1m' }),
    timeout: '1m',
  } as const;
  const one = createLimiter({ ...common, name: 'one', policies: [quota] });
  const two = createLimiter({ ...common, name: 'two', policies: [quota, { ...quota, name: 'b' }] });
  for (const limiter of [one, two]) {
    for (let i = 0; i < 2; i++) await forEachKey(12_000, (key) => limiter.consume(key));
    await forEachKey(12_000, (key) => limiter.refund(key));
    await limiter.close();
  }
}

/** Decides from slices for hot keys, and without slices for others. */
async function slices(): Promise<void> {
  const store = redisStore(redis, { prefix: prefix(), slices: { hold: '1s' } });
  const limiter = createLimiter({ store, limit: 1000, window: '1h', timeout: '1m' });
  await forEachKey(12_000, (key) => limiter.consume(key));
  await limiter.close();
  await store.close?.();
}

/** A store that fails while `fails` is set. */
class Failing implements Store {
  fails = false;

  async decide({ set, lease }: Query): Promise<Reply> {
    if (this.fails || lease === 'never') throw new Error('it fails');
    return { now: 1000, step: 0, ban: 0, verdicts: set.policies.flatMap(() => [0, 5, 1000]) };
  }

  async adjust(): Promise<never> {
    throw new Error('it fails');
  }

  async lease(): Promise<boolean> {
    if (this.fails) throw new Error('it fails');
    return true;
  }

  async reset(): Promise<void> {}
  async ban(): Promise<void> {}
}

/** Gives units back while the store is down; opens, uses and closes limiters. */
async function outage(): Promise<void> {
  const store = new Failing();
  const options = { store, policies: [{ algorithm: 'concurrency', limit: 9, lease: '1h' }] } as const;
  const limiter = createLimiter({ ...options, onHealth: () => {} });
  const held = await Promise.all(Array.from({ length: 12_000 }, (_, i) => limiter.consume(`key-${i}`)));
  store.fails = true;
  while (limiter.health.state === 'up') {
    await (await limiter.consume('x')).release();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await Promise.all(held.map((decision) => decision.release()));
  for (let i = 0; i < 300; i++) {
    const other = createLimiter({ ...options, name: `other-${i}`, onHealth: () => {} });
    await other.consume('x');
    await other.close();
  }
  store.fails = false;
  while (limiter.health.state === 'down') await new Promise((resolve) => setTimeout(resolve, 5));
  await new Promise((resolve) => setTimeout(resolve, 50));
  await limiter.close();
}

/** 10,000 waits: some have no room, some are cancelled, some are served. */
async function waits(): Promise<Limiter> {
  const limiter = createLimiter({
    ...{ algorithm: 'concurrency', limit: 1, lease: '1h', maxWaiting: 400, maxWaitingPerKey: 400 },
  });
  for (let round = 0; round < 20; round++) {
    const held = await Promise.all(Array.from({ length: 400 }, (_, i) => limiter.acquire(`key-${i}`)));
    const gone = new AbortController();
    const waiting = Array.from({ length: 500 }, (_, i) =>
      limiter
        .wait(`key-${i % 400}`, i % 2 === 0 ? { signal: AbortSignal.any([gone.signal]) } : {})
        .then((decision) => decision.release())
        .catch(() => {}),
    );
    gone.abort();
    await Promise.all(held.map((decision) => decision.release()));
    await Promise.all(waiting);
  }
  return limiter;
}

/** Requests that wait for their turn and are cancelled. */
async function holds(): Promise<Limiter> {
  const limiter = createLimiter({
    ...{ algorithm: 'leaky-bucket', limit: 1, window: '1h', burst: 1, maxDelay: '100d' },
    ...{ maxWaiting: 400, maxWaitingPerKey: 400 },
  });
  for (let round = 0; round < 20; round++) {
    const gone = new AbortController();
    const held = Array.from({ length: 1000 }, async (_, i) => {
      const decision = await limiter.consume(`key-${i % 400}`);
      await limiter.hold(decision, { signal: AbortSignal.any([gone.signal]) }).catch(() => {});
    });
    await new Promise(setImmediate);
    gone.abort();
    await Promise.all(held);
  }
  return limiter;
}

async function names(): Promise<void> {
  const stop = instrument();
  const store = memoryStore();
  for (let i = 0; i < 500; i++) {
    const limiter = createLimiter({ name: `name-${i}`, store, limit: 1, window: '1s' });
    await limiter.consume('x');
    await limiter.close();
  }
  stop();
}

async function compat(): Promise<void> {
  const limit = expressRateLimit({
    ...{ windowMs: 3_600_000, limit: (req: never) => Number(user(req)), keyGenerator: user as never },
    ...{ validate: false, skipSuccessfulRequests: false },
  } as never);
  // Sends ever new limits, and ever new keys that are denied.
  await pipeline(limit, Array.from({ length: 2500 }, (_, i) => [request(i), request(i)]).flat());
  const closed = expressRateLimit({
    ...{ windowMs: 3_600_000, limit: 0, keyGenerator: user as never, validate: false },
  });
  await pipeline(
    closed,
    Array.from({ length: 110_000 }, (_, i) => request(i)),
  );
}

async function fastifyCompat(): Promise<void> {
  const app = Fastify();
  await app.register(fastifyRateLimit, { max: (req) => Number(user(req)), timeWindow: '1h' });
  app.get('/', () => '');
  await forEachKey(1500, (_, i) => app.inject({ url: '/', headers: { 'x-user': String(i + 1) } }));
  await app.close();
}

/** A cluster whose servers' addresses change. */
async function servers(): Promise<void> {
  const client = {
    ...{ status: 'ready', options: {}, slots: [] as string[][], nodes: () => [], on() {}, once() {} },
    sendCommand: () => new Promise(() => {}),
    eval(...args: unknown[]): unknown {
      return (this as unknown as { sendCommand(command: object): unknown }).sendCommand({ args });
    },
    evalsha: () => new Promise(() => {}),
    call: () => new Promise(() => {}),
  };
  for (let slot = 0; slot < 16_384; slot++) client.slots.push([`host-${slot}:1`]);
  const store = redisStore(client as never);
  const { set } = createLimiter({ limit: 1, window: '1s' });
  for (let i = 0; i < 1200; i++) void store.decide({ set, key: `key-${i}`, cost: 1, peek: false, lease: '' });
}

/** Limiters and stores on a shared client. */
async function shared(): Promise<void> {
  for (let i = 0; i < 100; i++) {
    const store = redisStore(redis, { prefix: prefix(), ...(i % 2 === 0 && { slices: true }) });
    const limiter = createLimiter({ name: 'shared', store, limit: 5, window: '1h', onHealth: () => {} });
    for (let j = 0; j < 7; j++) await limiter.consume('x');
    await limiter.close();
    await store.close?.();
  }
}

const listeners: Record<string, number> = {};
await shared();
const [onProcess, onClient] = [count(process), count(redis)];

for (const drive of [
  addresses,
  returns,
  bans,
  slots,
  policies,
  denials,
  slices,
  outage,
  names,
  compat,
  fastifyCompat,
  servers,
])
  await drive();
const open = [await waits(), await holds()];
const idle = await kept();
for (const limiter of open) await limiter.close();

await shared();
listeners['the client'] = count(redis) - onClient;
listeners['the process'] = count(process) - onProcess;

const middleware = () =>
  rateLimit({ algorithm: 'concurrency', limit: 700, lease: '1h', skipFailedRequests: true });
const requests = (n: number) => Array.from({ length: n }, () => request(1));
listeners['a connection'] =
  (await pipeline(middleware(), requests(2000))) - (await pipeline(middleware(), requests(1)));

// Repeats the same work: growth outside of a Map or a Set would show here.
const repeat = async (): Promise<number> => {
  for (const drive of [addresses, slots, policies, waits, holds, shared, outage]) {
    const limiter = await drive();
    await limiter?.close();
  }
  await kept();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
};
const heaps: number[] = [];
for (let i = 0; i < 5; i++) heaps.push(await repeat());
// The first round fills caches.
const growth = (Math.min(...heaps.slice(3)) - Math.min(...heaps.slice(1, 3))) / 2;

const report: Report = { peaks: Object.fromEntries(peaks), idle, closed: await kept(), listeners, growth };
process.send!(report);
redis.disconnect();
process.disconnect();
