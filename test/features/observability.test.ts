// Diagnostics channels, and the OpenTelemetry metrics on top.
import diagnostics, { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import type { DecisionMessage, HealthMessage, StoreMessage } from '../../src/contract/diagnostics.js';
import { openLimiters } from '../../src/contract/gauges.js';
import { createLimiter, memoryStore, type Limiter, type Policy, type Store } from '../../src/index.js';
import type { Query, Reply, Subject } from '../../src/stores.js';
import { ProcessSlots } from '../../src/features/slots/process-slots.js';
import { ROWS } from '../../src/telemetry/metrics.js';
import { instrument } from '../../src/telemetry/opentelemetry.js';
import { redisStore } from '../../src/stores/redis/redis.js';
import { rateLimit } from '../../src/web.js';
import { startServer } from '../support/servers.js';
import { servers } from '../support/shared-servers.js';

/** A cluster of two servers that fails while `fails` is set. */
class Switched implements Store {
  /** Every server fails, or a single server. */
  fails: boolean | 'one' = false;

  async decide(query: Query): Promise<Reply> {
    const { set } = query;
    if (this.fails === true || this.fails === this.serverOf(query)) throw new Error('it fails');
    return { now: Date.now(), step: 1, ban: 0, verdicts: set.policies.flatMap(() => [0, 5, 1000]) };
  }

  servers = (): string[] => ['one', 'two'];
  serverOf = (subject: Subject): string => {
    const server = String(subject.key) < '5' ? 'one' : 'two';
    if (subject.call) subject.call.server = server;
    return server;
  };
  adjust = () => Promise.reject(new Error('it fails'));
  lease = () => Promise.reject(new Error('it fails'));
  reset = () => Promise.resolve();
  ban = () => Promise.resolve();
}

describe('diagnostics channels', () => {
  const published: Record<string, unknown[]> = {};
  const listeners: [string, (message: unknown) => void][] = ['decision', 'store', 'health'].map((name) => [
    `headgate:${name}`,
    (message) => (published[name] ??= []).push(message),
  ]);

  beforeEach(() => {
    for (const name of Object.keys(published)) delete published[name];
    for (const [name, listener] of listeners) subscribe(name, listener);
  });
  afterEach(() => {
    for (const [name, listener] of listeners) unsubscribe(name, listener);
  });

  it('publish each decision with its limiter', async () => {
    const limiter = createLimiter({ name: 'seen', limit: 1, window: '1m', shadow: true });
    await limiter.consume('k');
    const second = await limiter.consume('k');
    const messages = published.decision as DecisionMessage[];
    expect(messages.map(({ limiter: name, shadow, local }) => [name, shadow, local])).to.deep.equal([
      ['seen', true, false],
      ['seen', true, false],
    ]);
    expect(messages[1]!.decision).to.equal(second);
    expect(messages[1]!.decision.reason).to.equal('quota-exceeded');
    expect(published.store, 'memory answers at once').to.equal(undefined);
  });

  it('publish the decisions of a list', async () => {
    const limit = rateLimit({
      name: 'lists',
      policies: '1/1m',
      clientIp: () => '192.0.2.1',
      denyList: ['192.0.2.1'],
    });
    await limit(() => new Response())(new Request('http://service.test/'));
    const messages = published.decision as DecisionMessage[];
    expect(messages.map(({ limiter, decision }) => [limiter, decision.reason])).to.deep.equal([
      ['lists', 'deny-listed'],
    ]);
  });

  it('publish how long the store took, and the changes of its state', async () => {
    const server = await startServer('redis');
    const redis = new Redis(server.port, { retryStrategy: () => 20 });
    redis.on('error', () => {});
    const limiter = createLimiter({ name: 'timed', store: redisStore(redis), limit: 9, window: '1m' });
    await limiter.consume('k');
    expect(published.store).to.have.length(1);
    const [first] = published.store as StoreMessage[];
    expect(first).to.include({ limiter: 'timed', degraded: false });
    expect(first!.durationMs).to.be.within(0, 1000);

    // A late process is distinguished from a slow store. On a busy machine, the first answer may have been late, too.
    const { late } = limiter.health;
    const pending = limiter.consume('k');
    const end = performance.now() + 150;
    while (performance.now() < end);
    await pending;
    const second = (published.store as StoreMessage[])[1]!;
    expect(second.degraded).to.equal(false);
    expect(second.busyMs).to.be.within(140, second.durationMs + 1);
    expect(limiter.health).to.include({ state: 'up', failures: 0, late: late + 1 });

    await server.stop();
    while (limiter.health.state === 'up') {
      await limiter.consume('k');
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect((published.store as StoreMessage[]).at(-1)).to.include({ degraded: true });
    expect((published.health as HealthMessage[]).map(({ health }) => health.state)).to.deep.equal(['down']);
    redis.disconnect();
    await limiter.close();
  });

  it('publish the errors of a store', async () => {
    const redis = new Redis(servers.redis.port);
    const store = redisStore(redis);
    const limiter = createLimiter({ name: 'throws', store, limit: 9, window: '1m', onStoreError: 'throw' });
    await redis.rpush('hg:{throws:k}s3@6sx10', 'not ours');
    await redis.expire('hg:{throws:k}s3@6sx10', 60);
    let thrown: unknown;
    await limiter.consume('k').catch((error: unknown) => (thrown = error));
    expect((published.store as StoreMessage[])[0]!.error)
      .to.equal(thrown)
      .and.not.equal(undefined);
    redis.disconnect();
    await limiter.close();
  });
});

describe('headgate/opentelemetry', () => {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const provider = new MeterProvider({ readers: [reader] });
  let stop: () => void;

  before(() => {
    stop = instrument({ meter: provider.getMeter('test') });
  });
  after(async () => {
    stop();
    await provider.shutdown();
  });

  /** The points of a metric: attributes as text, and value. */
  async function points(name: string): Promise<Record<string, unknown>> {
    exporter.reset();
    await reader.forceFlush();
    const metrics = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics[0]!.metrics);
    const metric = metrics.find(({ descriptor }) => descriptor.name === name);
    return Object.fromEntries(
      (metric?.dataPoints ?? []).map(({ attributes, value }) => [
        Object.values(attributes).join(' '),
        typeof value === 'number' ? value : value.count,
      ]),
    );
  }

  it('counts decisions by policy and outcome, keys near their limit, and the denials of shadows', async () => {
    const limiter = createLimiter({
      name: 'api',
      policies: [
        { name: 'wide', limit: 100, window: '1m' },
        { name: 'tight', limit: 5, window: '1m' },
        { name: 'trial', limit: 3, window: '1m', shadow: true },
      ],
    });
    for (let i = 0; i < 7; i++) await limiter.consume('secret-key');
    expect(await points('headgate.decisions')).to.deep.equal({
      'api allowed tight false': 5,
      'api denied quota-exceeded tight false': 2,
    });
    expect(await points('headgate.shadow.denials')).to.deep.equal({ 'api trial': 2 });
    expect(await points('headgate.near_limit')).to.deep.equal({ 'api tight': 2, 'api trial': 1 });
  });

  it('counts the denials of a shadow limiter', async () => {
    const limiter = createLimiter({ name: 'dry', limit: 1, window: '1m', shadow: true });
    for (let i = 0; i < 3; i++) await limiter.consume('k');
    expect(await points('headgate.decisions')).to.include({
      'dry allowed default false': 1,
      'dry shadow-denied quota-exceeded default false': 2,
    });
  });

  it('counts the requests without room in a memory store', async () => {
    for (const onFull of ['admit', 'deny'] as const) {
      for (const shadow of [false, true]) {
        const store = memoryStore({ maxKeys: 100, onFull });
        const name = `${shadow ? 'shadow-' : ''}${onFull}`;
        const limiter = createLimiter({ name, store, limit: 1, window: '1h', shadow });
        for (let i = 0; i < 103; i++) await limiter.consume(`k${i}`);
      }
    }
    expect(await points('headgate.store.full')).to.deep.equal({
      'admit allowed': 3,
      'shadow-admit allowed': 3,
      'deny denied': 3,
      'shadow-deny shadow-denied': 3,
    });
    expect(await points('headgate.decisions')).to.include({
      'admit allowed store-full default false': 3,
      'deny denied store-full default false': 3,
    });
  });

  it('times the store', async () => {
    const redis = new Redis(servers.redis.port);
    const limiter = createLimiter({ name: 'remote', store: redisStore(redis), limit: 9, window: '1m' });
    for (let i = 0; i < 4; i++) await limiter.consume('k');
    expect(await points('headgate.store.duration')).to.include({ 'remote false': 4 });
    redis.disconnect();
    await limiter.close();
  });

  it('reports durations in seconds', async () => {
    const channel = diagnostics.channel('headgate:store');
    const message = { limiter: 'timed', durationMs: 1500, busyMs: 500, degraded: false };
    channel.publish(message);
    exporter.reset();
    await reader.forceFlush();
    const metrics = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics[0]!.metrics);
    for (const [name, sum] of [
      ['headgate.store.duration', 1.5],
      ['headgate.store.busy', 0.5],
    ] as const) {
      const { descriptor, dataPoints } = metrics.find(({ descriptor }) => descriptor.name === name)!;
      expect(descriptor.unit).to.equal('s');
      const point = dataPoints.find(({ attributes }) => attributes['headgate.limiter'] === 'timed')!;
      const value = point.value as { sum: number; buckets: { boundaries: number[] } };
      expect(value.sum).to.equal(sum);
      // A query over the buckets names their bounds.
      expect(value.buckets.boundaries.join(' ')).to.equal(
        '0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 5 10 30 60',
      );
    }
  });

  it('reports whether a store is up, its time down, and the number of servers that are down', async () => {
    // Metrics read all limiters of the process. Earlier tests left limiters on stores without answers, and reading such limiters starts probes.
    for (const other of openLimiters().filter(({ source }) => !source.embedded) as unknown as Limiter[]) {
      const isGone = await other.peek('key').then(
        ({ degraded }) => degraded,
        () => true,
      );
      if (isGone) await other.close();
    }
    const store = new Switched();
    const limiter = createLimiter({ name: 'switched', store, limit: 9, window: '1m', warnings: false });
    const ask = async (keys: readonly string[], isDone: () => boolean) => {
      while (!isDone()) {
        for (const key of keys) await limiter.consume(key);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    };
    const fall = () => ask(['1', '9'], () => limiter.health.state === 'down');
    await limiter.consume('1');
    expect(await points('headgate.store.up')).to.include({ switched: 1 });
    const before = (await points('headgate.degraded.time'))[''];

    store.fails = 'one';
    await ask(['1'], () => limiter.health.serversDown.length === 1);
    expect(await points('headgate.store.up')).to.include({ switched: 1 });
    expect(await points('headgate.store.servers_down')).to.include({ switched: 1 });
    store.fails = true;
    await fall();
    expect(await points('headgate.store.up')).to.include({ switched: 0 });
    expect(await points('headgate.store.servers_down')).to.include({ switched: 2 });
    const during = (await points('headgate.degraded.time'))[''];
    expect(during).to.be.greaterThan(before as number);

    store.fails = false;
    await ask(['1', '9'], () => limiter.health.serversDown.length === 0);
    expect(await points('headgate.store.up')).to.include({ switched: 1 });
    expect(await points('headgate.store.servers_down')).to.include({ switched: 0 });
    const after = (await points('headgate.degraded.time'))[''];
    expect(await points('headgate.degraded.time')).to.deep.equal({ '': after });

    // A store without questions is not down forever.
    store.fails = true;
    await fall();
    await limiter.close();
    const closed = (await points('headgate.degraded.time'))[''];
    expect(await points('headgate.degraded.time')).to.deep.equal({ '': closed });
    expect(await points('headgate.store.up')).to.include({ switched: 1 });
    expect(await points('headgate.store.servers_down')).to.include({ switched: 0 });
  }).retries(2);

  it('reports a store that was down before the first question', async () => {
    const store = new Switched();
    store.fails = true;
    const limiter = createLimiter({ name: 'early', store, limit: 9, window: '1m', warnings: false });
    while (limiter.health.state === 'up') {
      for (const key of ['1', '9']) await limiter.consume(key);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
    const later = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
    const others = new MeterProvider({ readers: [later] });
    const end = instrument({ meter: others.getMeter('late') });
    const seconds = async (): Promise<number> => {
      const { resourceMetrics } = await later.collect();
      const all = resourceMetrics.scopeMetrics.flatMap(({ metrics }) => metrics);
      const descriptor = all.find(({ descriptor }) => descriptor.name === 'headgate.degraded.time');
      return descriptor!.dataPoints[0]!.value as number;
    };
    const first = await seconds();
    expect(await seconds()).to.be.greaterThan(first);
    end();
    await others.shutdown();
    await limiter.close();
  });

  it('counts no keys of a store without a count', async () => {
    const limiter = createLimiter({ name: 'uncounted', store: new Switched(), limit: 1, window: '1h' });
    expect(limiter.gauges.keys).to.equal(0);
    await limiter.close();
  });

  it('reports the numbers of waiting and held requests, and their maximums', async () => {
    const common = { name: 'queue', limit: 1, window: '1h' } as const;
    const limiter = createLimiter({ ...common, algorithm: 'leaky-bucket', maxDelay: '100d', maxWaiting: 60 });
    const other = createLimiter({ ...common, maxWaiting: 20 });
    await limiter.consume('k');
    const gone = new AbortController();
    const ends: Promise<unknown>[] = [1, 2, 3].map(async () => {
      const decision = await limiter.consume('k');
      await limiter.hold(decision, { signal: gone.signal }).catch(() => {});
    });
    await other.consume('k');
    ends.push(...[1, 2].map(() => other.wait('k', { signal: gone.signal }).catch(() => {})));
    while (other.gauges.waiting < 2) await new Promise(setImmediate);
    expect(limiter.gauges).to.deep.equal({
      ...{ waiting: 0, held: 3, maxWaiting: 60 },
      ...{ slots: 0, overrides: 0, keys: 1 },
    });
    expect(await points('headgate.queue.held')).to.include({ queue: 3 });
    expect(await points('headgate.queue.waiting')).to.include({ queue: 2 });
    expect(await points('headgate.queue.limit')).to.include({ queue: 80 });
    gone.abort();
    await Promise.all(ends);
    expect(await points('headgate.queue.held')).to.include({ queue: 0 });
    expect(await points('headgate.queue.waiting')).to.include({ queue: 0 });
    await limiter.close();
    await other.close();
    expect(await points('headgate.queue.limit')).to.include({ queue: 0 });
    expect(openLimiters().map(({ name }) => name)).to.not.include('queue');
  });

  for (const kind of ['memory', 'redis'] as const) {
    it(`reports the number of slots in use: ${kind}`, async () => {
      const client = new Redis(servers.redis.port);
      const store = kind === 'redis' ? redisStore(client) : memoryStore();
      const policies = [
        { name: 'a', algorithm: 'concurrency', limit: 4, lease: '1h' },
        { name: 'b', limit: 10, window: '1h' },
      ] as const;
      const limiter = createLimiter({ name: `slots-${kind}`, store, policies, timeout: '10s' });
      const used = async () => (await points('headgate.slots.used'))[`slots-${kind}`];
      const one = await limiter.acquire('k');
      const three = await limiter.acquire('k', { cost: 3 });
      expect((await limiter.acquire('k')).allowed).to.equal(false);
      await limiter.peek('k');
      expect(await used()).to.equal(4);
      await one.renew();
      expect(await used()).to.equal(4);
      await three.release();
      expect(await used()).to.equal(1);
      await one.cancel();
      expect(await used()).to.equal(0);
      await limiter.close();
      client.disconnect();
    });
  }

  it('counts no slot whose lease has ended, and does not keep them', async () => {
    let now = 0;
    const slots = new ProcessSlots(() => now);
    const limiter = createLimiter({ algorithm: 'concurrency', limit: 1e5, lease: '1m' });
    const take = async (name: string) => {
      const { policies } = await limiter.acquire('k');
      slots.take({ set: limiter.set, key: 'k', cost: 1, peek: false, lease: name }, policies);
    };
    await take('a');
    await take('b');
    now = 40_000;
    await take('c');
    slots.renew('b', limiter.set);
    expect(slots.size).to.equal(3);
    now = 60_000;
    expect(slots.size).to.equal(2);
    now = 100_000;
    slots.renew('b', limiter.set);
    expect(slots.size).to.equal(0);
    slots.renew('b', limiter.set);
    expect(slots.size).to.equal(0);
    // Slots whose lease has ended are taken again.
    const change = { set: limiter.set, key: 'k', cost: 2, lease: 'b', degraded: undefined } as const;
    await slots.change({ lease: () => true }, { ...change, action: 'hold' });
    expect(slots.size).to.equal(2);
    slots.release('b');
    expect(slots.size).to.equal(0);
    // No reader reads the gauge here.
    for (let i = 0; i < 5000; i++) {
      now += 1000;
      await take(`${i}`);
      expect(slots.kept).to.be.at.most(200);
    }
    expect(slots.size).to.equal(60);
    await limiter.close();
  });

  it('counts slots until the end of the longest lease of the admitting policies', async () => {
    let now = 0;
    const slots = new ProcessSlots(() => now);
    const lease = (name: string, ms: number, limit: number): Policy => ({
      ...{ name, algorithm: 'concurrency', limit, lease: ms },
    });
    const limiter = createLimiter({
      policies: [
        { name: 'units', limit: 9, window: '1h' },
        lease('short', 1000, 9),
        lease('long', 2000, 9),
        { ...lease('would deny', 3000, 1), shadow: true },
      ],
    });
    await limiter.acquire('k');
    const { policies } = await limiter.acquire('k');
    expect(policies.map(({ allowed }) => allowed)).to.deep.equal([true, true, true, false]);
    slots.take({ set: limiter.set, key: 'k', cost: 1, peek: false, lease: 'a' }, policies);
    now = 1999;
    expect(slots.size).to.equal(1);
    now = 2000;
    expect(slots.size).to.equal(0);
    await limiter.close();
  });

  it('looks for ended slots more rarely while more slots are held', async () => {
    let reads = 0;
    const slots = new ProcessSlots(() => (reads++, 0));
    const limiter = createLimiter({ algorithm: 'concurrency', limit: 1, lease: '1m' });
    const { policies } = await limiter.acquire('k');
    for (let i = 0; i < 5000; i++)
      slots.take({ set: limiter.set, key: 'k', cost: 1, peek: false, lease: `${i}` }, policies);
    // Each slot reads the time, and so does each look: at 100 slots, 200, 400 and so on.
    expect(reads).to.equal(5000 + 6);
    await limiter.close();
  });

  it('reports the number of keys in memory, including those of the local stand-in for a store that is down', async () => {
    const store = memoryStore();
    const names = ['keys', 'keys', 'by two'];
    const limiters = names.map((name) =>
      createLimiter({
        ...{ name, store },
        policies: name === 'keys' ? '9/1m' : ['9/1m', '9/1m by account'],
      }),
    );
    const away = new Switched();
    const local = createLimiter({ name: 'away', store: away, limit: 9, window: '1m', warnings: false });
    away.fails = true;
    for (const key of ['a', 'b', 'c']) {
      await limiters[0]!.consume(key);
      await limiters[1]!.consume(key);
      await limiters[2]!.consume({ key, account: 'x' });
      await local.consume(key);
    }
    expect(await points('headgate.memory.keys')).to.include({ keys: 3, 'by two': 4, away: 3 });
    for (const limiter of [...limiters, local]) await limiter.close();
  });

  it('counts denials without a call', async () => {
    const client = new Redis(servers.redis.port);
    const store = redisStore(client, { localDenials: '1m' });
    const limiter = createLimiter({ name: 'remembers', store, limit: 1, window: '1h', timeout: '10s' });
    for (let i = 0; i < 5; i++) await limiter.consume('k');
    expect(await points('headgate.local.denials')).to.include({ remembers: 3 });
    expect(await points('headgate.decisions')).to.include({
      'remembers denied quota-exceeded default false': 4,
    });
    // Denials of a memory store save no call.
    const memory = createLimiter({ name: 'memory', limit: 1, window: '1h' });
    for (let i = 0; i < 5; i++) await memory.consume('k');
    expect(await points('headgate.local.denials')).to.not.have.property('memory');
    await limiter.close();
    client.disconnect();
  });

  it('reads limiters that were never closed only while they are in use', async () => {
    for (let i = 0; i < 50; i++) createLimiter({ name: 'dropped', limit: 1, window: '1m' });
    const dropped = () => openLimiters().filter(({ name }) => name === 'dropped');
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    await new Promise(setImmediate);
    collect();
    // Variables of compiled code may keep some of them.
    expect(dropped().length).to.be.below(25);
  });

  it('reports no more values after it is stopped', async () => {
    // With cumulative metrics, the SDK would repeat the last values.
    const exporter = new InMemoryMetricExporter(AggregationTemporality.DELTA);
    const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
    const others = new MeterProvider({ readers: [reader] });
    const read = ROWS.flatMap(([name, { kind }]) =>
      ['sum', 'state'].includes(kind) ? `headgate.${name}` : [],
    );
    const end = instrument({ meter: others.getMeter('stopped') });
    const limiter = createLimiter({ name: 'stopped', limit: 1, window: '1m' });
    await limiter.consume('k');
    const exported = async (): Promise<string[]> => {
      const { resourceMetrics } = await reader.collect();
      const all = resourceMetrics.scopeMetrics.flatMap(({ metrics }) => metrics);
      return all
        .filter(({ descriptor }) => read.includes(descriptor.name))
        .filter(({ dataPoints }) => dataPoints.length > 0)
        .map(({ descriptor }) => descriptor.name);
    };
    expect(await exported()).to.have.members(read);
    end();
    expect(await exported()).to.deep.equal([]);
    await others.shutdown();
    await limiter.close();
  });

  it('never has more than 200 names, and no key, among its attributes', async () => {
    for (let i = 0; i < 300; i++) {
      const limiter = createLimiter({ name: `n${i}`, limit: 1, window: '1m' });
      await limiter.consume('secret-key');
    }
    const names = Object.keys(await points('headgate.decisions'));
    // Names that earlier tests have used count, too.
    expect(new Set(names.map((name) => name.split(' ')[0])).size).to.be.within(100, 201);
    expect(names.join()).to.include('other allowed');
    expect(names.join()).to.not.include('secret-key');
  });

  it('refuses bad options', () => {
    for (const nearLimit of [0, 1, NaN, '0.5', -1])
      expect(() => instrument({ nearLimit } as never))
        .to.throw('nearLimit')
        .with.property('code', 'HEADGATE_INVALID_OPTION');
    expect(() => instrument({ metre: 1 } as never)).to.throw('`meter`');
  });

  it("counts requests without a decision, because the store's error was thrown", async () => {
    const { adjust, lease, reset, ban } = memoryStore();
    const decide = async (): Promise<never> => Promise.reject(new Error('away'));
    const limiter = createLimiter({
      ...{ name: 'thrown', limit: 1, window: '1m', warnings: false, onStoreError: 'throw' },
      store: { decide, adjust, lease, reset, ban },
    });
    const counted: unknown[] = [];
    const add = (count: number, at: object) => void counted.push([count, at]);
    const meter = provider.getMeter('thrown');
    const createCounter = (name: string) =>
      name === 'headgate.decisions' ? { add } : meter.createCounter(name);
    const end = instrument({
      meter: Object.assign(Object.create(meter) as typeof meter, { createCounter }),
    });
    for (let i = 0; i < 3; i++) await limiter.consume('ada').catch(() => {});
    end();
    const at = {
      ...{ 'headgate.limiter': 'thrown', 'headgate.outcome': 'error', 'headgate.reason': 'store-error' },
      ...{ 'headgate.degraded': false, 'error.type': 'HEADGATE_STORE_ERROR' },
    };
    expect(counted).to.deep.equal([1, 2, 3].map(() => [1, at]));
    await limiter.close();
  });
});
