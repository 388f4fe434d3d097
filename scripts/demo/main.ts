// The demo: an Express and a Fastify server on loopback, every algorithm on both, real requests.
import { randomUUID } from 'node:crypto';
import { parseArgs } from 'node:util';
import { memoryStore, type Store } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import pc from 'picocolors';
import { rows } from './algorithms.js';
import { startServers, type DemoServer } from './servers.js';
import { show } from './show.js';

const USAGE = `npm run demo [-- --once] [-- --no-show]

  --once     exit after the show
  --no-show  serve at once

REDIS_URL=redis://localhost:6379 keeps the quotas in Redis instead of in memory.
`;

const { values } = parseArgs({
  options: { once: { type: 'boolean' }, 'no-show': { type: 'boolean' }, help: { type: 'boolean' } },
});

// The reader may stop early, as in `npm run demo | head`.
process.stdout.on('error', () => process.exit());

if (values.help) process.stdout.write(USAGE);
else await main();

async function main(): Promise<void> {
  const { store, where, close } = await openStore(process.env.REDIS_URL);
  const servers = await startServers(store, where);
  const stop = async () => {
    await Promise.all(servers.map((server) => server.close()));
    close();
  };
  try {
    introduce(servers, where);
    // Each run has its own key, so that a show on Redis begins with full quotas.
    if (!values['no-show']) await show(servers, randomUUID());
    if (values.once) return await stop();
  } catch (error) {
    await stop();
    throw error;
  }
  invite(servers);
  const end = () => {
    process.stdout.write('\n');
    void stop();
  };
  process.once('SIGINT', end).once('SIGTERM', end);
}

/** The store: in Redis if there is a URL, otherwise in memory. */
async function openStore(
  url: string | undefined,
): Promise<{ store: Store; where: string; close: () => void }> {
  if (!url) return { store: memoryStore(), where: 'in memory', close: () => {} };
  const redis = new Redis(url, { lazyConnect: true });
  let problem: Error | undefined;
  redis.on('error', (error: Error) => (problem = error));
  try {
    await redis.connect();
  } catch (error) {
    redis.disconnect();
    const { message } = problem ?? (error as Error);
    process.stderr.write(`REDIS_URL=${url}: ${message}. Start a Redis there, or unset REDIS_URL.\n`);
    process.exit(1);
  }
  return {
    store: redisStore(redis, { prefix: 'headgate-demo' }),
    where: `in Redis, ${url}`,
    close: () => redis.disconnect(),
  };
}

function introduce(servers: readonly DemoServer[], where: string): void {
  const urls = servers.map(({ framework, url }) => `${framework} ${pc.cyan(url)}`);
  process.stdout.write(`${pc.bold('Headgate')}  ${urls.join('  ')}  quotas ${where}, shared by both\n\n`);
  for (const { name, about } of rows) process.stdout.write(`  ${pc.bold(name.padEnd(16))}${about}\n`);
  process.stdout.write(`\nThe same requests to each, in turn to both servers. Limit 6 per 2 s.\n\n`);
}

function invite(servers: readonly DemoServer[]): void {
  const [express, fastify] = servers.map(({ url }) => url);
  process.stdout.write(`
${pc.bold('Try it')}
  ${pc.cyan(`${express}/`)}   the same in a browser: hold a button, watch the algorithms

  curl -i ${express}/sliding-window
  curl -i '${fastify}/token-bucket?limit=5&window=10s&burst=2'
  for i in 1 2 3 4 5 6 7 8; do curl -s -o /dev/null -w '%{http_code} ' ${express}/fixed-window; done
  for i in 1 2 3 4; do curl -s ${fastify}/leaky-bucket & done; wait

Serving until Ctrl-C.
`);
}
