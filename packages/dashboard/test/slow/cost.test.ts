// The time that a dashboard takes of Redis, while a site of ten limiters and 200 requests a second runs.
import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { startSite } from '../../../../scripts/docs/site.js';
import { startServer, type TestServer } from '../../../../test/support/servers.js';
import { startPage, type Site } from '../servers.js';

const SECONDS = 10;
const NAME = 'dashboard';

/** The questions of an open row, and the time between two of them, ms. */
const EVERY_MS = { limiter: 3000, denied: 10_000, near: 10_000 };
const ROW = ['limiter', 'denied', 'near'] as const;

/** The keys near a limit, of all limiters: the time between two questions of a page, ms, and the keys that they may read a second, and at first. */
const NEAR_MS = 10_000;
const NEAR_KEYS = { perSecond: 15, first: 1000 };

/** The keys of a step of a search. */
const KEYS_PER_STEP = 100;

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

  /**
   * The time of Redis that the dashboard's connection took, ms a second, its calls a second, and all its steps of searches.
   *
   * @param mayScan whether a row is open, so that keys are searched
   */
  const measure = async (mayScan = false): Promise<{ ms: number; calls: number; scans: number }> => {
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
    const scans = own.filter(([, , , [command]]) => command === 'SCAN').length;
    if (!mayScan) expect(scans).to.equal(0);
    const ms = own.reduce((sum, [, , us]) => sum + us, 0) / 1000 / SECONDS;
    return { ms, calls: own.length / SECONDS, scans };
  };

  const watch = async (): Promise<() => void> => {
    const stopped = new AbortController();
    const response = await fetch(`${page.url}api/stream`, { signal: stopped.signal });
    void (async () => {
      for await (const _ of response.body!) continue;
    })().catch(() => {});
    return () => stopped.abort();
  };

  /** The cost while some viewers have opened a row, and ask as the page does. */
  const opened = async (viewers: number, paths: readonly (keyof typeof EVERY_MS)[]) => {
    const stopped = new AbortController();
    setMaxListeners(viewers * paths.length, stopped.signal);
    const ask = async (path: keyof typeof EVERY_MS) => {
      while (!stopped.signal.aborted) {
        await (await fetch(`${page.url}api/${path}?name=api`)).text();
        await sleep(EVERY_MS[path], undefined, { signal: stopped.signal }).catch(() => {});
      }
    };
    const asking = Promise.all(Array.from({ length: viewers }, () => paths.map(ask)).flat());
    const cost = await measure(paths.length > 1);
    stopped.abort();
    await asking;
    return cost;
  };

  it('of the keys near a limit, of all limiters, is the same for one page as for ten, and bounded', async () => {
    const asked = async (pages: number) => {
      const stopped = new AbortController();
      setMaxListeners(pages, stopped.signal);
      const asking = Array.from({ length: pages }, async () => {
        while (!stopped.signal.aborted) {
          await (await fetch(`${page.url}api/near`)).text();
          await sleep(NEAR_MS, undefined, { signal: stopped.signal }).catch(() => {});
        }
      });
      const cost = await measure(true);
      stopped.abort();
      await Promise.all(asking);
      return cost;
    };
    const first = await asked(1);
    const one = await asked(1);
    const ten = await asked(10);
    console.log('      Redis, ms a second (calls a second):', {
      first,
      one,
      ten,
      keys: await control.dbsize(),
    });
    // A round reads the store once, in steps, and less if it has more keys than may be read.
    const steps = (keys: number) => 2 + Math.ceil(keys / KEYS_PER_STEP);
    const all = await control.dbsize();
    expect(first.scans).to.be.within(1, 2 * steps(all));
    for (const { scans } of [one, ten])
      expect(scans).to.be.at.most(2 * steps(Math.max(all, SECONDS * NEAR_KEYS.perSecond)));
    expect(ten.calls).to.be.lessThan(2 * one.calls + 20);
    await sleep(1000);
    expect((await measure()).scans).to.equal(0);
  });

  it('is nothing without a viewer, and the same for one viewer as for ten', async () => {
    const none = await measure();
    const leave = [await watch()];
    await sleep(2000);
    const one = await measure();
    for (let i = 1; i < 10; i++) leave.push(await watch());
    await sleep(2000);
    const ten = await measure();
    const lists = await opened(10, ['limiter']);
    const row = await opened(1, ROW);
    const rows = await opened(10, ROW);
    for (const each of leave) each();
    await sleep(1000);
    const after = await measure();
    console.log('      Redis, ms a second (calls a second):', { none, one, ten, lists, row, rows, after });
    expect(none).to.deep.equal({ ms: 0, calls: 0, scans: 0 });
    expect(after).to.deep.equal({ ms: 0, calls: 0, scans: 0 });
    // The times above depend on what else the machine does. The docs have those of a calm one.
    expect(lists.calls).to.be.lessThan(4 * one.calls + 1);
    // The viewers of a row share its two searches of each ten seconds.
    const steps = 2 + Math.ceil((2 * (await control.dbsize())) / KEYS_PER_STEP);
    expect(row.scans).to.be.within(1, 4 * steps);
    expect(rows.scans).to.be.at.most(4 * steps);
    expect(rows.calls).to.be.lessThan(2 * row.calls + 1);
    expect(ten.calls).to.be.lessThan(2 * one.calls + 1);
  });
});
