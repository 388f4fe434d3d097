// What goes on can be seen: diagnostics channels, and OpenTelemetry on top of them.
import diagnostics, { subscribe, unsubscribe } from 'node:diagnostics_channel';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import type { DecisionMessage, HealthMessage, StoreMessage } from '../../src/contract/diagnostics.js';
import { createLimiter, memoryStore } from '../../src/index.js';
import { instrument } from '../../src/telemetry/opentelemetry.js';
import { redisStore } from '../../src/stores/redis/redis.js';
import { startServer } from '../support/servers.js';
import { servers } from '../support/shared-servers.js';

describe('diagnostics channels', () => {
  const seen: Record<string, unknown[]> = {};
  const listeners: [string, (message: unknown) => void][] = ['decision', 'store', 'health'].map((name) => [
    `headgate:${name}`,
    (message) => (seen[name] ??= []).push(message),
  ]);

  beforeEach(() => {
    for (const name of Object.keys(seen)) delete seen[name];
    for (const [name, listener] of listeners) subscribe(name, listener);
  });
  afterEach(() => {
    for (const [name, listener] of listeners) unsubscribe(name, listener);
  });

  it('publish each decision with its limiter', async () => {
    const limiter = createLimiter({ name: 'seen', limit: 1, window: '1m', shadow: true });
    await limiter.consume('k');
    const second = await limiter.consume('k');
    const messages = seen.decision as DecisionMessage[];
    expect(messages.map(({ limiter: name, shadow }) => [name, shadow])).to.deep.equal([
      ['seen', true],
      ['seen', true],
    ]);
    expect(messages[1]!.decision).to.equal(second);
    expect(messages[1]!.decision.reason).to.equal('quota-exceeded');
    expect(seen.store, 'memory answers at once').to.equal(undefined);
  });

  it('publish how long the store took, and what happened to it', async () => {
    const server = await startServer('redis');
    const redis = new Redis(server.port, { retryStrategy: () => 20 });
    redis.on('error', () => {});
    const limiter = createLimiter({ name: 'timed', store: redisStore(redis), limit: 9, window: '1m' });
    await limiter.consume('k');
    expect(seen.store).to.have.length(1);
    const [first] = seen.store as StoreMessage[];
    expect(first).to.include({ limiter: 'timed', degraded: false });
    expect(first!.durationMs).to.be.within(0, 1000);

    // A late process is told from a slow store.
    const asked = limiter.consume('k');
    const end = performance.now() + 150;
    while (performance.now() < end);
    await asked;
    const second = (seen.store as StoreMessage[])[1]!;
    expect(second.degraded).to.equal(false);
    expect(second.busyMs).to.be.within(140, second.durationMs + 1);
    expect(limiter.health).to.include({ state: 'up', failures: 0, late: 1 });

    await server.stop();
    while (limiter.health.state === 'up') {
      await limiter.consume('k');
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect((seen.store as StoreMessage[]).at(-1)).to.include({ degraded: true });
    expect((seen.health as HealthMessage[]).map(({ health }) => health.state)).to.deep.equal(['down']);
    redis.disconnect();
    await limiter.close();
  });

  it('publish what a store throws', async () => {
    const redis = new Redis(servers.redis.port);
    const store = redisStore(redis);
    const limiter = createLimiter({ name: 'throws', store, limit: 9, window: '1m', onStoreError: 'throw' });
    await redis.rpush('hg:{throws:k}s3@6sx10', 'not ours');
    await redis.expire('hg:{throws:k}s3@6sx10', 60);
    let thrown: unknown;
    await limiter.consume('k').catch((error: unknown) => (thrown = error));
    expect((seen.store as StoreMessage[])[0]!.error)
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

  it('counts decisions by policy and outcome, what is near its limit, and what a shadow would deny', async () => {
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

  it('says what a limiter that is a shadow would have denied', async () => {
    const limiter = createLimiter({ name: 'dry', limit: 1, window: '1m', shadow: true });
    for (let i = 0; i < 3; i++) await limiter.consume('k');
    expect(await points('headgate.decisions')).to.include({
      'dry allowed default false': 1,
      'dry shadow-denied quota-exceeded default false': 2,
    });
  });

  it('counts the requests for whose key a memory store had no room', async () => {
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
    const redis = new Redis(servers.valkey.port);
    const limiter = createLimiter({ name: 'remote', store: redisStore(redis), limit: 9, window: '1m' });
    for (let i = 0; i < 4; i++) await limiter.consume('k');
    expect(await points('headgate.store.duration')).to.include({ 'remote false false': 4 });
    redis.disconnect();
    await limiter.close();
  });

  it('tells durations in seconds', async () => {
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
      const point = dataPoints.find(({ attributes }) => attributes['limiter'] === 'timed')!;
      expect((point.value as { sum: number }).sum).to.equal(sum);
    }
  });

  it('tells how many stores are down', async () => {
    const channel = diagnostics.channel('headgate:health');
    const store = {};
    expect(await points('headgate.stores.down')).to.deep.equal({ '': 0 });
    channel.publish({ store, health: { state: 'down' } });
    expect(await points('headgate.stores.down')).to.deep.equal({ '': 1 });
    channel.publish({ store, health: { state: 'up' } });
    expect(await points('headgate.stores.down')).to.deep.equal({ '': 0 });
  });

  it('never has more than 200 names, and no key, among its attributes', async () => {
    for (let i = 0; i < 300; i++) {
      const limiter = createLimiter({ name: `n${i}`, limit: 1, window: '1m' });
      await limiter.consume('secret-key');
    }
    const names = Object.keys(await points('headgate.decisions'));
    expect(new Set(names.map((name) => name.split(' ')[0])).size).to.be.within(150, 201);
    expect(names.join()).to.include('other allowed');
    expect(names.join()).to.not.include('secret-key');
  });

  it('refuses bad options', () => {
    for (const nearLimit of [0, 1, NaN, '0.5', -1])
      expect(() => instrument({ nearLimit } as never))
        .to.throw('nearLimit')
        .with.property('code', 'HEADGATE_INVALID_OPTION');
    expect(() => instrument({ metre: 1 } as never)).to.throw('Did you mean `meter`?');
  });
});
