// Policies by several keys on a cluster: in the slot of one of them, or across slots.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { expect } from 'chai';
import { Redis, type Cluster } from 'ioredis';
import {
  createLimiter,
  type Clock,
  type CreateLimiterOptions,
  type Decision,
  type HeadgateError,
  type Policy,
} from 'headgate';
import { redisStore } from 'headgate/redis';
import { identityChecks, lawChecks, type Law } from 'headgate-testing';
import { emittedCodes } from '../../../src/common/warnings.js';
import { startCluster, type TestCluster } from '../../support/cluster.js';
import { describeChecks, runsOf } from '../../support/kit.js';
import { freshPrefix, limiterOn, TestClock } from '../../support/stores.js';
import { until } from './load.js';

const POLICIES: readonly Policy[] = [
  { name: 'ip', algorithm: 'fixed-window', limit: 3, window: '1m' },
  { name: 'account', algorithm: 'fixed-window', limit: 2, window: '1m', by: 'account' },
  { name: 'org', algorithm: 'token-bucket', limit: 5, window: '1h', by: 'org' },
];
const LAWS: Law[] = ['law 1, bound', 'law 2, retry', 'law 3, charge', 'law 7, race', 'law 12, change'];

describe('policies by several keys on a cluster', function () {
  this.timeout(60_000);
  let cluster: TestCluster;
  let client: Cluster;
  before(async () => {
    cluster = await startCluster('redis');
    client = await cluster.connect();
  });
  after(async () => {
    client.disconnect();
    await cluster.stop();
  });

  for (const dimensions of [{ slotBy: 'org' }, { acrossSlots: true }] as const) {
    it(`requests wait for slots, with a line that users do not see: ${JSON.stringify(dimensions)}`, async () => {
      const prefix = freshPrefix();
      const limiter = createLimiter({
        ...{ name: 'slots', ...dimensions, timeout: '5s', onStoreError: 'throw' },
        policies: [
          ...POLICIES,
          { name: 'slots', algorithm: 'concurrency', limit: 1, lease: '1m', by: 'account' },
        ],
        store: redisStore(client, { prefix }),
      });
      const key = { key: '::1', account: 'ada', org: 'acme' };
      const first = await limiter.wait(key);
      const second = limiter.wait({ ...key, key: '::2' }, { timeout: '20s' });
      await first.release();
      for (const { policies } of [first, await second])
        expect(policies.map(({ name }) => name)).to.deep.equal(['ip', 'account', 'org', 'slots']);
      await (await second).release();
      const nodes = client.nodes('master');
      const keys = (await Promise.all(nodes.map((node) => node.keys(`${prefix}:*`)))).flat();
      expect(keys.filter((each) => each.includes('}w2:'))).to.have.length(1);
      await limiter.close();
    });

    const subject = {
      createStore: (clock: Clock) => redisStore(client, { clock, prefix: freshPrefix() }),
      dimensions,
      runs: runsOf('redis', 0, 20),
    };
    const [mode] = Object.keys(dimensions);
    const isMixed = ({ name }: { name: string }) => /dimension/.test(name);
    describeChecks(mode!, [...identityChecks(subject), ...lawChecks(subject, LAWS)].filter(isMixed));
  }

  for (const mode of [{ slotBy: 'org' }, { acrossSlots: true }]) {
    it(`overrides, with ${Object.keys(mode).join()}`, async () => {
      const store = redisStore(client, { prefix: freshPrefix() });
      const limiter = createLimiter({ store, name: 'api', policies: POLICIES, overrides: true, ...mode });
      const key = { key: '192.0.2.1', account: 'ada', org: 'acme' };
      const account = 'slotBy' in mode ? { account: 'ada', org: 'acme' } : { account: 'ada' };
      const limits = async () =>
        (await limiter.consume(key)).policies.map(({ limit, remaining }) => [limit, remaining]);
      expect(await limits()).to.deep.equal([
        [3, 2],
        [2, 1],
        [5, 4],
      ]);
      await limiter.override(account, { limit: 20 });
      await limiter.override({ org: 'acme' }, { limit: 50 });
      expect(await limits()).to.deep.equal([
        [3, 1],
        [20, 18],
        [50, 48],
      ]);
      await limiter.override(account, { account: '30/2m' });
      expect((await limits())[1]).to.deep.equal([30, 29]);
      expect(await limiter.removeOverride(account)).to.be.true;
      const charge = await limiter.consume(key, { cost: 0 });
      expect(charge.policies.map(({ limit }) => limit)).to.deep.equal([3, 2, 50]);
      await limiter.close();
    });
  }

  it('a limiter with neither option is refused with the fix; a single dimension needs no option', () => {
    const store = redisStore(client, { prefix: freshPrefix() });
    const refused = (policies: readonly Policy[], more = {}) => {
      try {
        void createLimiter({ store, name: String(Math.random()), policies, ...more }).close();
        return 'none';
      } catch (error) {
        return (error as HeadgateError).message;
      }
    };
    expect(refused(POLICIES)).to.match(/slotBy: 'org'.+acrossSlots: true/);
    expect(refused([POLICIES[1]!])).to.equal('none');
    expect(refused(POLICIES, { acrossSlots: true, ban: { after: 1 } })).to.match(/ban: { after }/);
    expect(refused(POLICIES, { acrossSlots: true, ban: {} })).to.equal('none');
    expect(
      refused([{ ...POLICIES[0]!, count: 'attempts' } as Policy, POLICIES[1]!], { acrossSlots: true }),
    ).to.match(/count: 'attempts'/);
  });

  it('slotBy: the keys of a decision lie in one slot, even for requests without a key of the slot’s dimension', async () => {
    const prefix = freshPrefix();
    const limiter = limiterOn(redisStore(client, { prefix }), {
      name: 'api',
      policies: POLICIES,
      slotBy: 'org',
    });
    await limiter.consume({ key: 'x', account: 'ada', org: 'acme' });
    await limiter.consume({ key: 'x', account: 'ada' });
    await limiter.consume('x');
    const keys = (await Promise.all(client.nodes('master').map((node) => node.keys(`${prefix}:*`)))).flat();
    const names = keys.filter((key) => key.includes('{api:')).sort();
    expect(names).to.deep.equal([
      `${prefix}:{api:%@org=acme}%@account=ada}f3@1m:account`,
      `${prefix}:{api:%@org=acme}%@key=x}f3@1m:ip`,
      names.find((name) => name.startsWith(`${prefix}:{api:%@org=acme}g`)),
      `${prefix}:{api:%@org}%@account=ada}f3@1m:account`,
      `${prefix}:{api:%@org}%@key=x}f3@1m:ip`,
    ]);
    expect((await limiter.peek('x')).remaining).to.equal(1);
    await limiter.close();
  });

  it('slotBy: a repetition of an id returns what the first request charged, once; acrossSlots refuses ids', async () => {
    const store = redisStore(client, { prefix: freshPrefix() });
    const make = (mode: object) =>
      createLimiter({
        name: 'ids',
        store,
        policies: POLICIES,
        timeout: '5s',
        ...mode,
      });
    const limiter = make({ slotBy: 'org' });
    const key = { key: '::1', account: 'ada', org: 'acme' };
    const used = async () => (await limiter.usage(key)).policies.map((each) => each.used);
    const first = await limiter.consume(key, { cost: { ip: 2 }, id: 'a' });
    const again = await limiter.consume(key, { cost: 1, id: 'a' });
    expect(again.policies).to.deep.equal(first.policies);
    const others = await limiter.consume({ ...key, account: 'bob' }, { id: 'a' });
    expect([again.repeated, others.repeated]).to.deep.equal([true, false]);
    await again.refund();
    await first.refund();
    expect(await used()).to.deep.equal([1, 0, 1]);
    await limiter.close();
    const across = make({ name: 'across', acrossSlots: true, onStoreError: 'throw' });
    const error = await across.consume(key, { id: 'a' }).catch((thrown: HeadgateError) => thrown);
    expect((error as HeadgateError).code).to.equal('HEADGATE_DIMENSIONS');
    await across.close();
  });

  for (const slots of [{ slotBy: 'org' }, { acrossSlots: true }]) {
    it(`slices are cut from the quota of each key: ${JSON.stringify(slots)}`, async () => {
      const store = redisStore(client, { prefix: freshPrefix(), slices: { hold: '1s' } });
      const policies = [
        'ip=fixed-window 900/1h',
        'account=sliding-window 600/1h by account',
        'org=gcra 800/30d by org',
      ];
      const name = Object.keys(slots)[0]!;
      const limiter = limiterOn(store, { name, policies, timeout: '10s', ...slots });
      const key = { key: 'x', account: 'ada', org: 'acme' };
      const decisions: Decision[] = [];
      let local = 0;
      const note = (message: unknown): void => {
        const { limiter: its, local: isLocal } = message as { limiter: string; local: boolean };
        if (its === name && isLocal) local++;
      };
      subscribe('headgate:decision', note);
      for (let i = 0; i < 300; i++) decisions.push(await limiter.consume(key));
      expect(decisions.every(({ allowed }) => allowed)).to.be.true;
      unsubscribe('headgate:decision', note);
      expect(local).to.be.above(100);
      await Promise.all(decisions.slice(50).map((decision) => decision.refund()));
      await store.close?.();
      const { policies: verdicts } = await limiter.peek(key);
      // The rest that a slice's bucket regained meanwhile may be lost: a part of a unit.
      expect(verdicts.map(({ remaining }) => remaining)).to.be.deep.oneOf([
        [850, 550, 750],
        [850, 550, 749],
      ]);
    });
  }

  it('acrossSlots: simultaneous decisions are wrongly denied only for units that are given back', async () => {
    const clock = new TestClock();
    const store = redisStore(client, { prefix: freshPrefix(), clock: clock.read });
    const limiter = limiterOn(store, { policies: POLICIES, acrossSlots: true });
    // 20 at once for an account of 2. The denied requests give back the units of the address and the organisation.
    const decisions = await Promise.all(
      Array.from({ length: 20 }, (_, i) => limiter.consume({ key: `ip${i}`, account: 'ada', org: 'acme' })),
    );
    expect(decisions.filter(({ allowed }) => allowed)).to.have.length(2);
    const { policies } = await limiter.peek({ org: 'acme', account: 'ada' });
    expect(policies.map(({ remaining }) => remaining)).to.deep.equal([0, 3]);
    const refunded = decisions.filter(({ allowed }) => allowed);
    await Promise.all(refunded.map((decision) => decision.refund()));
    const after = await limiter.peek({ org: 'acme', account: 'ada', key: 'ip0' });
    expect(after.policies.map(({ remaining }) => remaining)).to.deep.equal([3, 2, 5]);
    await limiter.close();
  });
});

