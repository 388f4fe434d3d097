// The past: admin.denials, and the counts of all stores that processes write.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { createLimiter, memoryStore, type Limiter, type Store } from 'headgate';
import { createAdmin, type Admin } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { CountRows } from '../../src/stores/counts/count-rows.js';
import {
  addDenial,
  hourOf,
  MAX_KEYS_PER_HOUR,
  parseDenials,
  denialsText,
  type DenialCount,
  type KeyDenials,
} from '../../src/stores/counts/denials.js';
import { KeptCounts } from '../../src/stores/counts/kept-counts.js';
import type { CountSink } from '../../src/stores/counts/sink.js';
import { commandsOf } from '../../src/stores/redis/clients/clients.js';
import { RedisCounts } from '../../src/stores/redis/operators/count-sink.js';
import { deniedKey, topKey } from '../../src/stores/redis/operators/count-keys.js';
import { clients, freshPrefix } from '../support/stores.js';
import { serverKinds } from '../support/shared-servers.js';
import { drivers, storeOn } from '../support/sqlite.js';
import { until } from './stores.js';

const HOUR = 3_600_000;
const MESSAGE = { id: 'p', sample: 1, ms: 1000, limiters: [] } as const;

interface Place {
  readonly store: Store;
  readonly admin: Admin;
  close(): Promise<void>;
}

async function onSqlite(): Promise<Place> {
  const directory = mkdtempSync(join(tmpdir(), 'headgate-denials-'));
  const store = storeOn(join(directory, 'limits.db'));
  const close = async () => {
    await store.close?.();
    rmSync(directory, { recursive: true });
  };
  return { store, admin: createAdmin(store), close };
}

const places: Record<string, () => Promise<Place>> = {
  memory: async () => {
    const store = memoryStore();
    return { store, admin: createAdmin(store), close: async () => {} };
  },
  ...(Object.keys(drivers).length > 0 && { sqlite: onSqlite }),
  ...Object.fromEntries(
    serverKinds.map((kind) => [
      kind,
      async () => {
        const prefix = freshPrefix();
        const store = redisStore(clients[kind], { prefix, publish: '20ms' });
        const close = async () => {
          await store.close?.();
          const keys = await clients[kind].keys(`${prefix}:*`);
          for (const key of keys) expect(await clients[kind].pttl(key), key).to.be.above(0);
          if (keys.length > 0) await clients[kind].del(...keys);
        };
        return { store, admin: createAdmin(clients[kind], { prefix }), close };
      },
    ]),
  ),
};

