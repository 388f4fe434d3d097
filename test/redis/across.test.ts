// Policies by keys in several slots, decided key by key on a memory store that takes one key at a time.
import { expect } from 'chai';
import {
  createLimiter,
  memoryStore,
  type Clock,
  type CreateLimiterOptions,
  type Decision,
  type Limiter,
  type Store,
} from 'headgate';
import type { ChargeChange, LeaseChange, Query } from 'headgate/stores';
import { identityChecks, lawChecks } from 'headgate-testing';
import { AcrossSlots, checkAcross, type ByOneKey } from '../../src/stores/redis/across-slots.js';
import { PartCalls } from '../../src/stores/redis/part-calls.js';
import { performance } from '../../src/common/real-time.js';
import { newCall } from '../../src/contract/store.js';
import { limiterOn, TestClock } from '../support/clock.js';
import { until } from '../slow/faults/load.js';
import { describeChecks, runsOf } from '../support/kit.js';

interface Asked {
  /** The queries to the store of one key, in order. */
  readonly queries: Query[];
  readonly leases: LeaseChange[];
  /** Called before each decision by one key. */
  before: (query: Query) => void;
  /** Called before each change of one key. */
  beforeChange: (change: ChargeChange) => void;
}

function acrossStore(clock: Clock): Store & Asked {
  const memory = memoryStore({ clock });
  const log: Asked = { queries: [], leases: [], before: () => {}, beforeChange: () => {} };
  const oneKey: ByOneKey = {
    async decide(query) {
      expect(query.key).to.be.a('string');
      store.queries.push(query);
      store.before(query);
      return memory.decide(query);
    },
    async adjust(change) {
      // A caller with an earlier answer would still find the charge.
      await new Promise(setImmediate);
      store.beforeChange(change);
      return memory.adjust(change);
    },
    async lease(change) {
      store.leases.push(change);
      return memory.lease(change);
    },
    async reset(subject) {
      await new Promise(setImmediate);
      return memory.reset(subject);
    },
    usage: async (subject) => memory.usage!(subject),
  };
  const across = new AcrossSlots(oneKey);
  const of = ({ key }: { key: Query['key'] }) => (typeof key === 'string' ? oneKey : across);
  const store: Store & Asked = {
    ...log,
    decide: async (query) => of(query).decide(query),
    adjust: (change) => of(change).adjust(change),
    lease: (change) => of(change).lease(change),
    reset: (subject) => of(subject).reset(subject),
    ban: (subject, duration) => memory.ban(subject, duration),
    usage: (subject) => of(subject).usage(subject),
    checkDimensions: checkAcross,
  };
  return store;
}

const ADDRESS = { name: 'address', algorithm: 'fixed-window', limit: 2, window: '1m' } as const;
const ACCOUNT = { ...ADDRESS, name: 'account', limit: 1, by: 'account' } as const;
const KEY = { key: 'x', account: 'ada' };