describe('a cluster behind one address', function () {
  this.timeout(60_000);
  let cluster: TestCluster;
  let client: Redis;
  before(async () => {
    cluster = await startCluster('redis', 1);
    client = new Redis(cluster.servers[0]!.port);
  });
  after(async () => {
    client.disconnect();
    await cluster.stop();
  });

  const key = { key: '192.0.2.1', account: 'ada', org: 'acme' };

  /** The code of the error, if any, of a decision once the cluster is recognised; the health; and the warnings. */
  async function decided(options: Pick<CreateLimiterOptions, 'slotBy' | 'acrossSlots' | 'ban'>) {
    emittedCodes.delete('HEADGATE_ACROSS_SLOTS');
    const warned: string[] = [];
    const { emitWarning } = process;
    process.emitWarning = ((message: string, { code }: { code: string }) =>
      warned.push(`${code} ${message}`)) as never;
    const store = redisStore(client, { prefix: freshPrefix() });
    const limiter = limiterOn(store, { name: 'api', policies: POLICIES, ...options });
    const ask = () =>
      limiter.consume(key).then(
        () => undefined,
        ({ code }: HeadgateError) => code,
      );
    try {
      await ask();
      return { code: await ask(), failures: limiter.health.failures, warned: warned.join() };
    } finally {
      process.emitWarning = emitWarning;
      await limiter.close();
    }
  }

  it('reports a limiter that decides across slots without being asked to', async () => {
    const { warned, ...others } = await decided({});
    expect(others).to.deep.equal({ code: undefined, failures: 0 });
    expect(warned).to.match(
      /HEADGATE_ACROSS_SLOTS .*"api" \(key, account, org\).* slotBy: 'org', or acrossSlots/,
    );
    for (const mode of [{ acrossSlots: true }, { slotBy: 'org' }]) {
      const { code, warned } = await decided(mode);
      expect([code, warned.includes('ACROSS_SLOTS')]).to.deep.equal([undefined, false]);
    }
  });

  it('receives the rests of slices of several keys', async () => {
    const store = redisStore(client, { prefix: freshPrefix(), slices: { hold: '20ms' } });
    const limiter = limiterOn(store, { algorithm: 'fixed-window', limit: 10_000, window: '1h' });
    const keys = ['a', 'b', 'c'];
    for (let i = 0; i < 100; i++) for (const each of keys) await limiter.consume(each);
    for (const each of keys) await until(async () => (await limiter.peek(each)).remaining === 9_900);
    await store.close!();
    await limiter.close();
  });

  it('does not decide what cannot be decided across slots, which is not a failure of the server', async () => {
    for (const mode of [{}, { acrossSlots: true }]) {
      const { warned, ...others } = await decided({ ...mode, ban: { after: 3, within: '1m', for: '1m' } });
      // The failure is the refusal by which the cluster is recognised.
      expect(others).to.deep.equal({ code: 'HEADGATE_DIMENSIONS', failures: 1 });
      expect(warned).to.match(/HEADGATE_ACROSS_SLOTS .*slotBy: 'org'/);
    }
  });
});
