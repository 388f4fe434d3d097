// A server that lost its records, as operators see it.
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { createLimiter } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { headgate } from '../../packages/cli/test/cli.js';
import { startPage } from '../../packages/dashboard/test/servers.js';
import { Published } from '../../src/admin/published.js';
import { readLoss } from '../../src/admin/redis/loss.js';
import { minuteKey } from '../../src/stores/redis/operators/count-keys.js';
import { startServer, type TestServer } from '../support/servers.js';
import { until } from './stores.js';

const MINUTE = 60_000;

describe('records that Redis lost', () => {
  let server: TestServer;
  let client: Redis;
  beforeEach(async () => {
    server = await startServer('redis');
    client = new Redis(server.url);
  });
  afterEach(async () => {
    client.disconnect();
    await server.stop();
  });

  /** Writes the counts of a process that is older than the server. */
  const count = (since: number, name = 'api') => {
    const limiter = { name, counts: [1, 0], policies: {}, reasons: {}, keys: {} };
    return client.xadd(
      'hg:{top}',
      '*',
      'c',
      JSON.stringify({ id: 'p', sample: 1, ms: 1000, since, limiters: [limiter] }),
    );
  };

  it('by a restart, are named by the admin, the command line and the page', async () => {
    const admin = createAdmin(client);
    expect(await admin.loss()).to.equal(null);
    await count(Date.now() - 10 * MINUTE);
    const loss = (await admin.loss())!;
    expect(loss.cause).to.equal('restart');
    expect(Date.now() - loss.at.getTime()).to.be.within(0, 20_000);
    const where = ['--redis', server.url];
    const words = /Redis restarted \d+s ago without its records: earlier bans, .* are gone/;
    expect((await headgate(['list', ...where])).stderr).to.match(words);
    expect((await headgate(['check', ...where])).stdout).to.match(words);
    const page = await startPage({ store: redisStore(client, { publish: false }) });
    const { set } = (await (await fetch(`${page.url}api/now`)).json()) as {
      set: { store: { loss?: { at: number } } };
    };
    expect(set.store.loss).to.include({ cause: 'restart' });
    // The server reports whole seconds.
    expect(set.store.loss!.at).to.be.closeTo(loss.at.getTime(), 2000);
    await page.close();
  });

  it('are not lost if the server has counts from before it started, or the process is younger', async () => {
    const admin = createAdmin(client);
    await count(Date.now() - 1000);
    expect(await admin.loss()).to.equal(null);
    await count(Date.now() - 10 * MINUTE);
    expect((await admin.loss())?.cause).to.equal('restart');
    const minute = Date.now() - (Date.now() % MINUTE);
    await client.hset(minuteKey('hg', 'api', minute - 2 * MINUTE), 'a', '1');
    expect(await admin.loss()).to.equal(null);
  });

  it('are not lost while the options of a limiter are there', async () => {
    const store = redisStore(client, { publish: '10ms' });
    const limiter = createLimiter({ store, name: 'api', limit: 5, window: '1h' });
    const admin = createAdmin(client);
    await until(async () => (await client.exists('hg:{bans}:options:api')) === 1);
    await count(Date.now() - 10 * MINUTE);
    expect(await admin.loss()).to.equal(null);
    await client.del('hg:{bans}:options:api');
    expect((await admin.loss())?.cause).to.equal('restart');
    await limiter.close();
  });
});

describe('records of a server that was emptied', () => {
  /** A server that has run for a day, with some keys. */
  const callsOn = (keys: ReadonlySet<string>, flushed = true) => {
    const infos: Record<string, string> = {
      server: 'uptime_in_seconds:86400\r\n',
      commandstats: `cmdstat_get:calls=1\r\n${flushed ? 'cmdstat_flushall:calls=1\r\n' : ''}`,
    };
    const server = { name: '', send: ([, section]: string[]) => Promise.resolve(infos[section!]) };
    return {
      prefix: 'hg',
      commands: { serverOf: () => undefined },
      servers: () => Promise.resolve([server]),
      ask: (answer: unknown) => answer,
      call: (_: string, key: string) => Promise.resolve(keys.has(key) ? 1 : -2),
    } as never;
  };
  const now = 1_000 * MINUTE + 30_000;
  const instance = { id: 'a', host: 'h', pid: 1, limiters: [{ name: 'api', policies: ['5/1h'] }] };
  const published = new Published([instance as never], { mark: undefined, isComplete: true });
  const recentOf = (since: number) => ({
    now,
    counts: [{ at: now, counted: { id: 'p', sample: 1, since, limiters: [] } }],
  });
  const minutes = (...of: number[]) => new Set(of.map((minute) => minuteKey('hg', 'api', minute * MINUTE)));

  it('are lost since the oldest minute with counts', async () => {
    const old = recentOf(now - 30 * MINUTE);
    expect(await readLoss(callsOn(new Set()), published, old)).to.deep.equal({
      at: new Date(1_000 * MINUTE),
      cause: 'flush',
    });
    const found = await readLoss(callsOn(minutes(1_000, 999, 998)), published, old);
    expect(found).to.deep.equal({ at: new Date(998 * MINUTE), cause: 'flush' });
  });

  it('are not lost if nothing was flushed, the process began since, or its options are there', async () => {
    const old = recentOf(now - 30 * MINUTE);
    expect(await readLoss(callsOn(minutes(1_000), false), published, old)).to.equal(null);
    expect(await readLoss(callsOn(minutes(1_000)), published, recentOf(now - MINUTE))).to.equal(null);
    expect(await readLoss(callsOn(new Set(['hg:{bans}:options:api'])), published, old)).to.equal(null);
    const none = new Published([], { mark: undefined, isComplete: true });
    expect(await readLoss(callsOn(new Set()), none, old)).to.equal(null);
  });
});