describe('keys across slots', () => {
  it('usage: the policies of all keys, with the ban of one of them', async () => {
    const clock = new TestClock();
    const limiter = limiterOn(acrossStore(clock.read), { policies: [ADDRESS, ACCOUNT], ban: {} });
    await limiter.consume(KEY);
    await limiter.ban({ key: 'x' }, '1h');
    const { policies, bannedUntil } = await limiter.usage(KEY);
    expect(policies.map(({ name, key, used }) => [name, key, used])).to.deep.equal([
      ['address', 'x', 1],
      ['account', 'ada', 1],
    ]);
    expect(bannedUntil).to.equal(clock.now + 3_600_000);
  });

  const subject = {
    createStore: acrossStore,
    dimensions: { acrossSlots: true },
    runs: runsOf('memory', 15),
  } as const;
  const checks = [...identityChecks(subject), ...lawChecks(subject, ['law 3, charge'])];
  describeChecks(
    'acrossSlots',
    checks.filter(({ name }) => name.includes('dimension')),
  );

  /** A limiter by two keys, and the remaining units of each key. */
  function make(options: CreateLimiterOptions) {
    const store = acrossStore(new TestClock().read);
    const limiter = createLimiter({ acrossSlots: true, ...options, store });
    const remainingUnits = async () => (await limiter.peek(KEY)).policies.map(({ remaining }) => remaining);
    return { store, limiter, left: remainingUnits };
  }

  it('are asked one after the other, until one denies; then all report their remaining units', async () => {
    const { store, limiter } = make({ policies: [ACCOUNT, ADDRESS] });
    const calls = () =>
      store.queries.splice(0).map(({ set, peek }) => `${set.policies[0]!.name}${peek ? '?' : ''}`);
    await limiter.consume(KEY);
    expect(calls()).to.deep.equal(['address', 'account']);
    const { allowed, policies } = await limiter.consume(KEY);
    expect(allowed).to.equal(false);
    expect(policies.map(({ name, remaining }) => [name, remaining])).to.deep.equal([
      ['account', 0],
      ['address', 1],
    ]);
    expect(calls()).to.deep.equal(['address', 'account', 'address?']);
    await limiter.consume({ ...KEY, account: 'bob' });
    await limiter.consume({ ...KEY, account: 'eve' });
    expect(calls()).to.deep.equal(['address', 'account', 'address', 'account?']);
  });

  it('all get their units back if one cannot be asked', async () => {
    const org = { ...ADDRESS, name: 'org', by: 'org' } as const;
    const { store, limiter } = make({ policies: [ADDRESS, ACCOUNT, org], onStoreError: 'throw' });
    const key = { ...KEY, org: 'acme' };
    const remainingUnits = async () => (await limiter.peek(key)).policies.map(({ remaining }) => remaining);
    await limiter.consume({ ...key, account: 'bob' });
    expect(await remainingUnits()).to.deep.equal([1, 1, 1]);
    store.before = ({ set }) => {
      if (set.policies[0]!.name === 'org') throw new Error('away');
    };
    for (const ask of ['consume', 'peek'] as const) {
      const error: unknown = await limiter[ask](key).catch((reason: unknown) => reason);
      expect(error).to.have.property('code', 'HEADGATE_STORE_ERROR');
    }
    store.before = () => {};
    expect(await remainingUnits()).to.deep.equal([1, 1, 1]);
  });

  it('get their units back once, even if the look after a denial fails', async () => {
    const { store, limiter, left } = make({
      policies: [{ ...ADDRESS, limit: 5 }, ACCOUNT],
      onStoreError: 'throw',
    });
    for (const account of ['ada', 'bob']) await limiter.consume({ ...KEY, account });
    store.before = ({ peek }) => {
      if (peek) throw new Error('away');
    };
    const error: unknown = await limiter.consume(KEY).catch((reason: unknown) => reason);
    expect(error).to.have.property('code', 'HEADGATE_STORE_ERROR');
    store.before = () => {};
    expect(await left()).to.deep.equal([3, 0]);
  });

  it('get their units back once, even if the server of one of them cannot do it yet', async () => {
    const { store, limiter, left } = make({
      policies: [
        { ...ADDRESS, limit: 5 },
        { ...ACCOUNT, limit: 5 },
      ],
    });
    await limiter.consume(KEY);
    const decision = await limiter.consume(KEY);
    let failures = 0;
    store.beforeChange = ({ set }) => {
      if (set.policies[0]!.name === 'account' && failures++ === 0) throw new Error('LOADING It loads.');
    };
    await decision.refund();
    // A give-back that the store could not accept is repeated after 200 ms.
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect(failures).to.equal(1);
    expect(await left()).to.deep.equal([4, 3]);
    store.beforeChange = () => {
      if (failures++ < 3) throw new Error('LOADING It loads.');
    };
    await (await limiter.consume(KEY)).refund();
    await until(async () => failures > 3 && (await left()).join() === '4,3');
    await limiter.close();
  });

  it('get back the units that they were charged: none after a look, and none in a shadow that would have denied', async () => {
    const shadow = { ...ADDRESS, name: 'shadow', limit: 1, shadow: true } as const;
    const { limiter, left } = make({ policies: [ADDRESS, shadow, ACCOUNT] });
    await limiter.consume(KEY);
    for (const cost of [0, 1]) {
      await limiter.peek(KEY, { cost });
      await limiter.consume(KEY, { cost });
      expect(await left()).to.deep.equal([1, 0, 0]);
    }
  });

  it('are asked for the ban first, then for the verdicts, which may extend the wait', async () => {
    const { store, limiter } = make({ policies: [ADDRESS, ACCOUNT], ban: { by: 'account' } });
    await limiter.ban({ account: 'ada' }, '1h');
    const { reason, policies } = await limiter.consume(KEY);
    expect([reason, policies.length, store.queries.length]).to.deep.equal(['banned', 0, 2]);
    expect(store.queries.map(({ peek }) => peek)).to.deep.equal([false, true]);
  });

  it('hold slots only for keys that have slots: released by a denial, renewed and released by the request', async () => {
    const slots = { name: 'slots', algorithm: 'concurrency', limit: 1, lease: '1m' } as const;
    const { store, limiter, left } = make({ policies: [slots, ACCOUNT] });
    const held = await limiter.acquire(KEY);
    expect(store.queries.map(({ lease }) => lease !== '')).to.deep.equal([true, false]);
    expect(await held.renew()).to.equal(true);
    expect(await left()).to.deep.equal([0, 0]);
    expect(await held.release()).to.equal(true);
    expect(store.leases.map(({ action }) => action)).to.deep.equal(['renew', 'release']);
    expect((await limiter.consume(KEY)).allowed).to.equal(false);
    expect(store.leases.map(({ action }) => action)).to.deep.equal(['renew', 'release', 'release']);
    expect(await left()).to.deep.equal([1, 0]);
    await limiter.reset(KEY);
    expect(await left()).to.deep.equal([1, 1]);
  });

  it('share the wait, the cancellation and the server of one call', async () => {
    const { store, limiter } = make({ policies: [ADDRESS, ACCOUNT] });
    const outcomes: unknown[] = [];
    let whole: Query | undefined;
    const { decide } = store;
    store.decide = (query) => decide((whole = query));
    store.before = (query) => {
      const call = query.call!;
      outcomes.push([call.until, call.abandoned, whole!.call!.server]);
      call.until = 1e12;
      call.server = 'a:1';
      whole!.call!.abandoned = true;
    };
    await limiter.consume(KEY);
    expect(outcomes).to.deep.equal([
      [0, false, undefined],
      [1e12, true, 'a:1'],
    ]);
  });

  describe('credit and blame each server for its own key', () => {
    const { now } = performance;
    let time = 1000;
    let failing: string | undefined;
    beforeEach(() => {
      failing = undefined;
      performance.now = () => time;
    });
    afterEach(() => {
      performance.now = now;
    });

    /** A limiter of which each key lies on a server of its own: `x:1` has the key `x`. */
    function onServers() {
      const policies = [ADDRESS, ACCOUNT].map((policy) => ({ ...policy, limit: 1000 }));
      const made = make({ policies, warnings: false });
      made.store.servers = () => ['x:1', 'ada:1'];
      made.store.before = ({ key, call }) => {
        call!.server = `${String(key)}:1`;
        if (call!.server === failing) throw new Error('ERR it fails');
      };
      return made;
    }

    async function consume(limiter: Limiter, fails: string | undefined): Promise<Decision> {
      failing = fails;
      time += 30;
      return limiter.consume(KEY);
    }

    for (const server of ['x:1', 'ada:1']) {
      it(`isolated failures of ${server} do not mark it down, failures in a row do`, async () => {
        const { limiter } = onServers();
        for (let i = 0; i < 20; i++) {
          expect((await consume(limiter, i % 2 ? server : undefined)).degraded).to.equal(i % 2 === 1);
          expect(limiter.health.serversDown).to.deep.equal([]);
        }
        for (let i = 0; i < 6; i++) await consume(limiter, server);
        expect(limiter.health.serversDown).to.deep.equal([server]);
      });
    }

    it('also where all are asked at once', async () => {
      const call = newCall();
      const calls = new PartCalls(call);
      const ends: { resolve(answer: string): void; reject(error: Error): void }[] = [];
      const asked = [0, 1].map((i) =>
        calls.ask((own) => {
          own!.server = `${i}:1`;
          return new Promise<string>((resolve, reject) => ends.push({ resolve, reject }));
        }),
      );
      expect(call.server).to.equal('1:1');
      ends[1]!.resolve('');
      await asked[1];
      // If the time ends now, it is the first that did not answer.
      expect([call.server, [...call.answered!]]).to.deep.equal(['0:1', ['1:1']]);
      ends[0]!.reject(new Error('away'));
      await asked[0]!.catch(() => {});
      await calls.ask((own) => (own!.server = '2:1'));
      expect(call.server).to.equal('0:1');
    });
  });

  it('are refused if a policy or a ban needs all verdicts at once', () => {
    expect(() => make({ policies: [ADDRESS, { ...ACCOUNT, count: 'attempts' }] })).to.throw(
      /count: 'attempts'/,
    );
    expect(() => make({ policies: [ADDRESS, ACCOUNT], ban: { after: 1 } })).to.throw(/ban: { after }/);
  });
});
