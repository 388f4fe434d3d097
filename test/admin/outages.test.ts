// Decisions without the store in the history: in an outage, by its cause, and single ones after a late answer.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { createLimiter, type Limiter } from 'headgate';
import { createAdmin, type LimiterHistory } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { startServer, type TestServer } from '../support/servers.js';

const sum = (counts: readonly number[]): number => counts.reduce((total, each) => total + each, 0);

describe('decisions without the store in the history', function () {
  this.timeout(60_000);
  let server: TestServer;
  let client: Redis;
  let limiter: Limiter;
  beforeEach(async () => {
    server = await startServer('redis');
    client = new Redis(server.url, { retryStrategy: () => 50 });
    client.on('error', () => {});
    const store = redisStore(client);
    limiter = createLimiter({ store, name: 'api', policies: ['1000/1m'], timeout: '200ms' });
    await limiter.consume('a');
  });
  afterEach(async () => {
    await limiter.close();
    client.disconnect();
    await server.stop();
  });

  /** Sends requests, one after the other. */
  const send = async (ms: number): Promise<void> => {
    for (const end = Date.now() + ms; Date.now() < end; await sleep(20)) await limiter.consume('a');
  };

  /** The sums of the history once it has some of a column. Processes write it every five seconds. */
  const history = async (column: 'degraded' | 'unreachable' | 'unanswered') => {
    const admin = createAdmin(redisStore(client, { publish: false, counts: false }));
    for (;;) {
      const [api] = (await admin.history()).limiters;
      if (api && sum(api[column]) > 0) return sumsOf(api);
      await sleep(200);
    }
  };
  const sumsOf = ({ degraded, unreachable, unanswered }: LimiterHistory) => ({
    ...{ degraded: sum(degraded), unreachable: sum(unreachable), unanswered: sum(unanswered) },
  });

  it('are of an outage without a connection', async () => {
    await server.kill('SIGKILL');
    await send(1500);
    const { port } = server;
    server = await startServer('redis', { port });
    await send(500);
    const { degraded, unreachable, unanswered } = await history('unreachable');
    expect(unreachable).to.be.within(10, degraded);
    expect(unanswered).to.equal(0);
  });

  it('are of an outage without answers', async () => {
    await server.kill('SIGSTOP');
    await send(3000);
    await server.kill('SIGCONT');
    await send(500);
    const { degraded, unreachable, unanswered } = await history('unanswered');
    expect(unanswered).to.be.within(10, degraded);
    expect(unreachable).to.equal(0);
  });

  it('are single late answers while the store is up', async () => {
    await client.call('CLIENT', 'PAUSE', '300', 'ALL');
    await limiter.consume('a');
    await sleep(500);
    await send(300);
    expect(await history('degraded')).to.deep.equal({ degraded: 1, unreachable: 0, unanswered: 0 });
  });
});
