// npm run demo: an Express and a Fastify server on loopback that share their quotas, every algorithm on both, and real requests to all of them.
import { randomUUID } from 'node:crypto';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import Table from 'cli-table3';
import express, { type ErrorRequestHandler } from 'express';
import Fastify from 'fastify';
import { HeadgateError, memoryStore, type Store } from 'headgate';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import pc from 'picocolors';

const USAGE = `npm run demo [-- --once] [-- --no-show]

  --once     exit after the show
  --no-show  serve at once

REDIS_URL=redis://localhost:6379 keeps the quotas in Redis instead of in memory.
`;

/** What a request's query may ask for. */
type Wish = Partial<Record<'limit' | 'window' | 'cost' | 'key', string>>;

/** Each has its own path on both servers: what it is, its policies of a limit and a window, and how long its handler works, ms. */
const rows: Record<string, { about: string; policies: object[]; work?: number }> = {
  'fixed-window': {
    about: 'a counter; up to twice the limit around the window’s end',
    policies: [{ algorithm: 'fixed-window' }],
  },
  'sliding-window': {
    about: 'the default; never more than the limit in any window',
    policies: [{ algorithm: 'sliding-window' }],
  },
  'sliding-log': {
    about: 'exact: a unit is back when its own window is over',
    policies: [{ algorithm: 'sliding-log' }],
  },
  'token-bucket': { about: 'a burst, then the rate', policies: [{ algorithm: 'token-bucket' }] },
  gcra: { about: 'burst 1: evenly spaced', policies: [{ algorithm: 'gcra', burst: 1 }] },
  'leaky-bucket': {
    about: 'maxDelay 1 s: held for their turn, then denied',
    policies: [{ algorithm: 'leaky-bucket', burst: 1, maxDelay: '1s' }],
  },
  concurrency: {
    about: 'two at a time; each request takes 400 ms here',
    policies: [{ algorithm: 'concurrency', limit: 2, window: undefined, lease: '10s' }],
    work: 400,
  },
  several: {
    about: 'a burst per second and a window together: all charge, or none does',
    policies: [
      { name: 'second', algorithm: 'token-bucket', limit: 4, window: '1s' },
      { name: 'window', algorithm: 'sliding-window' },
    ],
  },
};
const names = Object.keys(rows);

/** The options of both adapters for a row. */
function optionsOf(name: string, store: Store) {
  const wishOf = (request: { query: unknown }) => request.query as Wish;
  return {
    name,
    store,
    policies: (request: { query: unknown }) => {
      const { limit = '6', window = '2s' } = wishOf(request);
      return rows[name]!.policies.map((policy) => ({ name, limit: Number(limit), window, ...policy }));
    },
    cost: (request: { query: unknown }) => Number(wishOf(request).cost ?? 1),
    // Only a demo may trust what clients say about who they are.
    keyGenerator: (request: { query: unknown; ip?: string | undefined }) => wishOf(request).key ?? request.ip,
  };
}

/** Clients are normally not told what is wrong with policies. Here, they wrote them. */
const mistakeOf = ({ message, cause }: HeadgateError) =>
  `${cause instanceof Error ? cause.message : message}\n`;

function expressApp(store: Store): RequestListener {
  const app = express();
  for (const name of names) {
    app.get(`/${name}`, rateLimit(optionsOf(name, store)), async (_req, res) => {
      await sleep(rows[name]!.work ?? 0);
      res.send(`${name} on Express: welcome\n`);
    });
  }
  const refuse: ErrorRequestHandler = (error, _req, res, next) => {
    if (error instanceof HeadgateError && !res.headersSent) res.status(400).send(mistakeOf(error));
    else next(error);
  };
  app.use(refuse);
  return app;
}

async function fastifyApp(store: Store): Promise<RequestListener> {
  const fastify = Fastify();
  await fastify.register(rateLimitPlugin, { global: false });
  for (const name of names) {
    fastify.get(`/${name}`, { config: { rateLimit: optionsOf(name, store) } as object }, async () => {
      await sleep(rows[name]!.work ?? 0);
      return `${name} on Fastify: welcome\n`;
    });
  }
  fastify.setErrorHandler((error, _request, reply) => {
    if (error instanceof HeadgateError) return reply.code(400).send(mistakeOf(error));
    throw error;
  });
  await fastify.ready();
  return (req, res) => fastify.routing(req, res);
}

async function listen(listener: RequestListener) {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await new Promise((resolve, reject) => server.once('listening', resolve).once('error', reject));
  const close = () => (server.close(), server.closeAllConnections());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}

/** The store: in Redis if there is a URL, otherwise in memory. */
async function openStore(url: string | undefined) {
  if (!url) return { store: memoryStore(), where: 'in memory', close: () => {} };
  const redis = new Redis(url, { lazyConnect: true });
  let problem: Error | undefined;
  redis.on('error', (error: Error) => (problem = error));
  const close = () => redis.disconnect();
  try {
    await redis.connect();
  } catch (error) {
    close();
    const { message } = problem ?? (error as Error);
    process.stderr.write(`REDIS_URL=${url}: ${message}. Start a Redis there, or unset REDIS_URL.\n`);
    process.exit(1);
  }
  return { store: redisStore(redis, { prefix: 'headgate-demo' }), where: `in Redis, ${url}`, close };
}

/** When requests are sent, ms: one; eight on either side of the first window's end; then more than the rate for a while. */
const after = Array.from({ length: 17 }, (_, i) => 2700 + 200 * i);
const trace = [0, ...Array<number>(8).fill(1700), ...Array<number>(8).fill(2100), ...after];

