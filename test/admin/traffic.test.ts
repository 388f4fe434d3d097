// The rates of keys in admin.traffic, by the counts that processes write each second.
import { expect } from 'chai';
import { createLimiter, type Decision, type Key } from 'headgate';
import { createAdmin, type Admin } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import type { CountedDecision } from '../../src/contract/announcement.js';
import { LimiterCounts } from '../../src/stores/counts/traffic-counts.js';
import { weigh } from '../../src/admin/rates.js';
import { UsedKeys } from '../../src/stores/counts/use-histogram.js';
import { escapeKey } from '../../src/stores/keys.js';
import { topKey } from '../../src/stores/redis/operators/count-keys.js';
import type { Counted, CountSink } from '../../src/stores/counts/sink.js';
import { RedisCounts } from '../../src/stores/redis/operators/count-sink.js';
import { Traffic } from '../../src/stores/counts/traffic.js';
import { sequence } from '../support/fleet.js';
import { clients, freshPrefix } from '../support/stores.js';
import { until } from './stores.js';

describe('traffic', () => {
  let prefix: string;
  let admin: Admin;

  beforeEach(() => {
    prefix = freshPrefix();
    admin = createAdmin(clients.redis, { prefix });
  });
  afterEach(() => clients.redis.del(topKey(prefix)));

  /** Writes the messages of a process, in the order of their times, the last one now. */
  async function write(...processes: { ms?: number; seconds: readonly (readonly Decision[])[] }[]) {
    const [now] = await clients.redis.time();
    const messages = processes.flatMap(({ ms = 1000, seconds }, id) =>
      seconds.map((decisions, i) => {
        const counts = new LimiterCounts('api', new UsedKeys());
        for (const decision of decisions as CountedDecision[]) counts.add(decision, 1);
        const limiters = [counts.summary('api', escapeKey)];
        const counted: Counted = { id: `process ${id}`, sample: 1, ms, limiters };
        return { at: 1000 * Number(now) - (seconds.length - 1 - i) * ms, counted };
      }),
    );
    for (const { at, counted } of messages.sort((a, b) => a.at - b.at))
      await clients.redis.xadd(topKey(prefix), `${at}-*`, 'counts', JSON.stringify(counted));
    await clients.redis.pexpire(topKey(prefix), 60_000);
  }

  it('an attacker of 20/s among 60/s of 2,000 keys is shown as such, and no key of 0.03/s above 0.3/s', async () => {
    const random = sequence(49);
    const limiter = createLimiter({ policies: [{ name: 'burst', limit: 15, window: '1h' }] });
    const seconds: Decision[][] = [];
    for (let second = 0; second < 40; second++) {
      const keys = Array.from({ length: 60 }, () => `user:${Math.floor(2000 * random())}`);
      for (let i = 0; i < 20; i++) keys.push('attacker');
      seconds.push(await Promise.all(keys.map((key) => limiter.consume(key))));
    }
    await write({ seconds });
    const { limiters, isSampled } = await admin.traffic({ keys: 20 });
    const [api] = limiters;
    const [first, ...others] = api!.keys;
    expect(first).to.deep.equal({ key: 'attacker', admitted: 0, denied: 20, policy: 'burst' });
    expect(api).to.include({ admitted: 60, denied: 20 });
    expect(others).to.have.length(19);
    for (const { key, admitted } of others) expect(admitted, JSON.stringify(key)).to.be.at.most(0.3);
    expect(isSampled).to.equal(false);
  });

  it('rates do not depend on the phase and the length of the seconds of processes', async () => {
    const limiter = createLimiter({ limit: 1e6, window: '1h' });
    const second = await Promise.all(Array.from({ length: 21 }, () => limiter.consume('a')));
    const seconds = Array.from({ length: 8 }, () => second);
    await write(...[1001, 1050, 1200].map((ms) => ({ ms, seconds })));
    const [api] = (await admin.traffic()).limiters;
    expect(api!.admitted).to.be.closeTo(21 / 1.001 + 21 / 1.05 + 21 / 1.2, 0.1);
  });

  it('keys with most denials come first, by the dimension and the policy that decide', async () => {
    const limiter = createLimiter({
      policies: [
        { name: 'address', limit: 100, window: '1h' },
        { name: 'login', limit: 2, window: '1h', by: 'account' },
      ],
      ban: { after: 1000, by: 'account' },
    });
    await limiter.ban({ account: 'banned' }, '1h');
    const asked: Key[] = [];
    for (let i = 0; i < 9; i++) asked.push({ key: `10.0.0.${i}`, account: 'ada' });
    for (let i = 0; i < 30; i++) asked.push({ key: '10.0.1.1' });
    for (let i = 0; i < 5; i++) asked.push({ key: '10.0.2.2', account: 'banned' });
    await write({ seconds: [await Promise.all(asked.map((key) => limiter.consume(key)))] });
    const [api] = (await admin.traffic({ keys: 3 })).limiters;
    expect(
      api!.keys.map(({ key, dimension, policy, reason }) => [key, dimension, policy, reason]),
    ).to.deep.equal([
      ['ada', 'account', 'login', undefined],
      ['banned', 'account', undefined, 'banned'],
      ['10.0.2.2', undefined, undefined, 'banned'],
    ]);
    expect(api!.keys.map(({ deniedFor }) => deniedFor)).to.deep.equal([undefined, undefined, 'account']);
    expect(api!.reasons).to.deep.equal([{ reason: 'banned', denied: 1 }]);
  });

  it('a request counts for its key in each dimension, and once for the limiter', async () => {
    const limiter = createLimiter({
      policies: [
        { name: 'minute', limit: 12, window: '1m' },
        { name: 'address', limit: 60, window: '1m', by: 'address' },
      ],
    });
    // One address with nine keys, 18 requests a second.
    const second = async () => {
      const sent: Key[] = [];
      for (let i = 0; i < 18; i++) sent.push({ key: `mal${1 + (i % 9)}`, address: '203.0.113.66' });
      return Promise.all(sent.map((key) => limiter.consume(key)));
    };
    const seconds: Decision[][] = [];
    for (let i = 0; i < 6; i++) seconds.push(await second());
    await write({ seconds });
    const [api] = (await admin.traffic({ keys: 20 })).limiters;
    expect(api!.admitted + api!.denied).to.be.closeTo(18, 0.1);
    const [address, ...keys] = api!.keys;
    expect(address).to.include({ key: '203.0.113.66', dimension: 'address', policy: 'address' });
    expect(address!.admitted + address!.denied).to.be.closeTo(18, 0.1);
    expect(keys).to.have.length(9);
    for (const each of keys) {
      expect(each.admitted + each.denied, each.key as string).to.be.closeTo(2, 0.1);
      expect(each).to.include({ policy: 'address', deniedFor: 'address' });
    }
  });

  it('keys that are denied themselves are sent before any number of keys of one denied address', async () => {
    const limiter = createLimiter({
      policies: [
        { name: 'minute', limit: 1, window: '1m' },
        { name: 'address', limit: 100, window: '1m', by: 'address' },
      ],
    });
    const sent: Key[] = [];
    for (let i = 0; i < 1500; i++) sent.push({ key: `mal${i}`, address: '203.0.113.66' });
    for (let i = 0; i < 15; i++)
      for (let times = 0; times < 2; times++) sent.push({ key: `user${i}`, address: '10.0.0.1' });
    await write({ seconds: [await Promise.all(sent.map((key) => limiter.consume(key)))] });
    const { keys } = (await admin.traffic({ name: 'api', keys: 20 })).limiters[0]!;
    const own = keys.filter(({ deniedFor, denied }) => denied > 0 && deniedFor === undefined);
    expect(own.map(({ key }) => key)).to.include.members(['203.0.113.66', 'user0', 'user14']);
  });

  it('the busiest keys come first if they are asked for', async () => {
    const limiter = createLimiter({ policies: [{ name: 'burst', limit: 12, window: '1h' }] });
    const asked = { denied: 14, busy: 12, 'also denied': 13, rare: 1 };
    const keys = Object.entries(asked).flatMap(([key, times]) => Array.from({ length: times }, () => key));
    await limiter.consume('denied', { cost: 12 });
    await limiter.consume('also denied', { cost: 12 });
    await write({ seconds: [await Promise.all(['busy', ...keys].map((key) => limiter.consume(key)))] });
    const first = async (sort?: 'denials' | 'requests') =>
      (await admin.traffic({ keys: 3, sort })).limiters[0]!.keys.map(({ key }) => key);
    expect(await first()).to.deep.equal(['denied', 'also denied', 'busy']);
    const many = await Promise.all(Array.from({ length: 60 }, () => limiter.consume('steady', { cost: 0 })));
    await write({ seconds: [many] });
    expect((await first('requests'))[0]).to.equal('steady');
    expect(await first('denials')).not.to.include('steady');
    const wrong = await admin.traffic({ sort: 'most' as never }).catch((error: unknown) => error);
    expect((wrong as Error).message).to.match(/^sort: /);
  });

  it('the cause of a key is that of its last denial, also if no policy denied', async () => {
    const limiter = createLimiter({
      policies: [{ name: 'burst', limit: 2, window: '1h' }],
      ban: { after: 3, within: '1m', for: '1h' },
    });
    const second = async () => [await limiter.consume('a'), await limiter.consume('a')];
    // The key is denied by `burst` in the first seconds, and banned in the last ones.
    await write({ seconds: [await second(), await second(), await second(), await second()] });
    const [api] = (await admin.traffic()).limiters;
    expect(api!.policies.map(({ name }) => name)).to.deep.equal(['burst']);
    expect(api!.keys).to.deep.equal([{ key: 'a', admitted: 0.4, denied: 1.2, reason: 'banned' }]);
  });

  it('all keys of the first 500 decisions of a second are counted, and later ones without bias', async () => {
    const sent: Counted[] = [];
    const commands = {
      ready: () => true,
      run: (_: string, __: string, call: { args: string[]; done(): void }) => {
        sent.push(JSON.parse(call.args[1]!) as Counted);
        call.done();
      },
    };
    const limiter = createLimiter({ limit: 1e9, window: '1h' });
    const decision = async (key: string) => (await limiter.consume(key)) as CountedDecision;
    const [rare, often] = [await decision('rare'), await decision('often')];
    let estimated = 0;
    const rounds = 30;
    for (let round = 0; round < rounds; round++) {
      const traffic = new Traffic(
        new RedisCounts(commands as never, prefix),
        { sample: 16, text: escapeKey },
        new Set(),
      );
      for (let i = 0; i < 500; i++) traffic.count('api', i % 100 === 0 ? rare : often);
      if (round > 0) for (let i = 0; i < 4000; i++) traffic.count('api', i % 4 === 0 ? rare : often);
      traffic.flush();
      const { keys, counts } = sent.at(-1)!.limiters[0]!;
      if (round === 0) expect(keys).to.deep.equal({ often: [495, 0], rare: [5, 0] });
      else estimated += keys['rare']![0];
      expect(counts).to.deep.equal([round === 0 ? 500 : 4500, 0]);
      expect(sent.at(-1)!.sample).to.equal(round === 0 ? 1 : 16);
      traffic.close();
    }
    // 1,005 of 4,500 decisions, in the mean of 29 samples of some 250 decisions.
    expect(estimated / (rounds - 1)).to.be.closeTo(1005, 100);
  });

  it('counts wait for a store that is not ready, and come with the next message', async () => {
    const sent: Counted[] = [];
    const write = (message: Counted) => void sent.push(message);
    const sink = { isPermitted: true, isReady: true, now: Date.now, write };
    const traffic = new Traffic(sink, { sample: 1, text: escapeKey }, new Set());
    const limiter = createLimiter({ limit: 1e9, window: '1h' });
    const decision = (await limiter.consume('a')) as CountedDecision;
    for (const isReady of [true, false, false, true]) {
      sink.isReady = isReady;
      traffic.count('api', decision);
      traffic.flush();
    }
    expect(sent.map(({ limiters: [api] }) => api!.counts)).to.deep.equal([
      [1, 0],
      [3, 0],
    ]);
    traffic.count('api', decision);
    traffic.close();
    expect(sent.at(-1)!.limiters[0]!.counts).to.deep.equal([1, 0]);
  });

  it('books decisions during an outage in the minutes in which they happened', async () => {
    let now = 1_000_000 * 60_000;
    const written = new Map<number, number>();
    const denied = new Map<number, number>();
    const lengths: number[] = [];
    const sink = { isPermitted: true, isReady: false, now: () => now };
    const write: CountSink['write'] = ({ limiters }, minutes, denials, start = now) => {
      lengths.push(...limiters.map(({ counts }) => counts[1]));
      const minute = Math.floor(start / 60_000) - 1_000_000;
      const count = minutes.get('api')?.get('d') ?? 0;
      written.set(minute, (written.get(minute) ?? 0) + count);
      for (const each of denials) {
        const at = each.minute / 60_000 - 1_000_000;
        denied.set(at, (denied.get(at) ?? 0) + each.count);
      }
    };
    const outage = new Traffic(Object.assign(sink, { write }), { sample: 1, text: escapeKey }, new Set());
    const limiter = createLimiter({ limit: 1, window: '1h' });
    await limiter.consume('a');
    const denial = (await limiter.consume('a')) as CountedDecision;
    for (let second = 0; second < 180; second++, now += 1000) {
      outage.count('api', denial);
      outage.flush();
    }
    sink.isReady = true;
    for (let i = 0; i < 5; i++) outage.flush();
    expect([...written].filter(([, count]) => count > 0)).to.deep.equal([
      [0, 61],
      [1, 60],
      [2, 59],
    ]);
    expect([...denied]).to.deep.equal([...written].filter(([, count]) => count > 0));
    // The rates of the last seconds have no decision of an earlier minute.
    expect(lengths.reduce((a, b) => a + b)).to.be.below(60);
    outage.close();
  });

  it('counts that the store received late do not raise the rate', () => {
    const limiter = (admitted: number) => ({
      ...{ name: 'api', counts: [admitted, 0] as const },
      ...{ policies: {}, reasons: {}, keys: {} },
    });
    const message = (ms: number) => ({ id: 'p', sample: 1, ms, limiters: [limiter(ms / 100)] });
    // Ten decisions a second. The store hung for 30 s, and then received two messages at once.
    const counts = [
      { at: 100_000, counted: message(1000) },
      { at: 131_000, counted: message(1000) },
      { at: 131_001, counted: message(30_000) },
    ];
    const sum = weigh({ now: 131_001, counts }, [5]).reduce(
      (total, { counted, weights }) => total + counted.limiters[0]!.counts[0] * weights[0]!,
      0,
    );
    expect(sum).to.be.closeTo(50, 0.5);
  });

  it('has the decisions of a process whose last limiter was closed within a second', async () => {
    const store = redisStore(clients.redis, { prefix });
    const limiter = createLimiter({ name: 'job', store, limit: 2, window: '1h' });
    for (let i = 0; i < 5; i++) await limiter.consume('a');
    await limiter.close();
    await until(async () => {
      const { limiters } = await admin.history();
      return sums(limiters[0]?.admitted) === 2 && sums(limiters[0]?.denied) === 3;
    });
  });
});

const sums = (numbers: readonly number[] = []): number => numbers.reduce((sum, each) => sum + each, 0);
