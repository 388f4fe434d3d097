// The counts by the minute in admin.history, and the state of processes in admin.traffic.
import { hostname } from 'node:os';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { createLimiter, type Limiter } from 'headgate';
import { createAdmin, USE_LEVELS, type Admin } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import type { CountedDecision } from '../../src/contract/announcement.js';
import { VERSION } from '../../src/common/version.js';
import { escapeKey } from '../../src/stores/keys.js';
import { commandsOf } from '../../src/stores/redis/clients/clients.js';
import { MAX_HISTORIES } from '../../src/stores/counts/history.js';
import { hourKey, minuteKey, namesKey, topKey } from '../../src/stores/redis/operators/count-keys.js';
import { RedisCounts } from '../../src/stores/redis/operators/count-sink.js';
import { Traffic } from '../../src/stores/counts/traffic.js';
import { clients, freshPrefix } from '../support/stores.js';
import { serverKinds, servers } from '../support/shared-servers.js';
import { until } from './stores.js';

for (const kind of serverKinds) {
  describe(`the history of decisions on ${kind}`, () => {
    const client = clients[kind];
    let prefix: string;
    let admin: Admin;
    const traffics: Traffic[] = [];

    beforeEach(() => {
      prefix = freshPrefix();
      admin = createAdmin(client, { prefix });
    });
    afterEach(async () => {
      for (const traffic of traffics.splice(0)) traffic.close();
      for (const key of await client.keys(`${prefix}:*`)) await client.del(key);
    });

    /** A process that counts. */
    const process_ = (own = client) => {
      const traffic = new Traffic(
        new RedisCounts(commandsOf(own), prefix),
        { sample: 16, text: escapeKey },
        new Set(),
      );
      traffics.push(traffic);
      return traffic;
    };
    const count = async (traffic: Traffic, limiter: Limiter, key: string, cost = 1) =>
      traffic.count(limiter.name, (await limiter.consume(key, { cost })) as CountedDecision);
    const sums = (numbers: readonly number[]) => numbers.reduce((sum, each) => sum + each, 0);

    it('has the decisions of all processes by the minute, and the use of each policy', async () => {
      const policies = [{ name: 'few', limit: 8, window: '1h' }];
      const [one, two] = [process_(), process_()];
      const first = createLimiter({ name: '<api>:', policies });
      const second = createLimiter({ name: '<api>:', policies, onStoreError: 'local' });
      for (let i = 0; i < 10; i++) await count(one, first, 'a');
      await count(two, second, 'b', 2);
      await count(two, second, 'c', 0);
      for (const traffic of [one, two]) traffic.flush();
      await until(async () => sums((await admin.history()).limiters[0]?.admitted ?? []) === 10);
      const { minutes, limiters } = await admin.history({ minutes: 60 });
      expect(minutes).to.have.length(60);
      expect(
        minutes.every((minute, i) => minute % 60_000 === 0 && minute === minutes[0]! + i * 60_000),
      ).to.equal(true);
      const [api] = limiters;
      expect(limiters.map(({ name }) => name)).to.deep.equal(['<api>:']);
      expect([api!.admitted, api!.denied, api!.degraded].map(sums)).to.deep.equal([10, 2, 0]);
      expect(Object.keys(api!.policies)).to.deep.equal(['few']);
      expect(sums(api!.policies['few']!)).to.equal(2);
      expect(api!.reasons).to.deep.equal({});
      // Key a used 8 of 8 units, and key b used 2.
      const use = USE_LEVELS.map((_, level) => sums(api!.use['few']!.map((levels) => levels[level]!)));
      expect(use).to.deep.equal(USE_LEVELS.map((level) => (level <= 0.25 ? 2 : 1)));
      expect((await admin.history({ name: 'other' })).limiters).to.deep.equal([]);
      for (const key of await client.keys(`${prefix}:*`)) expect(await client.pttl(key), key).to.be.above(0);
      // Names are kept as long as the counts of ten minutes.
      expect(await client.pttl(namesKey(prefix))).to.be.within(89_990_000, 90_000_000);
    });

    it('has the decisions of a day by ten minutes, and of nothing else', async () => {
      const traffic = process_();
      const limiter = createLimiter({ name: 'api:*', limit: 8, window: '1h' });
      const hour = 3_600_000;
      const now = Date.now();
      const earlier = Math.floor(now / hour) * hour - 5 * hour + 1_200_000;
      await client.hset(hourKey(prefix, 'api:*', earlier), { a2: 7, d2: 3, d3: 1 });
      await client.pexpire(hourKey(prefix, 'api:*', earlier), hour);
      for (let i = 0; i < 10; i++) await count(traffic, limiter, 'a');
      traffic.flush();
      await until(async () => (await admin.history()).limiters.length === 1);
      const { minutes, limiters } = await admin.history({ hours: 24 });
      expect(minutes).to.have.length(144);
      const begun = minutes.map((start, i) => start % 600_000 === 0 && start === minutes[0]! + i * 600_000);
      expect(begun.includes(false)).to.equal(false);
      const [api] = limiters;
      const at = minutes.indexOf(earlier);
      expect([api!.admitted[at], api!.denied[at], api!.denied[at + 1]]).to.deep.equal([7, 3, 1]);
      expect([api!.admitted, api!.denied].map(sums)).to.deep.equal([15, 6]);
      expect([api!.policies, api!.reasons, api!.use]).to.deep.equal([{}, {}, {}]);
      expect(await client.pttl(hourKey(prefix, 'api:*', now))).to.be.within(89_990_000, 90_000_000);
      expect((await admin.history({ hours: 1 })).minutes).to.have.length(6);
      const wrong = await admin.history({ hours: 2, minutes: 5 }).catch((error: unknown) => error);
      expect((wrong as Error).message).to.match(/^minutes and hours: pass one of them/);
    });

    it('has the spans in which decisions were made without the store', async () => {
      const now = Math.floor(Date.now() / 60_000) * 60_000;
      const at = (ago: number) => now - ago * 60_000;
      for (const name of ['api', 'chat']) await client.zadd(namesKey(prefix), Date.now(), name);
      const decided = [
        ['api', 9, { a: 5, g: 3 }],
        ['chat', 8, { a: 5, g: 4 }],
        ['api', 7, { a: 5 }],
        ['api', 5, { d: 2, g: 2 }],
      ] as const;
      for (const [name, ago, fields] of decided) await client.hset(minuteKey(prefix, name, at(ago)), fields);
      for (const key of await client.keys(`${prefix}:*`)) await client.pexpire(key, 60_000);
      expect((await admin.history()).outages).to.deep.equal([
        { from: at(9), to: at(7), degraded: 7 },
        { from: at(5), to: at(4), degraded: 2 },
      ]);
      expect((await admin.history({ name: 'chat' })).outages).to.deep.equal([
        { from: at(8), to: at(7), degraded: 4 },
      ]);
    });

    it('is bounded', async () => {
      const traffic = process_();
      const limiter = createLimiter({ name: 'api', limit: 8, window: '1h' });
      const names = Array.from({ length: MAX_HISTORIES }, (_, i) => [Date.now(), `limiter-${i}`]);
      await client.zadd(namesKey(prefix), ...names.flat());
      await client.pexpire(namesKey(prefix), 60_000);
      await count(traffic, limiter, 'a');
      traffic.flush();
      await until(async () => (await client.xlen(topKey(prefix))) === 1);
      expect(await client.zscore(namesKey(prefix), 'api')).to.equal(null);
      expect((await admin.history({ minutes: 1 })).limiters.length).to.equal(MAX_HISTORIES);
      const minutes = [0, 1].map((ago) => Math.floor(Date.now() / 60_000 - ago) * 60_000);
      for (const minute of minutes) expect(await client.exists(minuteKey(prefix, 'api', minute))).to.equal(0);
      expect(await client.exists(hourKey(prefix, 'api', Date.now()))).to.equal(0);
    });

    it('a user who may not write hashes has no history, and still counts', async () => {
      await client.call('ACL', 'SETUSER', 'counts', 'reset', 'on', '>password', '~*', '+@all', '-hincrby');
      const few = new Redis(servers[kind].port, { username: 'counts', password: 'password' });
      try {
        const traffic = process_(few);
        const limiter = createLimiter({ name: 'api', limit: 8, window: '1h' });
        await few.ping();
        await count(traffic, limiter, 'a');
        traffic.flush();
        await until(async () => (await admin.traffic()).limiters[0]?.admitted === 0.2);
        expect((await admin.history()).limiters).to.deep.equal([]);
      } finally {
        few.disconnect();
        await client.call('ACL', 'DELUSER', 'counts');
      }
    });

    it('traffic shows waiting requests and slots of each process, also while nothing is decided', async () => {
      const store = redisStore(client, { prefix, publish: false, counts: true });
      const limiter = createLimiter({
        ...{ name: 'reports', store, maxWaiting: 7, maxWaitingPerKey: 7 },
        policies: [{ name: 'slots', algorithm: 'concurrency', limit: 1, lease: '1m' }],
      });
      const held = await limiter.acquire('a');
      const waits = [1, 2].map(() => limiter.wait('a'));
      const reports = async () => (await admin.traffic()).limiters.find(({ name }) => name === 'reports');
      await until(async () => {
        const { admitted, waiting } = (await reports()) ?? {};
        return admitted === 0.2 && waiting === 2;
      });
      expect(await reports()).to.include({ waiting: 2, held: 0, slots: 1, degraded: 0, denied: 0 });
      const { processes } = await admin.traffic();
      const [{ since, loopDelayMs }] = processes as [(typeof processes)[0]];
      expect(since!.getTime()).to.equal(Math.round(performance.timeOrigin));
      expect(loopDelayMs).to.be.at.least(0);
      expect(processes.map(({ id: _, latency: __, ...rest }) => rest)).to.deep.equal([
        {
          ...{ since, loopDelayMs, version: VERSION },
          ...{ host: hostname(), pid: process.pid, health: { state: 'up', failures: 0, late: 0 } },
          ...{ decisions: 0.2, degraded: 0 },
          limiters: [{ name: 'reports', waiting: 2, held: 0, maxWaiting: 7, slots: 1 }],
        },
      ]);
      await held.release();
      for (const wait of waits) await (await wait).release();
      await until(async () => (await reports())?.waiting === 0 && (await reports())?.slots === 0);
      await limiter.close();
      await store.close?.();
    });
  });
}
