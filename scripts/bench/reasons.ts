// npm run bench:reasons
// Measures the three reasons of the README, on Express and Redis, beside express-rate-limit with rate-limit-redis. Each limiter has a client of
// ioredis with its defaults. Prints tables in Markdown; progress goes to stderr.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import express, { type ErrorRequestHandler, type RequestHandler } from 'express';
import { rateLimit as expressRateLimit, type Options } from 'express-rate-limit';
import { rateLimit } from 'headgate/express';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { RedisStore, type RedisReply } from 'rate-limit-redis';
import { startServer, type TestServer } from '../../test/support/servers.js';
import { environment } from './lib/report.js';

const MINUTE = 60_000;
const PATIENCE_MS = 4_000;
/** Above this, the answer waited for Redis. */
const SLOW_MS = 50;

interface Answer {
  /** Absent if the client gave up. */
  readonly status: number | undefined;
  readonly ms: number;
  readonly retryAfter: number;
}

/** Sends a request of an account. The client gives up after `PATIENCE_MS`. */
type Send = (account?: string) => Promise<Answer>;

/** The limiters of an application, on a client of Redis. */
type Limiters = (redis: Redis) => readonly RequestHandler[];

const account = (req: express.Request): string => req.get('X-Account') ?? '';

/** A limiter of express-rate-limit, with its counts under `prefix`. */
function peer(redis: Redis, prefix: string, options: Partial<Options>): RequestHandler {
  const sendCommand = (command: string, ...args: string[]) =>
    redis.call(command, ...args) as Promise<RedisReply>;
  return expressRateLimit({
    standardHeaders: 'draft-8',
    store: new RedisStore({ prefix, sendCommand }),
    ...options,
  });
}

/** Runs `use` with a server behind the limiters, and with its Redis. */
async function withServer<T>(
  limiters: Limiters,
  use: (send: Send, redis: TestServer) => Promise<T>,
): Promise<T> {
  const redis = await startServer('redis');
  // Errors of the connection are expected.
  const client = new Redis(redis.port, '127.0.0.1').on('error', () => {});
  const app = express();
  app.use(...limiters(client));
  app.get('/', (_req, res) => void res.send('hello'));
  const onError: ErrorRequestHandler = (_error, _req, res, _next) => void res.sendStatus(500);
  app.use(onError);
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const send: Send = async (account = 'ada') => {
    const begin = performance.now();
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const response = await fetch(url, { signal, headers: { 'X-Account': account } }).catch(() => undefined);
    const ms = performance.now() - begin;
    await response?.text();
    return { status: response?.status, ms, retryAfter: Number(response?.headers.get('Retry-After')) };
  };
  try {
    return await use(send, redis);
  } finally {
    client.disconnect();
    server.close().closeAllConnections();
    await redis.stop();
  }
}

async function sendAll(send: Send, accounts: readonly (string | undefined)[]): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (const account of accounts) answers.push(await send(account));
  return answers;
}

/** `5 x 200 in 101 to 104 ms, then 7 x 429 in 1 to 2 ms`: answers of one kind in one part. */
function describe(answers: readonly Answer[]): string {
  const parts: Answer[][] = [];
  const kindOf = ({ status, ms }: Answer): string => `${status}${ms > SLOW_MS}`;
  for (const answer of answers) {
    const last = parts.at(-1);
    if (last && kindOf(last[0]!) === kindOf(answer)) last.push(answer);
    else parts.push([answer]);
  }
  const texts = parts.map((part) => {
    const { status } = part[0]!;
    if (status === undefined) return `${part.length} without an answer after ${PATIENCE_MS / 1000} s`;
    const [least, most] = [Math.min, Math.max].map((of) => Math.round(of(...part.map(({ ms }) => ms))));
    return `${part.length} x ${status} in ${least} to ${most} ms`;
  });
  return texts.join(', then ');
}

/** One account exceeds its limit of 5 at an address that may send 20. Then other accounts of the address follow. */
async function several(limiters: Limiters): Promise<readonly string[]> {
  return withServer(limiters, async (send) => {
    await sendAll(
      send,
      Array.from({ length: 15 }, () => 'ada'),
    );
    const others = await sendAll(
      send,
      Array.from({ length: 20 }, (_, i) => `other-${i}`),
    );
    return [`${others.filter(({ status }) => status === 200).length} of 15`];
  });
}

