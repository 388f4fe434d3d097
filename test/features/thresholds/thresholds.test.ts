import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { expect } from 'chai';
import { Cluster } from 'ioredis';
import {
  createLimiter,
  memoryStore,
  parsePolicy,
  policyText,
  type Policy,
  type Store,
  type ThresholdEvent,
} from 'headgate';
import { createAdmin } from 'headgate/admin';
import { rateLimited } from 'headgate/decorators';
import { rateLimit } from 'headgate/express';
import { limitFetch } from 'headgate/fetch';
import { redisStore } from 'headgate/redis';
import { clients, freshPrefix, stores, TestClock } from '../../support/stores.js';
import { codeThrownBy } from '../../support/errors.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** The events of a limiter, shortened. */
function listen() {
  const events: ThresholdEvent[] = [];
  const take = () => events.splice(0).map(({ threshold, used }) => `${threshold} at ${used}`);
  return { events, take, onThreshold: (event: ThresholdEvent) => void events.push(event) };
}

const windows: readonly (readonly [policy: Policy, windowMs: number])[] = [
  [{ algorithm: 'fixed-window', limit: 10, window: '1h' }, HOUR],
  [{ algorithm: 'sliding-window', limit: 10, window: '1h' }, HOUR + HOUR / 10],
  [{ algorithm: 'sliding-log', limit: 10, window: '1h' }, HOUR],
  [{ algorithm: 'calendar', limit: 10, period: 'hour' }, HOUR],
  [{ algorithm: 'token-bucket', limit: 100, window: '10h', burst: 10 }, HOUR],
  [{ algorithm: 'concurrency', limit: 10, lease: '1h' }, HOUR],
];

