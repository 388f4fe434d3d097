// npm run demo: two servers on loopback with common quotas, like two processes, every algorithm on both, and real requests to all servers.
// `-- --once` exits after the show, `-- --no-show` serves at once. REDIS_URL=redis://localhost:6379 keeps the quotas in Redis, not in memory.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import Table from 'cli-table3';
import express, { type ErrorRequestHandler, type Express, type Request } from 'express';
import { memoryStore, type HeadgateError, type StrictPolicy } from 'headgate';
import { rateLimit, type RateLimitOptions } from 'headgate/express';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';

const options = { once: { type: 'boolean' }, 'no-show': { type: 'boolean' } } as const;
const { values } = parseArgs({ options });
// The reader may stop early, as in `npm run demo | head`.
process.stdout.on('error', () => process.exit());

const url = process.env['REDIS_URL'];
const noRedis = ({ message }: Error) => {
  console.error(`REDIS_URL=${url}: ${message}. Start a Redis there, or unset REDIS_URL.`);
  process.exit(1);
};
const redis = url ? new Redis(url).on('error', noRedis) : undefined;
await redis?.ping();
// From now on the limiters handle an outage of Redis.
redis?.off('error', noRedis).on('error', () => {});
const store = redis ? redisStore(redis, { prefix: 'headgate-demo' }) : memoryStore();