/** The answers while Redis has a fault: 17 requests at a limit of 10, after 3 requests before the fault. */
async function outage(limiters: Limiters): Promise<readonly string[]> {
  const faults = ['SIGSTOP', 'SIGKILL'] as const;
  return Promise.all(
    faults.map((fault) =>
      withServer(limiters, async (send, redis) => {
        const before = await sendAll(send, Array<undefined>(3).fill(undefined));
        if (before.some(({ status }) => status !== 200)) throw new Error(describe(before));
        await redis.kill(fault);
        await sleep(SLOW_MS);
        return describe(await sendAll(send, Array<undefined>(17).fill(undefined)));
      }),
    ),
  );
}

/** A client that sends as much as it may, and obeys Retry-After, for 30 seconds. */
async function obedience(limiters: Limiters): Promise<readonly string[]> {
  return withServer(limiters, async (send) => {
    let [admitted, obeyed, deniedAgain, hasWaited] = [0, 0, 0, false];
    for (const end = performance.now() + 30_000; performance.now() < end;) {
      const { status, retryAfter } = await send();
      if (status === 200) admitted++;
      else {
        if (hasWaited) deniedAgain++;
        obeyed++;
        await sleep(retryAfter * 1_000);
      }
      hasWaited = status !== 200;
    }
    return [String(admitted), `${deniedAgain} of ${obeyed}`];
  });
}

const HEADGATE = 'Headgate';
const PEER = 'express-rate-limit';
const PASSES = 'express-rate-limit, `passOnStoreError`';

function ours(policies: readonly string[], options: { keys?: { account: typeof account } } = {}): Limiters {
  return (redis) => [rateLimit({ store: redisStore(redis), policies, warnings: false, ...options })];
}

async function table(
  columns: readonly string[],
  measure: (limiters: Limiters) => Promise<readonly string[]>,
  subjects: Readonly<Record<string, Limiters>>,
): Promise<void> {
  console.log(`\n| ${['', ...columns].join(' | ')} |\n|${' --- |'.repeat(columns.length + 1)}`);
  for (const [name, limiters] of Object.entries(subjects)) {
    console.error(name);
    console.log(`| ${[name, ...(await measure(limiters))].join(' | ')} |`);
  }
}

const { date, machine, node, server, versions } = environment();
const named = ['express-rate-limit', 'rate-limit-redis', 'ioredis', 'express'];
const shown = named.map((name) => `${name} ${versions[name]}`).join(', ');
console.log(`${date}. ${machine}. Node ${node}, ${server}, ${shown}.`);

console.log(
  '\n20 a minute for an address, 5 for an account. After 15 requests of one account, 20 other accounts send one each.',
);
await table(['admitted of the 15 left'], several, {
  [HEADGATE]: ours(['address=fixed-window 20/1m', 'account=fixed-window 5/1m by account'], {
    keys: { account },
  }),
  [PEER]: (redis) => [
    peer(redis, 'address:', { limit: 20, windowMs: MINUTE }),
    peer(redis, 'account:', { limit: 5, windowMs: MINUTE, keyGenerator: account }),
  ],
});

console.log('\n10 a minute. 3 requests, then a fault of Redis, then 17 requests, one at a time.');
const peerOf = (passOnStoreError: boolean): Limiters => {
  return (redis) => [peer(redis, 'rl:', { limit: 10, windowMs: MINUTE, passOnStoreError })];
};
await table(['Redis hangs (SIGSTOP)', 'Redis is gone (SIGKILL)'], outage, {
  [HEADGATE]: ours(['10/1m']),
  [PEER]: peerOf(false),
  [PASSES]: peerOf(true),
});

console.log(
  '\n2 a second and 6 in ten seconds. A client sends for 30 seconds, and obeys each `Retry-After`.',
);
await table(['admitted', 'denied again after the wait'], obedience, {
  [HEADGATE]: ours(['second=fixed-window 2/1s', 'ten=fixed-window 6/10s']),
  [PEER]: (redis) => [
    peer(redis, 'second:', { limit: 2, windowMs: 1_000 }),
    peer(redis, 'ten:', { limit: 6, windowMs: 10_000 }),
  ],
});
process.exit(0);
