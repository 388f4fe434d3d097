// The time that a dashboard takes of Redis, while a site of ten limiters and 200 requests a second runs.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { startSite } from '../../../../scripts/docs/site.js';
import { startServer, type TestServer } from '../../../../test/support/servers.js';
import { startPage, type Site } from '../servers.js';

const SECONDS = 10;
const NAME = 'dashboard';

describe('the cost of the dashboard', function () {
  this.timeout(120_000);
  let server: TestServer;
  let stop: () => Promise<void>;
  let control: Redis;
  let client: Redis;
  let page: Site;
  before(async () => {
    server = await startServer('redis');
    stop = startSite(server.url);
    control = new Redis(server.url);
    client = new Redis(server.url, { connectionName: NAME });
    await control.config('SET', 'slowlog-log-slower-than', '0', 'slowlog-max-len', '100000');
    page = await startPage({ store: redisStore(client, { publish: false }) });
    await sleep(5000);
  });
  after(async () => {
    await page.close();
    await stop();
    client.disconnect();
    control.disconnect();
    await server.stop();
  });

  /** The time of Redis that the dashboard's connection took, ms a second, and its calls a second. */
  const measure = async (): Promise<{ ms: number; calls: number }> => {
    await control.call('SLOWLOG', 'RESET');
    await sleep(SECONDS * 1000);
    const entries = (await control.call('SLOWLOG', 'GET', '100000')) as [
      number,
      number,
      number,
      string[],
      string,
      string,
    ][];
    const own = entries.filter(([, , , , , name]) => name === NAME);
    expect(own.filter(([, , , [command]]) => command === 'SCAN')).to.deep.equal([]);
    return { ms: own.reduce((sum, [, , us]) => sum + us, 0) / 1000 / SECONDS, calls: own.length / SECONDS };
  };

  const watch = async (): Promise<() => void> => {
    const stopped = new AbortController();
    const response = await fetch(`${page.url}api/stream`, { signal: stopped.signal });
    void (async () => {
      for await (const _ of response.body!) continue;
    })().catch(() => {});
    return () => stopped.abort();
  };

  it('is nothing without a viewer, and the same for one viewer as for ten', async () => {
    const none = await measure();
    const leave = [await watch()];
    await sleep(2000);
    const one = await measure();
    for (let i = 1; i < 10; i++) leave.push(await watch());
    await sleep(2000);
    const ten = await measure();
    const readers = new AbortController();
    const readRow = async () => {
      while (!readers.signal.aborted) {
        await fetch(`${page.url}api/limiter?name=api`);
        await sleep(3000, undefined, { signal: readers.signal }).catch(() => {});
      }
    };
    const reading = Promise.all(Array.from({ length: 10 }, readRow));
    const opened = await measure();
    readers.abort();
    await reading;
    for (const each of leave) each();
    await sleep(1000);
    const after = await measure();
    console.log('      Redis, ms a second (calls a second):', { none, one, ten, opened, after });
    expect(none).to.deep.equal({ ms: 0, calls: 0 });
    expect(after).to.deep.equal({ ms: 0, calls: 0 });
    // The times above depend on what else the machine does. The docs have those of a calm one.
    expect(opened.calls).to.be.lessThan(4 * one.calls + 1);
    expect(ten.calls).to.be.lessThan(2 * one.calls + 1);
  });
});