for (const [name, createStore] of Object.entries(stores)) {
  describe(`thresholds, on ${name}`, () => {
    const make = (options: object) => {
      const clock = new TestClock();
      const store = createStore(clock.read);
      const heard = listen();
      const common = { name: 'plan', store, onThreshold: heard.onThreshold, warnings: false, timeout: '10s' };
      const limiters = [1, 2].map(() => createLimiter({ ...common, ...options } as never));
      return { clock, store, one: limiters[0]!, other: limiters[1]!, ...heard };
    };

    for (const [policy, windowMs] of windows)
      it(`${policy.algorithm!}: one limiter of two reports, again after the window`, async () => {
        const { clock, one, other, events, take } = make({ policies: [{ ...policy, thresholds: [0.8, 1] }] });
        clock.now = Math.ceil(clock.now / HOUR) * HOUR;
        const spend = async (units: number) => {
          for (let i = 0; i < units; i++) await (i % 2 === 0 ? one : other).consume('k');
        };
        await spend(7);
        expect(take()).to.deep.equal([]);
        await spend(1);
        expect(events).to.have.length(1);
        expect(events[0]).to.deep.include({ limiter: 'plan', policy: 'default', key: 'k', threshold: 0.8 });
        expect(events[0]).to.deep.include({ used: 8, limit: 10 });
        expect(events[0]!.resetAfterMs).to.be.within(0.8 * HOUR, windowMs);
        expect(take()).to.deep.equal(['0.8 at 8']);
        await spend(5);
        expect(take()).to.deep.equal(['1 at 10']);
        clock.now += windowMs;
        await spend(10);
        expect(take()).to.deep.equal(['0.8 at 8', '1 at 10']);
      });

    it('one charge that crosses several reports each of them, in order', async () => {
      const { one, take } = make({ limit: 10, window: '1h', thresholds: [1, 0.5, 0.8] });
      await one.consume('k', { cost: 10 });
      expect(take()).to.deep.equal(['0.5 at 10', '0.8 at 10', '1 at 10']);
    });

    it('denials, looks and returns report nothing', async () => {
      const { one, take } = make({ limit: 10, window: '1h', thresholds: [0.5] });
      await one.peek('k', { cost: 9 });
      await one.consume('k', { cost: 11 });
      await one.consume('k', { cost: 0 });
      await one.usage('k');
      await one.consume('k', { cost: 4 });
      await one.refund('k', 4);
      expect(take()).to.deep.equal([]);
    });

    it('settle and refund that cross back and forth report once', async () => {
      const { one, other, take } = make({ limit: 10, window: '1h', thresholds: [0.8] });
      const decision = await one.consume('k', { cost: 7 });
      for (const units of [9, 2, 8, 10, 0, 9]) await decision.settle(units);
      await one.refund('k', 9);
      await other.consume('k', { cost: 9 });
      expect(take()).to.deep.equal(['0.8 at 9']);
    });

    it('a raised limit reports again only when its own fraction is crossed; a lowered one does not', async () => {
      const { one, take } = make({
        algorithm: 'fixed-window',
        limit: 10,
        window: '1h',
        thresholds: [0.8],
        overrides: true,
      });
      await one.consume('k', { cost: 8 });
      await one.override('k', { limit: 100 }, { for: '10m' });
      await one.consume('k', { cost: 71 });
      expect(take()).to.deep.equal(['0.8 at 8']);
      await one.consume('k');
      expect(take()).to.deep.equal(['0.8 at 80']);
      await one.override('k', { limit: 90 }, { for: '10m' });
      await one.consume('k');
      await one.removeOverride('k');
      expect(take()).to.deep.equal([]);
    });

    it('the window ends by the last report, also if a bucket drains faster than at an earlier one', async () => {
      const policy = { algorithm: 'token-bucket', limit: 6, burst: 3, window: '1m', thresholds: [0.5] };
      const { one, take, clock } = make({ policies: [policy], overrides: true });
      await one.override('k', { limit: 1 });
      await one.consume('k');
      expect(take()).to.deep.equal(['0.5 at 1']);
      await one.removeOverride('k');
      await one.consume('k');
      expect(take()).to.deep.equal(['0.5 at 2']);
      clock.advance(MINUTE / 3);
      await one.consume('k', { cost: 2 });
      expect(take()).to.deep.equal(['0.5 at 2']);
    });

    it('a limit lowered below the used units reports at the next charge', async () => {
      const { one, take } = make({
        algorithm: 'fixed-window',
        limit: 100,
        window: '1h',
        thresholds: [0.8],
        overrides: true,
      });
      const decision = await one.consume('k', { cost: 50 });
      await one.override('k', { limit: 20 }, { for: '10m' });
      await decision.settle(51);
      expect(take()).to.deep.equal(['0.8 at 20']);
    });

    it('reset begins a new window', async () => {
      const { one, take } = make({ limit: 10, window: '1h', thresholds: [0.8] });
      for (let i = 0; i < 2; i++) {
        await one.consume('k', { cost: 8 });
        await one.reset('k');
      }
      expect(take()).to.deep.equal(['0.8 at 8', '0.8 at 8']);
    });

    it('a repetition of an id reports nothing', async () => {
      const { one, other, take } = make({ limit: 10, window: '1h', thresholds: [0.8] });
      for (const limiter of [one, other, one]) await limiter.consume('k', { cost: 8, id: 'a' });
      expect(take()).to.deep.equal(['0.8 at 8']);
    });

    it('tiers: each has thresholds of its own limit', async () => {
      const { one, take } = make({
        tiers: {
          free: [{ algorithm: 'fixed-window', limit: 10, window: '1h', thresholds: [0.8] }],
          pro: [{ algorithm: 'fixed-window', limit: 100, window: '1h', thresholds: [0.8] }],
        },
      });
      await one.consume('k', { cost: 8, tier: 'free' });
      await one.consume('k', { cost: 72, tier: 'pro' });
      expect(take()).to.deep.equal(['0.8 at 8', '0.8 at 80']);
    });

    it('policies by other dimensions report their own key, shadows and attempts too', async () => {
      const { one, events } = make({
        policies: [
          { name: 'ip', algorithm: 'fixed-window', limit: 2, window: '1h' },
          { name: 'org', algorithm: 'fixed-window', limit: 3, window: '1h', by: 'org', thresholds: [1] },
          {
            name: 'try',
            algorithm: 'fixed-window',
            limit: 4,
            window: '1h',
            count: 'attempts',
            thresholds: [1],
          },
          { name: 'dark', algorithm: 'fixed-window', limit: 1, window: '1h', shadow: true, thresholds: [1] },
        ],
      });
      for (const key of ['a', 'a', 'a', 'a', 'b']) await one.consume({ key, org: 'acme' });
      const shown = events.map(({ policy, key, used }) => `${policy} of ${key} at ${used}`);
      expect(shown).to.deep.equal(['dark of a at 1', 'try of a at 4', 'org of acme at 3', 'dark of b at 1']);
    });
  });
}

