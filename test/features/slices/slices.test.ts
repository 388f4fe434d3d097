// Law 17. Hot keys decided from slices: several processes together admit no more than the limit.
import { expect } from 'chai';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import {
  createLimiter,
  memoryStore,
  type CreateLimiterOptions,
  type Decision,
  type Key,
  type Limiter,
  type Policy,
  type Store,
} from 'headgate';
import { redisStore, type SliceOptions } from 'headgate/redis';
import { performance } from '../../../src/common/real-time.js';
import { newCall, type ChargeChange, type Query } from '../../../src/contract/store.js';
import { admits, waitOf } from '../../../src/contract/verdicts.js';
import { Slices } from '../../../src/stores/redis/local/slices.js';
import { sharedBy } from '../../../src/stores/redis/local/watched-keys.js';
import { Redis } from 'ioredis';
import { countedServer } from '../../support/counted-server.js';
import { startServer } from '../../support/servers.js';
import { servers } from '../../support/shared-servers.js';
import { clients, freshPrefix, limiterOn } from '../../support/stores.js';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;

describe('slices', function () {
  this.retries(2);

  const fixed: CreateLimiterOptions = { algorithm: 'fixed-window', limit: 100_000, window: '1h' };
  const stores: { close?: () => unknown }[] = [];
  const counted = countedServer();
  const callsOf = (work: () => Promise<unknown>): Promise<number> => counted.callsOf(work);
  // A slice left by an earlier test would be given back while the next test counts calls.
  afterEach(() => Promise.all(stores.splice(0).map((store) => store.close?.())));

  function make(options: CreateLimiterOptions = fixed, slices: SliceOptions = { hold: '1s' }): Limiter {
    const store = counted.store({ slices });
    stores.push(store);
    return limiterOn(store, options);
  }

  async function consume(limiter: Limiter, times: number): Promise<Decision[]> {
    const decisions: Decision[] = [];
    for (let i = 0; i < times; i++) {
      decisions.push(await limiter.consume('hot'));
      if (i % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    return decisions;
  }

  it('decide on a hot key without a call for most decisions, and count each once', async () => {
    const limiter = make();
    const calls = await callsOf(() => consume(limiter, 5_000));
    expect(calls).to.be.below(500);
    await stores.at(-1)!.close!();
    expect((await limiter.peek('hot')).remaining).to.equal(95_000);
  });

  it('give back the charge of one decision, from a slice or not', async () => {
    const limiter = make();
    const decisions = await consume(limiter, 100);
    for (const decision of decisions) await decision.refund();
    await stores.at(-1)!.close!();
    expect((await limiter.peek('hot')).remaining).to.equal(100_000);
  });

  it('do not come back by a refund of more units than were spent', async () => {
    const limiter = make();
    await consume(limiter, 300);
    await limiter.refund('hot', 1000);
    const again = await consume(limiter, 300);
    expect(again.every(({ allowed }) => allowed)).to.be.true;
    await stores.at(-1)!.close!();
    expect((await limiter.peek('hot')).remaining).to.equal(99_700);
  });

  it('give all units back after the hold time', async () => {
    const limiter = make(fixed, { hold: '20ms' });
    await consume(limiter, 200);
    while ((await limiter.peek('hot')).remaining !== 99_800)
      await new Promise((resolve) => setImmediate(resolve));
  });

  it('are forgotten by a reset', async () => {
    const limiter = make();
    await consume(limiter, 100);
    await limiter.reset('hot');
    expect((await limiter.consume('hot')).remaining).to.equal(99_999);
  });

  it('of another limiter stay', async () => {
    const limiter = make({ ...fixed, name: 'one' });
    const other = limiterOn(stores.at(-1) as Store, { ...fixed, name: 'other' });
    await consume(other, 100);
    const calls = await callsOf(async () => {
      await limiter.reset('hot');
      await consume(other, 20);
    });
    expect(calls).to.be.below(5);
  });

  describe('of a limiter with overrides', () => {
    for (const algorithm of ['fixed-window', 'sliding-window', 'token-bucket', 'gcra'] as const) {
      const live: CreateLimiterOptions = {
        name: 'live',
        algorithm,
        limit: 2_000,
        window: '1d',
        overrides: true,
      };
      const remainingUnits = async (limiter: Limiter) => (await limiter.peek('hot')).remaining;

      it(`${algorithm}: decide on keys without an override, and on others once it has ended`, async () => {
        const limiter = make(live);
        expect(await callsOf(() => consume(limiter, 500))).to.be.below(250);
        await limiter.override('hot', { limit: 20_000 });
        const [first] = await consume(limiter, 100);
        expect([first!.limit, first!.remaining]).to.deep.equal([20_000, 20_000 - 501]);
        expect(await remainingUnits(limiter)).to.equal(20_000 - 600);
        await limiter.removeOverride('hot');
        await new Promise((resolve) => setTimeout(resolve, 1_050));
        expect(await callsOf(() => consume(limiter, 500))).to.be.below(250);
        await stores.at(-1)!.close!();
        expect(await remainingUnits(limiter)).to.be.within(900, 901);
      });

      it(`${algorithm}: an override by another process holds within a second, and gives back no more than was charged`, async () => {
        const prefix = freshPrefix();
        const store = counted.store({ slices: { hold: '1s' }, prefix });
        stores.push(store);
        const limiter = limiterOn(store, live);
        await consume(limiter, 500);
        const other = limiterOn(counted.store({ prefix }), live);
        await other.override('hot', { limit: 600 });
        await new Promise((resolve) => setTimeout(resolve, 1_000));
        const admitted = (await consume(limiter, 400)).filter(({ allowed }) => allowed).length;
        expect(admitted).to.be.within(100, 101);
        await store.close!();
        expect(await remainingUnits(other)).to.be.within(0, 1);
        await other.removeOverride('hot');
        expect(await remainingUnits(other)).to.be.within(1_400, 1_402);
      });
    }
  });

  describe('of several policies', () => {
    const several: readonly Policy[] = [
      { name: 'sliding', limit: 100_000, window: '1d' },
      { name: 'fixed', algorithm: 'fixed-window', limit: 2_000, window: '1h' },
      // A unit in 36 s.
      { name: 'bucket', algorithm: 'token-bucket', limit: 100, window: '1h', burst: 3_000 },
    ];
    const remainingUnits = async (limiter: Limiter) =>
      (await limiter.peek('hot')).policies.map(({ remaining }) => remaining);

    it('charge, report and refund each policy', async () => {
      const limiter = make({ policies: several });
      let decisions: Decision[] = [];
      const calls = await callsOf(async () => (decisions = await consume(limiter, 1_000)));
      expect(calls).to.be.below(500);
      // The server decides until slices come, and the order of open decisions is unknown.
      for (const { policies } of decisions) {
        expect(policies.map(({ limit }) => limit)).to.deep.equal([100_000, 2_000, 100]);
        for (const { name, remaining } of policies) expect(remaining, name).to.be.at.least(0);
      }
      const remaining = decisions.at(-1)!.policies.map(({ remaining }) => remaining);
      expect([remaining[0]! - remaining[1]!, remaining[2]! - remaining[1]!]).to.deep.equal([98_000, 1_000]);
      await stores.at(-1)!.close!();
      expect(await remainingUnits(limiter)).to.deep.equal([99_000, 1_000, 2_000]);
      for (const decision of decisions.slice(100)) await decision.refund();
      expect(await remainingUnits(limiter)).to.deep.equal([99_900, 1_900, 2_900]);
    });

    it('admit no more than the lowest limit, whichever policy has it', async () => {
      for (const lowest of [0, 1, 2]) {
        const policies = several.map((policy, i) =>
          i === lowest
            ? { ...policy, limit: 40, window: '1d', ...('burst' in policy && { burst: 40 }) }
            : policy,
        ) as Policy[];
        const limiter = make({ policies });
        // In small steps, so that slices have time to come, and the last slice to be refused.
        const decisions: Decision[] = [];
        for (let i = 0; i < 20; i++) {
          decisions.push(...(await consume(limiter, 5)));
          await new Promise(setImmediate);
        }
        await stores.at(-1)!.close!();
        const admitted = decisions.filter(({ allowed }) => allowed).length;
        const rest = await remainingUnits(limiter);
        // Units that were held and not spent came back.
        expect(admitted + rest[lowest]!, policies[lowest]!.name).to.equal(40);
        expect(admitted).to.be.at.least(34);
        expect(rest.map((units) => units + admitted)).to.deep.equal(
          [100_000, 2_000, 3_000].map((limit, i) => (i === lowest ? 40 : limit)),
        );
      }
    });

    it('end with the first of their fixed windows', async () => {
      const { now } = performance;
      let time = 1000;
      performance.now = () => time;
      try {
        const { set } = createLimiter({
          policies: [
            { name: 'long', algorithm: 'fixed-window', limit: 1000, window: '1h' },
            { name: 'short', algorithm: 'fixed-window', limit: 1000, window: '1s' },
            { name: 'sliding', limit: 1000, window: '1s' },
          ],
        });
        const durations: number[] = [];
        const returned: (readonly number[])[] = [];
        const store = {
          decide: async ({ cost }: { cost: number }) => {
            durations.push(cost);
            return { now: 0, step: 0, ban: 0, verdicts: [0, 900, 3_600_000, 0, 900, 500, 0, 900, 1_450] };
          },
          giveBack: async (changes: readonly { units: readonly number[] }[]) => {
            returned.push(...changes.map(({ units }) => units));
          },
          reset: () => {},
        };
        const slices = new Slices(store as never, { size: 100, hold: 1_000 });
        const decide = (key: string) =>
          slices.decide({ set, key, cost: 1, peek: false, lease: '', call: newCall() });
        // A segment of the sliding window ends after 450 ms. The server's clock counts whole milliseconds, so the segment may end a millisecond
        // earlier.
        for (const [key, passed, calls] of [
          ['late', 448, 0],
          ['too late', 449, 1],
        ] as const) {
          // A slice must be worth a call: three decisions in the rest of the segment.
          for (let i = 0; i < 7; i++) await decide(key);
          expect(durations.splice(0)).to.deep.equal([1, 1, 1, 1, 1, 1, 3]);
          await decide(key);
          time += passed;
          await decide(key);
          expect(durations.splice(0)).to.have.length(calls);
        }
        await slices.close();
        expect(returned).to.have.length(2);
      } finally {
        performance.now = now;
      }
    });
  });

  describe('of several dimensions', () => {
    const policies = [
      'all=fixed-window 3_000/1h',
      'account=fixed-window 800/1h by account',
      'bucket=token-bucket 600/1d burst 900 by account',
      'org=sliding-window 2_400/1h by org',
    ];
    const hot = { key: 'hot', account: 'ada', org: 'acme' };
    const remainingUnits = async (limiter: Limiter, key: Key) =>
      (await limiter.peek(key)).policies.map(({ remaining }) => remaining);

    it('decide without a call once each key has a slice, and charge and give back to each', async () => {
      const limiter = make({ policies });
      const decisions: Decision[] = [];
      const calls = await callsOf(async () => {
        for (let i = 0; i < 500; i++) {
          decisions.push(await limiter.consume(hot));
          if (i % 20 === 0) await new Promise(setImmediate);
        }
      });
      expect(calls).to.be.below(250);
      expect(decisions.every(({ allowed }) => allowed)).to.be.true;
      for (const decision of decisions.slice(100)) await decision.refund();
      await stores.at(-1)!.close!();
      const [all, account, bucket, org] = await remainingUnits(limiter, hot);
      expect([all, account, org]).to.deep.equal([2_900, 700, 2_300]);
      // The bucket gets a unit in 144 s. A give-back leaves it the floor of a slice that is still held, which is less than a unit.
      expect(bucket).to.be.within(799, 800);
    });

    it('a key that is not hot, or has nothing left, costs a call, and the other keys nothing', async () => {
      const limiter = make({ policies });
      const cold = await callsOf(async () => {
        for (let i = 0; i < 60; i++) await limiter.consume({ ...hot, account: `a${i}` });
      });
      // On a slow machine, units of idle slices are given back meanwhile.
      expect(cold).to.be.within(60, 63);
      let admitted = 60;
      for (let i = 0; i < 900; i++) if ((await limiter.consume(hot)).allowed) admitted++;
      for (let i = 0; i < 50; i++) expect((await limiter.consume(hot)).allowed).to.be.false;
      await stores.at(-1)!.close!();
      const [all, account, , org] = await remainingUnits(limiter, hot);
      expect([all! + admitted, org! + admitted, account! + admitted - 60]).to.deep.equal([3_000, 2_400, 800]);
      expect(admitted).to.be.within(60 + 800 - 80, 60 + 800);
    });

    for (const slots of [{}, { slotBy: 'org' }, { slotBy: 'key' }] as { slotBy?: string }[]) {
      it(`two stores together admit each key's limit, no more: ${JSON.stringify(slots)}`, async () => {
        const prefix = freshPrefix();
        const slices = { size: 100, hold: '20ms' } as const;
        const opened = [1, 2].map(() => redisStore(clients.redis, { prefix, slices }));
        const limits = [
          'a=fixed-window 600/1h',
          'b=fixed-window 300/1h by account',
          'c=fixed-window 900/1h by org',
        ];
        const open = (store: Store, name: string) =>
          limiterOn(store, { policies: limits, name, timeout: '10s', ...slots });
        const limiters = opened.map((store) => open(store, 'shared'));
        // Scripts unknown to the server are sent twice, and later calls overtake the second time. This call makes all scripts known.
        await limiters[0]!.consume({ [slots.slotBy ?? 'key']: 'warm' });
        await limiters[0]!.refund({ [slots.slotBy ?? 'key']: 'warm' });
        const admitted = new Map<string, number>();
        const ask = async (i: number): Promise<void> => {
          const key: Record<string, string> = { key: `k${i % 2}`, account: `a${i % 5}`, org: `o${i % 2}` };
          // Some requests have no account, some no address.
          if (i % 7 === 0) delete key['account'];
          else if (i % 11 === 0) delete key['key'];
          const cost = 1 + (i % 3);
          const decision = await limiters[i % 2]!.consume(key, { cost });
          if (!decision.allowed) return;
          if (i % 5 === 0) return decision.refund();
          for (const [by, value] of Object.entries(key)) {
            const within = slots.slotBy && by !== slots.slotBy ? key[slots.slotBy] : '';
            const subject = JSON.stringify([by, value, within]);
            admitted.set(subject, (admitted.get(subject) ?? 0) + cost);
          }
        };
        for (let i = 0; i < 1_500; i += 50) {
          await Promise.all(Array.from({ length: 50 }, (_, n) => ask(i + n)));
        }
        for (const store of opened) await store.close?.();
        const plain = open(redisStore(clients.redis, { prefix }), 'shared');
        for (const [subject, units] of admitted) {
          const [by, value, within] = JSON.parse(subject) as [string, string, string | null];
          const key = {
            [by]: value,
            ...(slots.slotBy && by !== slots.slotBy && { [slots.slotBy]: within ?? undefined }),
          };
          const { policies: verdicts } = await plain.peek(key);
          const { limit, remaining } = verdicts.find((verdict) => verdict.key === value)!;
          // Never more than the limit. On a busy machine a slice may end before its rest is given back, and the rest counts until the window ends.
          expect(units + remaining, subject).to.be.within(limit - 60, limit);
        }
        await plain.close();
      });
    }

    it('are forgotten by a reset of the key, in all tiers, and not by a reset of another key', async () => {
      const limiter = make({ policies, tiers: { pro: ['all=fixed-window 9_000/1h', policies[1]!] } });
      for (let i = 0; i < 100; i++) {
        await limiter.consume(hot);
        await limiter.consume(hot, { tier: 'pro' });
      }
      await limiter.reset({ account: 'ada' });
      await limiter.consume({ account: 'ada' });
      await stores.at(-1)!.close!();
      expect(await remainingUnits(limiter, hot)).to.deep.equal([2_800, 799, 899, 2_300]);
    });
  });

  const unfit: Record<string, CreateLimiterOptions> = {
    concurrency: { algorithm: 'concurrency', limit: 1_000, lease: '1h' },
    'a log': { algorithm: 'sliding-log', limit: 1_000, window: '1h' },
    'a delay': { algorithm: 'leaky-bucket', limit: 1_000, window: '1s', maxDelay: '1s' },
    'a limit below 30': { limit: 29, window: '1h' },
    'one policy of them': { policies: ['a=fixed-window 1_000/1h', 'b=sliding-log 1_000/1h'] },
  };
  for (const [what, options] of Object.entries(unfit)) {
    it(`leave limiters with ${what} to the store`, async () => {
      const limiter = make(options);
      await limiter.consume('first');
      expect(await callsOf(() => consume(limiter, 18))).to.equal(18);
    });
  }

  describe('policies that count together', () => {
    const size = 20;
    /** The units that are charged to a key of a limit and were not admitted. */
    const heldOf = async (store: Store, options: CreateLimiterOptions, admitted: number): Promise<number> => {
      const { limit, remaining } = await limiterOn(store, options).peek('hot');
      return limit - remaining - admitted;
    };
    const options: CreateLimiterOptions = { ...fixed, name: 'together' };
    const tiers = Object.fromEntries(
      Array.from({ length: 8 }, (_, i) => [`t${i}`, [`default=fixed-window ${100_000 + i}/1h`]]),
    );
    const ways: Record<string, (stores: Store[]) => ((i: number) => Promise<Decision>)[]> = {
      'limiters of a name': ([store]) =>
        Array.from({ length: 8 }, () => {
          const limiter = limiterOn(store!, options);
          return () => limiter.consume('hot');
        }),
      'tiers of a limiter': ([store]) => {
        const limiter = limiterOn(store!, { name: 'together', policies: tiers['t0']!, tiers });
        return Object.keys(tiers).map((tier) => () => limiter.consume('hot', { tier }));
      },
      'stores on one client': (all) =>
        all.map((store) => {
          const limiter = limiterOn(store, options);
          return () => limiter.consume('hot');
        }),
    };
    for (const [what, open] of Object.entries(ways)) {
      it(`has one slice in a process: ${what}`, async () => {
        const prefix = freshPrefix();
        const opened = Array.from({ length: 8 }, () =>
          redisStore(counted.client, { prefix, publish: false, slices: { size, hold: '1s' } }),
        );
        const askers = open(opened);
        let admitted = 0;
        const plain = redisStore(counted.client, { prefix, publish: false });
        const held: number[] = [];
        for (let i = 0; i < 400; i++) {
          if ((await askers[i % 8]!(i)).allowed) admitted++;
          if (i % 27 === 0) held.push(await heldOf(plain, options, admitted));
        }
        expect(Math.max(...held)).to.be.within(5, size);
        for (const store of opened) await store.close?.();
        expect(await heldOf(plain, options, admitted)).to.equal(0);
        expect(admitted).to.equal(400);
      });
    }

    it('is spent by a tier only up to its own limit', async () => {
      const shape = (limit: number) => [`default=fixed-window ${limit}/1h`];
      const limiter = make({ policies: shape(1_000), tiers: { free: shape(60), pro: shape(1_000) } });
      const verdicts: boolean[] = [];
      for (let i = 0; i < 150; i++) {
        await limiter.consume('hot', { tier: 'pro' });
        verdicts.push((await limiter.consume('hot', { tier: 'free' })).allowed);
      }
      expect(verdicts.slice(0, 20).every(Boolean)).to.be.true;
      expect(verdicts.filter(Boolean).length).to.be.at.most(60);
      expect(verdicts.slice(60)).to.not.include(true);
    });
  });

  it('count denials towards a ban as without slices, and end with it', async () => {
    const limiter = make({ limit: 60, window: '1h', ban: { after: 3, within: '1h', for: '1h' } });
    const decisions = await consume(limiter, 70);
    const reasons = decisions.map(({ allowed, reason }) => (allowed ? 'allowed' : reason));
    const denied = reasons.filter((reason) => reason !== 'allowed');
    expect(reasons.lastIndexOf('allowed') - denied.length).to.be.below(60);
    expect(denied.indexOf('banned')).to.be.within(2, 3);
    expect(denied.lastIndexOf('quota-exceeded')).to.be.below(3);
  });

  it('charge attempts that another policy denies, and a shadow as if it decided', async () => {
    const limiter = make({
      policies: [
        { name: 'few', algorithm: 'fixed-window', limit: 60, window: '1h' },
        { name: 'tries', algorithm: 'fixed-window', limit: 1_000, window: '1h', count: 'attempts' },
        { name: 'seen', algorithm: 'fixed-window', limit: 40, window: '1h', shadow: true },
      ],
    });
    const decisions = await consume(limiter, 100);
    expect(decisions.filter(({ allowed }) => allowed)).to.have.length(60);
    const shadows = decisions.map(({ policies }) => policies[2]!.allowed);
    expect([shadows.filter(Boolean).length, shadows.lastIndexOf(true)]).to.deep.equal([40, 39]);
    await stores.at(-1)!.close!();
    const { policies } = await limiter.peek('hot');
    expect(policies.map(({ remaining }) => remaining)).to.deep.equal([0, 900, 0]);
  });

  describe('end with a ban by the denial of a request', () => {
    const banning = { ban: { after: 1, within: '1h', for: '1h' } } as const;
    const several: readonly Policy[] = [
      { name: 'day', algorithm: 'fixed-window', limit: 50, window: '1d' },
      { name: 'week', algorithm: 'fixed-window', limit: 50, window: '7d' },
    ];
    const cases: Record<string, [CreateLimiterOptions, Parameters<Limiter['consume']>[1]]> = {
      'that costs more than a slice has': [{ limit: 50, window: '1d', ...banning }, { cost: 13 }],
      'whose costs differ by policy': [{ policies: several, ...banning }, { cost: { day: 13, week: 12 } }],
      'of another tier': [
        {
          policies: [several[0]!],
          tiers: { pro: [{ name: 'log', algorithm: 'sliding-log', limit: 3, window: '1d' }] },
          ...banning,
        },
        { tier: 'pro' },
      ],
      'with an id': [
        { limit: 50, window: '1d', idsFor: '1m', ...banning },
        { id: 'i', cost: 51 },
      ],
    };
    for (const [name, [options, request]] of Object.entries(cases))
      it(name, async () => {
        const limiter = make(options);
        await consume(limiter, 4);
        let last = await limiter.consume('hot', request);
        for (let i = 0; i < 3 && last.allowed; i++) last = await limiter.consume('hot', request);
        expect(last.allowed).to.equal(false);
        const reasons = (await consume(limiter, 3)).map(({ reason }) => reason);
        expect(reasons).to.deep.equal(['banned', 'banned', 'banned']);
      });
  });

  it('of other keys go on while a banned key sends requests', async () => {
    const limiter = make({
      policies: [
        { name: 'each', algorithm: 'fixed-window', limit: 10_000, window: '1d', by: 'address' },
        { name: 'all', algorithm: 'fixed-window', limit: 10_000, window: '1d', by: 'org' },
      ],
      ban: { after: 1_000, within: '1h', for: '1h', by: 'address' },
    });
    await limiter.ban({ address: 'bad' }, '1h');
    const ask = (address: string) => limiter.consume({ address, org: 'o' });
    for (let i = 0; i < 100; i++) await ask('good');
    const calls = await callsOf(async () => {
      for (let i = 0; i < 300; i++) {
        expect((await ask('good')).allowed).to.equal(true);
        expect((await ask('bad')).reason).to.equal('banned');
      }
    });
    expect(calls).to.be.below(150);
  });

  it('end within a second after another process resets or bans the key', async () => {
    const prefix = freshPrefix();
    const options: CreateLimiterOptions = {
      ...fixed,
      ban: { after: 1_000, within: '1h', for: '1h' },
      name: 'far',
    };
    const store = redisStore(clients.redis, { prefix, slices: { hold: '500ms' } });
    stores.push(store);
    const limiter = limiterOn(store, options);
    const client = new Redis(servers.redis.port);
    const other = limiterOn(redisStore(client, { prefix, publish: false }), options);
    const busy = async (ms: number): Promise<Decision> => {
      const end = Date.now() + ms;
      for (;;) {
        const [decision] = (await consume(limiter, 20)).slice(-1);
        if (Date.now() > end) return decision!;
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    };
    await limiter.consume('hot', { cost: 50_000 });
    expect((await busy(300)).remaining).to.be.below(50_000);
    await other.reset('hot');
    expect((await busy(600)).remaining).to.be.above(95_000);
    await other.ban('hot', '1h');
    expect((await busy(700)).reason).to.equal('banned');
    await other.unban('hot');
    expect((await busy(1_000)).allowed).to.be.true;
    client.disconnect();
  });

  it('are given back once requests have stopped, long before the hold time is over', async () => {
    const limiter = make();
    await consume(limiter, 3_000);
    const plain = async (): Promise<number> => (await limiter.peek('hot')).remaining;
    expect(await plain()).to.be.below(97_000);
    const quiet = Date.now();
    while ((await plain()) !== 97_000) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(Date.now() - quiet).to.be.below(500);
  });

  it('move to the process that has all the demand', async () => {
    const prefix = freshPrefix();
    const connections = Array.from({ length: 16 }, () => new Redis(servers.redis.port));
    try {
      const opened = connections.map((client) =>
        redisStore(client, { prefix, slices: true, publish: false }),
      );
      const options: CreateLimiterOptions = {
        algorithm: 'fixed-window',
        limit: 600,
        window: '2s',
        timeout: '10s',
      };
      const limiters = opened.map((store) => limiterOn(store, { ...options, name: 'fair' }));
      let admitted = 0;
      const ask = async (limiter: Limiter): Promise<void> => {
        if ((await limiter.consume('hot')).allowed) admitted++;
      };
      for (let i = 0; i < 10; i++) await Promise.all(limiters.map(ask));
      const end = Date.now() + 1_500;
      while (Date.now() < end) {
        await Promise.all(Array.from({ length: 10 }, () => ask(limiters[0]!)));
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      expect(admitted).to.be.within(588, 600);
      for (const store of opened) await store.close?.();
    } finally {
      for (const client of connections) client.disconnect();
    }
  });

  it('forget policies of a single request, which have no slices', async () => {
    const limiter = make(fixed, { hold: '20ms' });
    const sets = Array.from({ length: 100 }, (_, i) => {
      const set = limiter.compile([{ name: `p${i}`, limit: 2, window: '1h' }]);
      void limiter.decide('key', 1, set);
      return new WeakRef(set);
    });
    // The most recent sets are kept.
    const kept = 5;
    for (let alive = sets.length; alive > kept; alive = sets.filter((set) => set.deref()).length) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      gc();
    }
  });

  it('refuse invalid options', () => {
    for (const slices of [{ size: 1 }, { size: 1.5 }, { hold: '2s' }, { hold: 0 }, { units: 5 }, 5, null])
      expect(() => redisStore(clients.redis, { slices: slices as SliceOptions })).to.throw(
        /redisStore\.slices/,
      );
    expect(() => redisStore(clients.redis, { slices: true, clock: Date.now })).to.throw(/clock/);
    expect(() => redisStore(clients.redis, { lease: {} } as object)).to.throw(/slices/);
  });
});

it('slices: end with their connection, so that a server which lost its data admits its limit', async () => {
  const server = await startServer('redis');
  const client = new Redis(server.port);
  const store = redisStore(client, { slices: { hold: '1s' }, publish: false });
  const limiter = limiterOn(store, { algorithm: 'fixed-window', limit: 2_000, window: '1h', timeout: '10s' });
  const ask = async (): Promise<number> => {
    let admitted = 0;
    for (let i = 0; i < 2_500; i++) {
      if ((await limiter.consume('hot')).allowed) admitted++;
      if (i % 50 === 0) await new Promise(setImmediate);
    }
    return admitted;
  };
  try {
    for (let i = 0; i < 500; i++) await limiter.consume('hot');
    // This process sees another server.
    const lost = new Promise((resolve) => client.once('ready', resolve));
    await client.flushall();
    await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'no').catch(() => {});
    await lost;
    expect(await ask()).to.be.within(1_990, 2_000);
  } finally {
    await store.close!();
    client.disconnect();
    await server.stop();
  }
});

it('slices: units that wait to be given back end with their connection, too', async () => {
  const server = await startServer('redis');
  const [client, other] = [new Redis(server.port), new Redis(server.port)];
  const options: CreateLimiterOptions = {
    algorithm: 'token-bucket',
    limit: 1_000,
    window: '1h',
    timeout: '10s',
  };
  const sliced = redisStore(client, { slices: { hold: '1s' }, publish: false });
  const limiter = limiterOn(sliced, options);
  const beside = limiterOn(redisStore(other, { publish: false }), options);
  try {
    for (let i = 0; i < 500; i++) await limiter.consume('hot');
    void limiter.reset('hot');
    // `once` of node:events would fail by the error of the connection that is cut.
    const ready = new Promise((resolve) => client.once('ready', resolve));
    await other.flushall();
    await other.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    // The next server knows only these units.
    expect((await beside.consume('hot', { cost: 1_000 })).allowed).to.equal(true);
    await ready;
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect((await beside.peek('hot')).remaining).to.equal(0);
  } finally {
    await sliced.close!();
    client.disconnect();
    other.disconnect();
    await server.stop();
  }
});

it('slices: of several servers, only those of the lost one end', async () => {
  let lose: (server: string | undefined) => void = () => {};
  const shared = sharedBy({ onLost: (listener: typeof lose) => (lose = listener) } as never);
  const asked: string[] = [];
  const store = {
    decide: async ({ key }: { key: string }) => {
      asked.push(key);
      return { now: 0, step: 0, ban: 0, verdicts: [0, 90_000, 3_600_000] };
    },
    serverOf: ({ key }: { key: string }) => (key === 'unknown' ? undefined : key),
    giveBack: async () => {},
  };
  const slices = new Slices(store as never, { size: 10_000, hold: 1_000 }, shared);
  const { set } = createLimiter({ algorithm: 'fixed-window', limit: 100_000, window: '1h' });
  const keys = ['a', 'b', 'unknown'];
  const decide = (key: string) =>
    slices.decide({ set, key, cost: 1, peek: false, lease: '', call: newCall() });
  const askedAfter = async (server: string | undefined): Promise<readonly string[]> => {
    for (let i = 0; i < 50; i++) for (const key of keys) await decide(key);
    lose(server);
    asked.length = 0;
    for (const key of keys) await decide(key);
    return asked.slice();
  };
  expect(await askedAfter('other')).to.deep.equal(['unknown']);
  expect(await askedAfter('a')).to.deep.equal(['a', 'unknown']);
  expect(await askedAfter(undefined)).to.deep.equal(keys);
  await slices.close();
});

it('slices: a process that asks alone gets its whole limit, although slices end before they are spent', async () => {
  const server = memoryStore();
  const store = {
    decide: async (query: Query) => server.decide(query),
    giveBack: async (changes: readonly ChargeChange[]) =>
      changes.forEach((change) => void server.adjust(change)),
  };
  const slices = new Slices(store as never, { size: 10_000, hold: 100 });
  const { set } = createLimiter({ algorithm: 'fixed-window', limit: 2_000, window: '1h' });
  const { now } = performance;
  let passed = 0;
  performance.now = () => now.call(performance) + passed;
  try {
    for (const asksPerPause of [300, 77, 50, 31, 20]) {
      let admitted = 0;
      const key = String(asksPerPause);
      const ask = async (): Promise<boolean> => {
        const reply = await slices.decide({ set, key, cost: 1, peek: false, lease: '', call: newCall() });
        return admits(waitOf(reply.verdicts, 0));
      };
      // The process pauses for longer than slices last.
      while (await ask()) if (++admitted % asksPerPause === 0) passed += 200;
      expect(admitted, key).to.equal(2_000);
    }
  } finally {
    performance.now = now;
    await slices.close();
  }
});

it('slices: a store closes while its server hangs', async () => {
  const server = await startServer('redis');
  const client = new Redis(server.port, { lazyConnect: false });
  const store = redisStore(client, { slices: { size: 100 } });
  const limiter = limiterOn(store, { policies: 'fixed-window 10000/1h', timeout: '200ms' });
  for (let i = 0; i < 100; i++) await limiter.consume('hot');
  await server.kill('SIGSTOP');
  try {
    await store.close!();
    await limiter.close();
  } finally {
    await server.kill('SIGCONT');
    client.disconnect();
    await server.stop();
  }
});