/** The width of a column, ms; and how many there are. Held requests are answered after the last one was sent. */
const COLUMN = 100;
const COLUMNS = 72;
const bars = (counts: readonly number[]) => counts.map((count) => ' ▁▂▃▄▅▆▇█'[Math.min(count, 8)]).join('');
const line = (
  name: string,
  kind: string,
  counts: readonly number[],
  colour: (text: string) => string = String,
) =>
  `${pc.bold(name.padEnd(16))}${kind.padEnd(9)}${colour(bars(counts))}${String(counts.reduce((a, b) => a + b)).padStart(4)}\n`;

/** Sends the same requests to every algorithm, in turn to both servers, and prints what came of them. */
async function show(urls: readonly string[]): Promise<void> {
  // Each run has its own key, so that a show on Redis begins with full quotas.
  const key = randomUUID();
  const blank = () => Array<number>(COLUMNS).fill(0);
  const sent = blank();
  const tracks = names.map((name) => ({
    name,
    200: blank(),
    429: blank(),
    first: new Map<number, Response>(),
  }));
  // The first requests of a process are slow.
  for (const url of urls) for (const name of names) await fetch(`${url}/${name}?key=warm-up`);
  const start = performance.now();
  const column = () => Math.min(Math.floor((performance.now() - start) / COLUMN), COLUMNS - 1);
  const requests = trace.map(async (at, i) => {
    sent[at / COLUMN]! += 1;
    await sleep(start + at - performance.now());
    const ask = async ({ name, first, ...counts }: (typeof tracks)[number]) => {
      const response = await fetch(`${urls[i % urls.length]}/${name}?key=${key}`);
      const status = response.status as 200 | 429;
      counts[status][column()]! += 1;
      if (first.has(status)) await response.text();
      else first.set(status, response);
    };
    await Promise.all(tracks.map(ask));
  });
  await Promise.all(requests);

  const seconds = Array.from({ length: 8 }, (_, s) => `${s} s`.padEnd(1000 / COLUMN)).join('');
  process.stdout.write(
    `${' '.repeat(25)}${pc.dim(seconds.slice(0, COLUMNS))}\n${line('requests', 'sent', sent)}\n`,
  );
  const head = ['', 'RateLimit-Policy', 'RateLimit, first', 'RateLimit, denied', 'Retry-After'];
  const table = new Table({ head, style: { head: [], border: [], compact: true } });
  for (const { name, first, ...counts } of tracks) {
    process.stdout.write(
      line(name, 'admitted', counts[200], pc.green) + line('', 'denied', counts[429], pc.red),
    );
    const field = (status: number, of: string) =>
      // The name in an item is left out, because it is the row's.
      (first.get(status)?.headers.get(of) ?? '').replaceAll(`"${name}";`, '').replaceAll(', ', '\n');
    const told = [field(200, 'ratelimit-policy'), field(200, 'ratelimit'), field(429, 'ratelimit')];
    table.push([pc.bold(name), ...told, field(429, 'retry-after')]);
  }
  const denial = tracks.at(-1)!.first.get(429)!;
  const fields = [...denial.headers].filter(([name]) =>
    /^(ratelimit|retry-after|cache-c|content-t)/.test(name),
  );
  const full = ['HTTP/1.1 429', ...fields.map((field) => field.join(': ')), '', await denial.text()];
  process.stdout.write(`
${pc.bold('What they were told')} (q: quota, w: window in seconds, r: remaining, t: seconds)
${table.toString()}

${pc.bold('A denial in full')}
${full.map((each) => `  ${each}`).join('\n')}
`);
}

const { values } = parseArgs({
  options: { once: { type: 'boolean' }, 'no-show': { type: 'boolean' }, help: { type: 'boolean' } },
});
// The reader may stop early, as in `npm run demo | head`.
process.stdout.on('error', () => process.exit());
if (values.help) process.stdout.write(USAGE);
else await main();

async function main(): Promise<void> {
  const { store, where, close } = await openStore(process.env['REDIS_URL']);
  const servers = [await listen(expressApp(store)), await listen(await fastifyApp(store))];
  const [first, second] = servers.map(({ url }) => url);
  const stop = () => [...servers, { close }].forEach((each) => each.close());
  process.stdout.write(
    `${pc.bold('Headgate')}  Express ${pc.cyan(first)}  Fastify ${pc.cyan(second)}  quotas ${where}, shared by both\n\n`,
  );
  for (const name of names) process.stdout.write(`  ${pc.bold(name.padEnd(16))}${rows[name]!.about}\n`);
  process.stdout.write('\nThe same requests to each, in turn to both servers. Limit 6 per 2 s.\n\n');
  try {
    if (!values['no-show']) await show([first!, second!]);
  } catch (error) {
    stop();
    throw error;
  }
  if (values.once) return stop();
  process.stdout.write(`
${pc.bold('Try it')}
  curl -i ${first}/sliding-window
  curl -i '${second}/token-bucket?limit=5&window=10s'
  for i in 1 2 3 4 5 6 7 8; do curl -s -o /dev/null -w '%{http_code} ' ${first}/fixed-window; done
  for i in 1 2 3 4; do curl -s ${second}/leaky-bucket & done; wait

Serving until Ctrl-C.
`);
  process.once('SIGINT', stop).once('SIGTERM', stop);
}