describe('thresholds', () => {
  it('as text, with the canonical text', () => {
    expect(parsePolicy('calendar 10000/month thresholds 80% 100%')).to.deep.equal({
      ...{ algorithm: 'calendar', limit: 10_000, period: 'month', thresholds: [0.8, 1] },
    });
    expect(policyText({ limit: 10, window: '1m', thresholds: [1, 0.5, 0.125] })).to.equal(
      '10/1m thresholds 12.5% 50% 100%',
    );
    expect(policyText('10/1m thresholds 12.5% shadow')).to.equal('10/1m shadow thresholds 12.5%');
  });

  for (const thresholds of [[], [0], [1.1], [0.0001], [NaN], ['0.8'], 0.8, '80%', Array(11).fill(0.5)])
    it(`refuses ${JSON.stringify(thresholds)}`, () => {
      const make = () => createLimiter({ limit: 1, window: '1m', thresholds } as never);
      expect(codeThrownBy(make)).to.equal('HEADGATE_INVALID_OPTION');
    });

  for (const text of ['thresholds', 'thresholds 80', 'thresholds shadow', 'thresholds 200%'])
    it(`refuses the text '10/1m ${text}'`, () => {
      expect(codeThrownBy(() => parsePolicy(`10/1m ${text}`))).to.equal('HEADGATE_INVALID_OPTION');
    });

  it('limiters of one name must have equal thresholds', () => {
    const store = memoryStore();
    createLimiter({ name: 'a', store, policies: '10/1m thresholds 80%' });
    const other = () => createLimiter({ name: 'a', store, policies: '10/1m' });
    expect(codeThrownBy(other)).to.equal('HEADGATE_POLICY_MISMATCH');
  });

  it('publishes on headgate:threshold, and a function that throws fails no request', async () => {
    const messages: unknown[] = [];
    const hear = (message: unknown) => messages.push(message);
    subscribe('headgate:threshold', hear);
    const warned = new Promise<Error>((resolve) => process.once('warning', resolve));
    const limiter = createLimiter({
      ...{ limit: 2, window: '1m', thresholds: [0.5] },
      onThreshold: () => {
        throw new Error('no mail server');
      },
    });
    expect((await limiter.consume('k')).allowed).to.equal(true);
    unsubscribe('headgate:threshold', hear);
    expect(messages).to.have.length(1);
    expect(messages[0]).to.deep.include({ limiter: 'default', key: 'k', threshold: 0.5, used: 1, limit: 2 });
    expect((await warned).message).to.include('no mail server');
  });

  it('onThreshold without thresholds is refused, and policies of a request may have them', () => {
    const [onThreshold, plain, reporting] = [() => {}, '5/1m', '5/1m thresholds 80%'] as const;
    for (const make of [
      (options: object) => createLimiter({ onThreshold, ...options } as never),
      (options: object) => rateLimit({ onThreshold, ...options }).limiter,
      (options: object) => limitFetch(fetch, { onThreshold, ...options } as never),
      (options: object) => rateLimited(() => {}, { onThreshold, ...options } as never),
    ]) {
      for (const options of [{ policies: plain }, { tiers: { free: plain }, policies: [plain] }])
        expect(() => make(options)).to.throw(
          /^onThreshold: no policy has thresholds.*thresholds: \[0\.8, 1\]/,
        );
      make({ policies: [reporting] });
    }
    createLimiter({ onThreshold, tiers: { free: plain, pro: reporting } });
    rateLimit({ onThreshold, policies: () => [reporting] });
  });

  it('with slices, limiters with thresholds ask the store, which counts every unit once', async () => {
    const store = redisStore(clients.redis, { prefix: freshPrefix(), slices: true });
    const { onThreshold, take } = listen();
    const limiter = createLimiter({
      store,
      limit: 1000,
      window: '1h',
      thresholds: [0.5],
      onThreshold,
      timeout: '10s',
    });
    for (let i = 0; i < 499; i++) await limiter.consume('hot');
    expect(take()).to.deep.equal([]);
    await limiter.consume('hot');
    expect(take()).to.deep.equal(['0.5 at 500']);
    await store.close?.();
  });

  it('the substitute of a store that is down reports nothing', async () => {
    const inner = memoryStore();
    let isDown = false;
    const down = new Error('down');
    const store = {
      ...{ remembersIds: true, embedded: false },
      decide: async (query: never) => (isDown ? Promise.reject(down) : inner.decide(query)),
      adjust: async (change: never) => inner.adjust(change),
      lease: async (change: never) => inner.lease(change),
      reset: async (subject: never) => inner.reset(subject),
      ban: async (subject: never, ms: number) => inner.ban(subject, ms),
    } as unknown as Store;
    const { onThreshold, take } = listen();
    const limiter = createLimiter({
      store,
      limit: 10,
      window: '1h',
      thresholds: [0.5],
      onThreshold,
      warnings: false,
    });
    await limiter.consume('k', { cost: 4 });
    isDown = true;
    expect((await limiter.consume('k', { cost: 9 })).degraded).to.equal(true);
    expect(take()).to.deep.equal([]);
    await limiter.close();
  });

  it('an answer that comes too late is still reported', async () => {
    const inner = memoryStore();
    let release = (): void => {};
    const late = new Promise<void>((resolve) => (release = resolve));
    const store = {
      ...{ embedded: false },
      decide: async (query: never) => late.then(() => inner.decide(query)),
      adjust: async (change: never) => inner.adjust(change),
      lease: async (change: never) => inner.lease(change),
      reset: async (subject: never) => inner.reset(subject),
      ban: async (subject: never, ms: number) => inner.ban(subject, ms),
    } as unknown as Store;
    const { onThreshold, take } = listen();
    const options = { timeout: '1ms', connectTimeout: '1ms', onStoreError: 'deny', warnings: false } as const;
    const limiter = createLimiter({
      store,
      limit: 2,
      window: '1h',
      thresholds: [0.5],
      onThreshold,
      ...options,
    });
    expect((await limiter.consume('k')).allowed).to.equal(false);
    release();
    await limiter.close();
    await new Promise(setImmediate);
    expect(take()).to.deep.equal(['0.5 at 1']);
  });
});