for (const [kind, open] of Object.entries(places))
  describe(`counts and past denials on ${kind}`, function () {
    this.timeout(30_000);
    let place: Place;
    let limiter: Limiter;
    beforeEach(async () => {
      place = await open();
      limiter = createLimiter({
        ...{ name: 'api', store: place.store, ban: {} },
        policies: ['minute=3/1m', 'account=1/1h by account'],
      });
    });
    afterEach(async () => {
      await limiter.close();
      await place.close();
    });

    it('counts by default: rates, minutes, processes, and why a key was denied', async () => {
      const startedAt = Date.now();
      for (let i = 0; i < 8; i++) await limiter.consume({ key: '203.0.113.7' });
      for (let i = 0; i < 3; i++) await limiter.consume({ key: `10.0.0.${i}`, account: 'ada' });
      await limiter.ban({ key: '10.0.0.9' }, '1h');
      for (let i = 0; i < 2; i++) await limiter.consume({ key: '10.0.0.9' });
      await until(async () => (await place.admin.traffic()).limiters.length === 1);
      const { limiters, processes } = await place.admin.traffic({ seconds: 60 });
      const total = (rate: number) => Math.round(60 * rate);
      expect(limiters[0]!.name).to.equal('api');
      // Rates are rounded to a tenth a second.
      expect(total(limiters[0]!.admitted)).to.be.within(1, 9);
      expect(processes).to.have.length(1);
      expect(processes[0]).to.include({ pid: process.pid, degraded: 0 });
      await until(async () => (await place.admin.denials('203.0.113.7')).length === 1);
      const [api] = (await place.admin.history({ minutes: 2 })).limiters;
      const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0);
      expect([sum(api!.admitted), sum(api!.denied)]).to.deep.equal([4, 9]);
      const [ofDay] = (await place.admin.history({ hours: 24 })).limiters;
      expect(ofDay!.admitted).to.have.length(144);
      expect([sum(ofDay!.admitted), sum(ofDay!.denied)]).to.deep.equal([4, 9]);
      const [address, ...others] = await place.admin.denials('203.0.113.7');
      expect(others).to.deep.equal([]);
      expect(address).to.include({ name: 'api', key: '203.0.113.7', dimension: 'key', count: 5 });
      expect(sum(address!.minutes.map(({ count }) => count))).to.equal(5);
      for (const { policy, minute } of address!.minutes) {
        expect(policy).to.equal('minute');
        expect(minute % 60_000).to.equal(0);
        expect(minute).to.be.within(startedAt - 61_000, Date.now());
      }
      expect(address!.first.getTime()).to.be.within(startedAt - 1000, address!.last.getTime());
      const [account] = await place.admin.denials('ada', { dimension: 'account' });
      expect(account).to.include({ dimension: 'account', count: 2 });
      const [banned] = await place.admin.denials('10.0.0.9', { name: 'api' });
      expect(banned!.minutes[0]).to.include({ reason: 'banned' }).and.not.have.property('policy');
      const all = await Promise.all([0, 1, 2].map((i) => place.admin.denials(`10.0.0.${i}`)));
      // The address of a denied request was denied with the account, by a policy of the account.
      expect(all.map((past) => past.map(({ minutes: [each] }) => each!.policy)).sort()).to.deep.equal([
        [],
        ['account'],
        ['account'],
      ]);
    });

    it('shows a key that is denied only with the key of another dimension', async () => {
      for (let i = 0; i < 3; i++) await limiter.consume({ key: `203.0.113.${i}`, account: 'eve' });
      await until(async () => (await place.admin.key('203.0.113.2'))[0]?.deniedLately !== undefined);
      const views = await place.admin.key('203.0.113.2', { name: 'api' });
      expect(views).to.have.length(1);
      expect(views[0]).to.include({ allowed: true, reason: null });
      expect(views[0]!.deniedLately).to.deep.equal({ policy: 'account', dimension: 'account' });
      const [first] = await place.admin.key('203.0.113.0', { name: 'api' });
      expect(first).to.not.have.property('deniedLately');
      const [eve] = await place.admin.key('eve', { name: 'api', dimension: 'account' });
      expect(eve).to.include({ allowed: false }).and.not.have.property('deniedLately');
      const [past] = await place.admin.denials('203.0.113.2');
      expect(past).to.include({ key: '203.0.113.2', dimension: 'key', count: 1 });
      await limiter.ban('203.0.113.9', '1h');
      await limiter.consume({ key: '203.0.113.9', account: 'ada' });
      const viewOfAda = async () =>
        (await place.admin.key('ada', { name: 'api', dimension: 'account' }))[0]!.deniedLately;
      await until(async () => (await viewOfAda()) !== undefined);
      expect(await viewOfAda()).to.deep.equal({ reason: 'banned', dimension: 'key' });
    });
  });

describe('counts: false', () => {
  it('counts nothing', async () => {
    const prefix = freshPrefix();
    const stores = [
      memoryStore({ counts: false }),
      redisStore(clients.redis, { prefix, publish: false, counts: false }),
    ];
    for (const store of stores) {
      const limiter = createLimiter({ name: 'api', store, limit: 1, window: '1h' });
      const { reports } = limiter.internals.decider;
      expect(reports.announced!.count).to.equal(undefined);
      expect((await createAdmin(store).traffic()).limiters).to.deep.equal([]);
      await limiter.close();
      await store.close?.();
    }
  });
});