/** The rows of the demo. Each has its own path on both servers: a description, and its policies with a limit and a window. */
const rows: Record<string, { about: string; policies: object[] }> = {
  'fixed-window': { about: 'a counter; up to twice the limit around the window’s end', policies: [{}] },
  'sliding-window': { about: 'the default; never more than the limit in any window', policies: [{}] },
  'sliding-log': { about: 'exact: a unit is back when its own window is over', policies: [{}] },
  'token-bucket': { about: 'a burst, then the rate', policies: [{}] },
  gcra: { about: 'burst 1: evenly spaced', policies: [{ burst: 1 }] },
  'leaky-bucket': {
    about: 'maxDelay 1 s: held for their turn, then denied',
    policies: [{ burst: 1, maxDelay: '1s' }],
  },
  concurrency: {
    about: 'two at a time; each request takes 400 ms here',
    policies: [{ limit: 2, window: undefined, lease: '10s' }],
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

type Query = Readonly<Record<'limit' | 'window' | 'cost' | 'key' | 'tenant', string | undefined>>;

/** A limit that tenants share. */
const shared: RateLimitOptions<Request> = {
  ...{ name: 'shared', store, policies: '40/2s by key share tenant' },
  keyGenerator: ({ query }) => (query as Query).key,
  keys: { tenant: ({ query }) => (query as Query).tenant },
};

/** An app with a route for each row. A query may change the limits and the key, which only a demo allows. */
function appOf(): Express {
  const app = express();
  for (const [name, { policies }] of Object.entries(rows)) {
    const options: RateLimitOptions<Request> = {
      ...{ name, store },
      policies: ({ query }) => {
        const { limit = 6, window = '2s' } = query as Query;
        const common = { name, algorithm: name, limit: Number(limit), window };
        return policies.map((policy) => ({ ...common, ...policy }) as StrictPolicy);
      },
      cost: ({ query }) => Number((query as Query).cost ?? 1),
      keyGenerator: ({ query, ip }) => (query as Query).key ?? ip,
    };
    app.get(`/${name}`, rateLimit(options), async (_req, res) => {
      if (name === 'concurrency') await sleep(400);
      res.send(`${name}: welcome\n`);
    });
  }
  app.get('/shared', rateLimit(shared), (_req, res) => void res.send('welcome\n'));
  // Clients of an application do not see policy errors. Clients of the demo wrote the policies.
  const refuse: ErrorRequestHandler = (error: HeadgateError, _req, res, _next) =>
    res.status(400).send(`${error.cause instanceof Error ? error.cause.message : error.message}\n`);
  return app.use(refuse);
}

const servers = [1, 2].map(() => createServer(appOf()).listen(0, '127.0.0.1'));
await Promise.all(servers.map((server) => once(server, 'listening')));
const [first = '', second = ''] = servers.map(
  (server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
);
function stop(): void {
  for (const server of servers) server.close().closeAllConnections();
  redis?.disconnect();
}

console.log(`Headgate  ${first}  ${second}  quotas in ${url ? `Redis, ${url}` : 'memory'}, shared by both

${names.map((name) => `  ${name.padEnd(16)}${rows[name]!.about}`).join('\n')}

The same requests to each, in turn to both servers. Limit 6 per 2 s.
`);
if (!values['no-show']) await show();
if (values.once) {
  stop();
} else {
  console.log(`
Try it
  curl -i ${first}/sliding-window
  curl -i '${second}/token-bucket?limit=5&window=10s'
  for i in 1 2 3 4 5 6 7 8; do curl -s -o /dev/null -w '%{http_code} ' ${first}/fixed-window; done
  for i in 1 2 3 4; do curl -s ${second}/leaky-bucket & done; wait

Serving until Ctrl-C.`);
  process.once('SIGINT', stop).once('SIGTERM', stop);
}

/** Sends the same requests to every algorithm, in turn to both servers, and prints the verdicts. */
async function show(): Promise<void> {
  // The times of requests, ms: one; eight on either side of the end of the first window; then more than the rate for a while.
  const times = [0, ...Array<number>(8).fill(1700), ...Array<number>(8).fill(2100)];
  for (let at = 2700; at < 6100; at += 200) times.push(at);
  // Each run has a new key, so that a show on Redis begins with full quotas. The first requests of a process are slow.
  const key = randomUUID();
  for (const server of [first, second])
    for (const name of names) await fetch(`${server}/${name}?key=warm-up`);
  const start = performance.now();
  const answers = times.map(async (at, i) => {
    await sleep(start + at - performance.now());
    const answers = names.map(async (name) => {
      const response = await fetch(`${i % 2 ? second : first}/${name}?key=${key}`);
      return { name, response, text: await response.text(), at: performance.now() - start };
    });
    return Promise.all(answers);
  });
  const all = (await Promise.all(answers)).flat();

  // A column for each tenth of a second. Held requests are answered after the last request was sent.
  const line = (name: string, kind: string, when: readonly number[]) => {
    const counts = Array<number>(72).fill(0);
    for (const ms of when) counts[Math.min(Math.floor(ms / 100), 71)]! += 1;
    const bars = counts.map((count) => ' ▁▂▃▄▅▆▇█'[Math.min(count, 8)]).join('');
    console.log(`${name.padEnd(16)}${kind.padEnd(9)}${bars}${String(when.length).padStart(4)}`);
  };
  console.log(`${' '.repeat(25)}${[0, 1, 2, 3, 4, 5, 6, 7].map((s) => `${s} s`.padEnd(10)).join('')}`);
  line('requests', 'sent', times);
  const head = ['', 'RateLimit-Policy', 'RateLimit, first', 'RateLimit, denied', 'Retry-After'];
  const table = new Table({ head, style: { head: [], border: [], compact: true } });
  for (const name of names) {
    const [admitted = [], denied = []] = [200, 429].map((status) =>
      all.filter((answer) => answer.name === name && answer.response.status === status),
    );
    const when = (some: typeof all) => some.map(({ at }) => at);
    line(name, 'admitted', when(admitted));
    line('', 'denied', when(denied));
    // The name in an item is left out, because the row has it already.
    const field = ([answer]: typeof all, of: string) =>
      (answer?.response.headers.get(of) ?? '').replaceAll(`"${name}";`, '').replaceAll(', ', '\n');
    const fields = [field(admitted, 'ratelimit-policy'), field(admitted, 'ratelimit')];
    table.push([name, ...fields, field(denied, 'ratelimit'), field(denied, 'retry-after')]);
  }
  const neighbours = await askAsTenants(key);
  const { response, text } = all.findLast(
    (answer) => answer.name === 'several' && answer.response.status === 429,
  )!;
  const fields = [...response.headers].filter(([name]) =>
    /^(ratelimit|retry-after|cache-c|content-t)/.test(name),
  );
  console.log(`
What they were told (q: quota, w: window in seconds, r: remaining, t: seconds)
${table.toString()}

One limit of 40 per 2 s for many tenants: a hog comes at 1.5 s, and its neighbours hardly notice
${neighbours}

A denial in full
${['HTTP/1.1 429', ...fields.map((field) => field.join(': ')), '', text].map((each) => `  ${each}`).join('\n')}`);
}

/** Three neighbours send a request each 250 ms. A hog sends 40 a second for a while. Returns a line of admitted and of denied requests for each. */
async function askAsTenants(key: string): Promise<string> {
  const times = (from: number, to: number, every: number) =>
    Array.from({ length: (to - from) / every }, (_, i) => from + i * every);
  const tenants = { ann: times(0, 5000, 250), bob: times(80, 5080, 250), eve: times(160, 5160, 250) };
  const all: Record<string, number[]> = { ...tenants, hog: times(1500, 4500, 25) };
  const start = performance.now();
  const linesOf = async ([tenant, when]: [string, number[]]) => {
    const counts = { 200: Array<number>(52).fill(0), 429: Array<number>(52).fill(0) };
    const ask = async (at: number, i: number): Promise<void> => {
      await sleep(start + at - performance.now());
      const { status } = await fetch(`${i % 2 ? second : first}/shared?key=${key}&tenant=${tenant}`);
      counts[status as 200 | 429][Math.floor(at / 100)]! += 1;
    };
    await Promise.all(when.map(ask));
    return ([200, 429] as const).map((status) => {
      const total = counts[status].reduce((sum, count) => sum + count, 0);
      const bars = counts[status].map((count) => ' ▁▂▃▄▅▆▇█'[Math.min(count, 8)]).join('');
      const name = status === 200 ? `${tenant.padEnd(16)}allowed  ` : `${' '.repeat(16)}blocked  `;
      return `${name}${bars}${String(total).padStart(4)}`;
    });
  };
  return (await Promise.all(Object.entries(all).map(linesOf))).flat().join('\n');
}