describe('the stream of thresholds', () => {
  const kinds: Record<string, (clock?: () => number) => Store> = {
    memory: (clock) => memoryStore({ thresholds: 'stream', ...(clock && { clock }) }),
    redis: () => redisStore(clients.redis, { prefix: freshPrefix(), thresholds: 'stream' }),
  };
  for (const [kind, create] of Object.entries(kinds)) {
    it(`${kind}: each group reads each crossing until it acknowledges it`, async () => {
      const store = create();
      const limiter = createLimiter({
        ...{ name: 'plan', store, timeout: '10s' },
        policies: [
          {
            name: 'month',
            algorithm: 'calendar',
            limit: 10,
            period: 'month',
            by: 'org',
            thresholds: [0.8, 1],
          },
          { name: 'minute', limit: 5, window: '1m', thresholds: [1] },
        ],
      });
      for (const key of ['a', 'a', 'a', 'a', 'a', 'b', 'b', 'b', 'b', 'b'])
        await limiter.consume({ key, org: 'acme {1}' });
      const admin = createAdmin(store);
      const mail = admin.thresholds({ group: 'mail' });
      const first = await mail.read({ count: 2 });
      const rest = await admin.thresholds({ group: 'mail' }).read();
      expect(await mail.read()).to.deep.equal([]);
      const shown = [...first, ...rest].map(
        ({ name, dimension, key, policy, threshold, used, limit }) =>
          `${name as string} ${policy} ${dimension ?? 'key'}=${key as string} ${threshold}: ${used}/${limit}`,
      );
      expect(shown).to.deep.equal([
        'plan minute key=a 1: 5/5',
        'plan month org=acme {1} 0.8: 8/10',
        ...['plan month org=acme {1} 1: 10/10', 'plan minute key=b 1: 5/5'],
      ]);
      expect(first[0]!.at).to.be.instanceOf(Date);
      expect(first[0]!.resetAfterMs).to.be.above(0);
      const billing = await admin.thresholds({ group: 'billing' }).read();
      expect(billing.map(({ id }) => id)).to.deep.equal([...first, ...rest].map(({ id }) => id));
      await mail.ack(...first, rest[0]!);
      await admin.close();
      await store.close?.();
    });
  }

  for (const kind of ['memory'])
    it(`${kind}: a crossing that is not acknowledged is read again`, async () => {
      const clock = new TestClock();
      const store = kinds[kind]!(clock.read);
      const limiter = createLimiter({ store, limit: 4, window: '1h', thresholds: [0.5, 1], timeout: '10s' });
      await limiter.consume('k', { cost: 4 });
      const reader = createAdmin(store).thresholds({ group: 'mail', redeliverAfter: '30s' });
      const [half, whole] = await reader.read();
      await reader.ack(half!);
      clock.now += 29_999;
      expect(await reader.read()).to.deep.equal([]);
      clock.now += 1;
      expect(await reader.read()).to.deep.equal([whole]);
      await reader.ack(whole!);
      clock.now += HOUR;
      expect(await reader.read()).to.deep.equal([]);
      await store.close?.();
    });

  it('refuses to acknowledge an array, which would do nothing', async () => {
    const store = memoryStore({ thresholds: 'stream' });
    const limiter = createLimiter({ store, limit: 1, window: '1h', thresholds: [1] });
    await limiter.consume('k');
    const reader = createAdmin(store).thresholds({ group: 'mail' });
    const crossings = await reader.read();
    for (const wrong of [crossings, crossings[0]!.id, undefined, {}]) {
      const error = await reader.ack(wrong as never).catch((reason: unknown) => reason);
      expect(error).to.include({ code: 'HEADGATE_INVALID_OPTION' });
    }
    await reader.ack(...crossings);
    await store.close?.();
  });

  it('redis: a crossing that is not acknowledged is read again, and the stream expires', async () => {
    const prefix = freshPrefix();
    const store = redisStore(clients.redis, { prefix, thresholds: 'stream' });
    const limiter = createLimiter({ store, limit: 4, window: '1h', thresholds: [0.5, 1], timeout: '10s' });
    await limiter.consume('k', { cost: 4 });
    const admin = createAdmin(store);
    const reader = admin.thresholds({ group: 'mail', redeliverAfter: '1s' });
    const [half, whole] = await reader.read();
    await reader.ack(half!);
    expect(await clients.redis.pttl(`${prefix}:{thresholds}`)).to.be.above(29 * 24 * HOUR);
    // As if a second had passed.
    await clients.redis.zadd(`${prefix}:{thresholds}:pending:mail`, 0, whole!.id);
    expect(await reader.read()).to.deep.equal([whole]);
    await reader.ack(whole!);
    expect(await reader.read()).to.deep.equal([]);
  });

  it('a store without a stream has nothing to read', async () => {
    const store = memoryStore();
    await createLimiter({ store, limit: 1, window: '1h', thresholds: [1] }).consume('k');
    expect(await createAdmin(store).thresholds({ group: 'mail' }).read()).to.deep.equal([]);
  });

  it('hashed keys stay hashed', async () => {
    const prefix = freshPrefix();
    const store = redisStore(clients.redis, {
      prefix,
      thresholds: 'stream',
      hashKeys: 'a secret of 16 chars',
    });
    await createLimiter({ store, limit: 1, window: '1h', thresholds: [1], timeout: '10s' }).consume('ada');
    const [crossing] = await createAdmin(store).thresholds({ group: 'mail' }).read();
    expect(crossing!.key).to.have.property('hash').with.length(22);
  });

  it('is refused in a cluster, whose slots it would span, and for other values', () => {
    const cluster = new Cluster([{ host: '127.0.0.1', port: 1 }], { lazyConnect: true });
    expect(codeThrownBy(() => redisStore(cluster, { thresholds: 'stream' }))).to.equal(
      'HEADGATE_INVALID_OPTION',
    );
    cluster.disconnect();
    expect(codeThrownBy(() => memoryStore({ thresholds: true as never }))).to.equal(
      'HEADGATE_INVALID_OPTION',
    );
    const admin = createAdmin(memoryStore());
    for (const options of [{}, { group: '' }, { group: 'a', redeliverAfter: 1 }])
      expect(codeThrownBy(() => admin.thresholds(options as never))).to.equal('HEADGATE_INVALID_OPTION');
  });
});