describe('records of denials', () => {
  const hour = hourOf(Date.now()) - 2 * HOUR;
  const denial = (owner: string, minute: number, count: number, cause = 'minute'): DenialCount => {
    const first = hour + minute * 60_000 + 1000;
    return { owner, minute: hour + minute * 60_000, cause, count, first, last: first + 5000 };
  };
  const sinks: Record<
    string,
    () => Promise<[CountSink, (owner: string) => Promise<KeyDenials | undefined>]>
  > = {
    memory: async () => {
      const kept = new KeptCounts(Date.now);
      return [kept, async (owner) => kept.denialsOf(owner, hour)];
    },
    redis: async () => {
      const prefix = freshPrefix();
      const sink = new RedisCounts(commandsOf(clients.redis), prefix);
      return [
        sink,
        async (owner) => {
          const text = await clients.redis.hget(deniedKey(prefix, hour), owner);
          return text === null ? undefined : parseDenials(text, hour);
        },
      ];
    },
  };
  for (const [kind, open] of Object.entries(sinks)) {
    it(`${kind}: adds up minutes and causes as TypeScript does, in any order`, async () => {
      const [sink, read] = await open();
      const all = [
        denial('api:a', 5, 2),
        denial('api:a', 4, 1),
        denial('api:a', 5, 3),
        denial('api:a', 5, 1, '!banned'),
        denial('api:a', 15, 7, '!banned'),
        denial('api:a', 59, 4),
        denial('api:a', 5, 9),
      ];
      let expected: KeyDenials | undefined;
      for (const each of all) expected = addDenial(expected, each);
      sink.write(MESSAGE, new Map(), all.slice(0, 3));
      sink.write(MESSAGE, new Map(), all.slice(3));
      await until(async () => (await read('api:a'))?.causes.get('minute')?.get(hour + 59 * 60_000) === 4);
      const found = (await read('api:a'))!;
      expect(denialsText(found, hour)).to.equal(denialsText(expected!, hour));
      expect(found.causes.get('minute')!.get(hour + 5 * 60_000)).to.equal(14);
    });

    it(`${kind}: is bounded, and a key with many denials stays`, async () => {
      const [sink, read] = await open();
      sink.write(MESSAGE, new Map(), [denial('api:often', 0, 1_000_000)]);
      const written = 50 * Math.ceil(MAX_KEYS_PER_HOUR / 50 + 2);
      for (let at = 0; at < written; at += 50)
        sink.write(
          MESSAGE,
          new Map(),
          Array.from({ length: 50 }, (_, i) => denial(`api:${at + i}`, 1, 1)),
        );
      await until(async () => (await read(`api:${written - 1}`)) !== undefined);
      const left = await Promise.all(
        Array.from({ length: written }, async (_, i) => (await read(`api:${i}`)) !== undefined),
      );
      expect(left.filter(Boolean)).to.have.length(MAX_KEYS_PER_HOUR - 1);
      expect((await read('api:often'))!.causes.get('minute')!.get(hour)).to.equal(1_000_000);
    });
  }

  it('24 hours of the most keys, denied in each minute, take less than 10 MB of Redis', async function () {
    this.timeout(60_000);
    const prefix = freshPrefix();
    const { redis } = clients;
    const keys: string[] = [];
    for (let h = 0; h < 24; h++) {
      const time = hour + h * HOUR;
      const minutes = Array.from({ length: 60 }, (_, i) => `${i}:123`).join(' ');
      const record = `${time} ${time}\nminute ${minutes}\n`;
      const owners = Array.from({ length: MAX_KEYS_PER_HOUR }, (_, i) => `api:203.0.${i % 250}.${i}`);
      const [records, scores] = [deniedKey(prefix, time), deniedKey(prefix, time, 'counts')];
      await redis.hset(records, ...owners.flatMap((owner) => [owner, record]));
      await redis.zadd(scores, ...owners.flatMap((owner) => [7380, owner]));
      keys.push(records, scores);
    }
    const sizes = await Promise.all(keys.map((key) => redis.memory('USAGE', key, 'SAMPLES', '0')));
    await redis.del(...keys, topKey(prefix));
    const bytes = sizes.reduce<number>((sum, size) => sum + Number(size), 0);
    console.log(`      ${(bytes / 1e6).toFixed(1)} MB`);
    expect(bytes).to.be.below(10e6);
  });

  it('a database that does not answer gets no queue of counts', async () => {
    let calls = 0;
    const rows = new CountRows(() => {
      calls++;
      return new Promise(() => {});
    }, Date.now);
    for (let i = 0; i < 10; i++) rows.write(MESSAGE, new Map(), [denial('api:a', 1, 1)]);
    expect(calls).to.equal(2);
  });
});
