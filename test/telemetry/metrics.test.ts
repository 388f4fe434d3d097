// The metrics of OpenTelemetry and of prom-client, which are made from one table, and the spans.
import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import {
  AggregationTemporality,
  DataPointType,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { Registry, register } from 'prom-client';
import { limitFetch } from '../../src/fetch.js';
import { createLimiter, memoryStore, type Limiter, type Store } from '../../src/index.js';
import { instrument } from '../../src/opentelemetry.js';
import { prometheusMetrics } from '../../src/prometheus.js';
import { redisStore } from '../../src/redis.js';
import { METRICS, ROWS } from '../../src/telemetry/metrics.js';
import { servers } from '../support/shared-servers.js';

/** The samples of a text of Prometheus, without times and the scope of OpenTelemetry: series and value. */
function samplesOf(text: string): Map<string, number> {
  const samples = new Map<string, number>();
  for (const line of text.split('\n')) {
    const found = /^(headgate_\w+)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!found) continue;
    const labels = [...(found[2] ?? '').matchAll(/(\w+)="([^"]*)"/g)].flatMap(([, name, value]) =>
      name!.startsWith('otel_scope') ? [] : [`${name}=${Number(value) === Infinity ? '+Inf' : value}`],
    );
    samples.set(`${found[1]} ${labels.sort().join(' ')}`.trim(), Number(found[3]));
  }
  return samples;
}

const typesOf = (text: string): Record<string, string> =>
  Object.fromEntries(
    [...text.matchAll(/^# TYPE (headgate_\w+) (\w+)$/gm)].map(([, name, type]) => [name!, type!]),
  );

/** A store that fails. */
function failing(): Store {
  const fails = async (): Promise<never> =>
    Promise.reject(Object.assign(new Error('away'), { code: 'ECONNREFUSED' }));
  return { decide: fails, adjust: fails, lease: fails, reset: fails, ban: fails };
}

describe('metrics', () => {
  let registry: Registry;
  let provider: MeterProvider;
  let reader: PeriodicExportingMetricReader;
  let ends: (() => void)[];
  let limiters: Limiter[];

  beforeEach(() => {
    registry = new Registry();
    reader = new PeriodicExportingMetricReader({
      exporter: new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE),
      exportIntervalMillis: 3_600_000,
    });
    provider = new MeterProvider({ readers: [reader] });
    ends = [prometheusMetrics({ register: registry }), instrument({ meter: provider.getMeter('test') })];
    limiters = [];
  });
  afterEach(async () => {
    for (const end of ends) end();
    await provider.shutdown();
    await Promise.all(limiters.map((each) => each.close()));
  });

  function make(options: Parameters<typeof createLimiter>[0]): Limiter {
    const limiter = createLimiter(options);
    limiters.push(limiter);
    return limiter;
  }

  async function openTelemetryText(): Promise<string> {
    const { resourceMetrics } = await reader.collect();
    return new PrometheusSerializer('', false).serialize(resourceMetrics);
  }

  /** The samples of one limiter and metric. */
  async function series(metric: string, limiter: string): Promise<Record<string, number>> {
    const all = [...samplesOf(await registry.metrics())];
    return Object.fromEntries(
      all.flatMap(([name, value]) => {
        const [family, ...labels] = name.split(' ');
        if (family !== metric || !labels.includes(`headgate_limiter=${limiter}`)) return [];
        const others = labels.filter((label) => !label.startsWith('headgate_limiter='));
        return [[others.map((label) => label.replace(/^headgate_/, '')).join(' '), value]];
      }),
    );
  }

  /** Causes every kind of measurement. */
  async function causeAll(): Promise<void> {
    const redis = new Redis(servers.redis.port);
    const remote = make({
      ...{ name: 'remote', store: redisStore(redis, { localDenials: '1m' }), limit: 1, window: '1h' },
      ban: {},
      timeout: '10s',
    });
    for (let i = 0; i < 3; i++) await remote.consume('k');
    await remote.ban('other', '1h', { by: 'ada' });
    await remote.close();
    redis.disconnect();
    const trial = make({
      name: 'trial',
      policies: ['9/1h', { name: 'b', limit: 1, window: '1h', shadow: true }],
    });
    for (let i = 0; i < 9; i++) await trial.consume('k');
    const full = make({ name: 'full', store: memoryStore({ maxKeys: 100 }), limit: 1, window: '1h' });
    for (let i = 0; i < 101; i++) await full.consume(`${i}`);
    await full.wait('0', { timeout: 1 }).catch(() => {});
    const down = make({
      name: 'down',
      store: failing(),
      policies: '1/1h',
      onStoreError: 'throw',
      warnings: false,
    });
    await down.consume('k').catch(() => {});
    const call = limitFetch(async () => new Response('', { status: 429, headers: { 'Retry-After': '9' } }), {
      ...{ name: 'partner', key: () => 'p', limit: 9, window: '1s', retry: false },
    });
    await call('http://partner.test/');
    limiters.push(call.limiter);
  }

  it('of prom-client have the names, types, labels and values of OpenTelemetry’s exporter', async () => {
    await causeAll();
    const [ours, theirs] = [await registry.metrics(), await openTelemetryText()];
    expect(typesOf(ours)).to.deep.equal(typesOf(theirs));
    const [a, b] = [samplesOf(ours), samplesOf(theirs)];
    expect([...a.keys()]).to.have.members([...b.keys()]);
    for (const [name, value] of a)
      if (!name.startsWith('headgate_degraded_time')) expect(b.get(name), name).to.be.closeTo(value, 1e-9);
    // The scene has a sample of each row, so no row is left unchecked.
    const families = new Set(
      [...a.keys()].map((name) => name.split(' ')[0]!.replace(/_(bucket|sum|count|total)$/, '')),
    );
    expect([...families]).to.have.members(ROWS.map(([name]) => `headgate_${name.replaceAll('.', '_')}`));
  });

  it('of OpenTelemetry have the kinds, units and attributes of the table, and attributes in a namespace', async () => {
    await causeAll();
    const { resourceMetrics } = await reader.collect();
    const all = resourceMetrics.scopeMetrics.flatMap(({ metrics }) => metrics);
    for (const { descriptor, dataPointType, dataPoints, ...metric } of all) {
      const row = METRICS[descriptor.name.slice('headgate.'.length) as keyof typeof METRICS];
      expect(descriptor.unit).to.equal(row.unit);
      const isSum = ['counter', 'clock', 'sum'].includes(row.kind);
      const rest = row.kind === 'histogram' ? DataPointType.HISTOGRAM : DataPointType.GAUGE;
      const type = isSum ? DataPointType.SUM : rest;
      expect(dataPointType, descriptor.name).to.equal(type);
      if (isSum) expect(metric).to.have.property('isMonotonic', row.kind !== 'sum');
      for (const { attributes } of dataPoints)
        for (const name of Object.keys(attributes)) expect(name).to.match(/^(headgate|error|http)\./);
    }
  });

  it('count requests that waited by their outcome, and the time for which they waited', async () => {
    const limiter = make({ name: 'waits', limit: 1, window: '1h', maxWaiting: 1, maxWaitingPerKey: 1 });
    await limiter.wait('k');
    const gone = new AbortController();
    const waiting = limiter.wait('k', { signal: gone.signal }).catch(() => {});
    while (limiter.gauges.waiting < 1) await new Promise(setImmediate);
    await limiter.wait('k').catch(() => {});
    gone.abort();
    await waiting;
    await limiter.wait('k', { timeout: 1 }).catch(() => {});
    expect(await series('headgate_wait_duration_count', 'waits')).to.deep.equal({
      'outcome=aborted': 1,
      'outcome=allowed': 1,
      'outcome=queue-full': 1,
      'outcome=wait-timeout': 1,
    });
    const decisions = await series('headgate_decisions_total', 'waits');
    expect(Object.values(decisions)).to.deep.equal([1, 1, 1, 1]);
    expect(Object.keys(decisions).join()).to.contain('outcome=wait-timeout');
  });

  it('sum the costs of charged requests, by policy and tier', async () => {
    const limiter = make({
      name: 'units',
      tiers: {
        free: [
          { name: 'tokens', limit: 1000, window: '1h' },
          { name: 'calls', limit: 9, window: '1h' },
        ],
      },
    });
    await limiter.consume('k', { tier: 'free', cost: { tokens: 800 } });
    await limiter.consume('k', { tier: 'free', cost: { tokens: 800 } });
    // A repetition is not charged.
    for (let i = 0; i < 3; i++)
      await limiter.consume('k', { tier: 'free', cost: { tokens: 150, calls: 2 }, id: 'a' });
    await limiter.peek('k', { tier: 'free', cost: { tokens: 50 } });
    expect(await series('headgate_units_total', 'units')).to.deep.equal({
      'policy=tokens tier=free': 950,
      'policy=calls tier=free': 3,
    });
  });

  it('count an admission as near the limit by the burst of a bucket, not by its limit', async () => {
    const bucket = { algorithm: 'token-bucket', limit: 100, window: '1h', burst: 10 } as const;
    const limiter = make({ name: 'burst', ...bucket });
    for (let i = 0; i < 10; i++) await limiter.consume('k');
    // At most 20 % of ten units are left after the eighth, ninth and tenth.
    expect(await series('headgate_near_limit_total', 'burst')).to.deep.equal({ 'policy=default': 3 });
  });

  it('count neither denials, nor peeks, nor repetitions as near the limit', async () => {
    const limiter = make({ name: 'near', policies: ['tight=9/1h', 'wide=10/1h'] });
    for (let i = 0; i < 9; i++) await limiter.consume('k', { id: `${i}` });
    const near = { 'policy=tight': 2, 'policy=wide': 2 };
    expect(await series('headgate_near_limit_total', 'near')).to.deep.equal(near);
    expect((await limiter.consume('k')).policies[1]).to.include({ allowed: true, remaining: 1 });
    await limiter.peek('k');
    await limiter.consume('k', { id: '8' });
    expect(await series('headgate_near_limit_total', 'near')).to.deep.equal(near);
  });

  it('count bans, automatic ones and those by hand, and changes by hand', async () => {
    const limiter = make({ name: 'bans', limit: 1, window: '1h', ban: { after: 2 }, overrides: true });
    for (let i = 0; i < 5; i++) await limiter.consume('k');
    await limiter.ban('other', '1h', { by: 'ada' });
    await limiter.unban('other');
    await limiter.override('k', '9/1h');
    expect(await limiter.removeOverride('k')).to.equal(true);
    expect(await limiter.removeOverride('k')).to.equal(false);
    await limiter.reset('k');
    expect(await series('headgate_bans_total', 'bans')).to.deep.equal({
      'automatic=true': 1,
      'automatic=false': 1,
    });
    expect(await series('headgate_changes_total', 'bans')).to.deep.equal({
      ...{ 'change=ban': 1, 'change=unban': 1, 'change=reset': 1 },
      ...{ 'change=override': 1, 'change=remove-override': 1 },
    });
    const active = async () => (await series('headgate_overrides_active', 'bans'))[''];
    expect(await active()).to.equal(0);
    await limiter.overrideAll('5/1h');
    expect(await active()).to.equal(1);
    await limiter.removeOverride();
    expect(await active()).to.equal(0);
  });

  it('name the class of a store’s error', async () => {
    const limiter = make({ name: 'away', store: failing(), limit: 1, window: '1h', warnings: false });
    await limiter.consume('k');
    const [labels] = Object.keys(await series('headgate_store_duration_count', 'away'));
    expect(labels).to.match(/^error_type=\w+ degraded=true$/);
  });

  it('are refused a second time in one registry, and removed at the end', async () => {
    expect(() => prometheusMetrics({ register: registry }))
      .to.throw('headgate_decisions_total')
      .with.property('code', 'HEADGATE_INVALID_OPTION');
    ends.shift()!();
    expect(await registry.metrics()).to.equal('\n');
    const end = prometheusMetrics();
    expect(await register.metrics()).to.contain('headgate_store_up');
    end();
    expect(await register.metrics()).to.not.contain('headgate');
  });

  it('refuse bad options', () => {
    for (const options of [{ nearLimit: 1 }, { register: {} }, { registry }])
      expect(() => prometheusMetrics(options as never)).to.throw();
    expect(() => instrument({ spans: 'yes' } as never)).to.throw('spans');
  });
});

describe('spans', () => {
  const exporter = new InMemorySpanExporter();
  let provider: BasicTracerProvider;
  let manager: AsyncLocalStorageContextManager;
  let end: () => void;

  before(() => {
    manager = new AsyncLocalStorageContextManager().enable();
    context.setGlobalContextManager(manager);
    provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
    trace.setGlobalTracerProvider(provider);
    end = instrument({ spans: true });
  });
  after(async () => {
    end();
    await provider.shutdown();
    trace.disable();
    context.disable();
  });
  beforeEach(() => exporter.reset());

  const during = (name: string, work: () => Promise<unknown>): Promise<void> =>
    trace.getTracer('test').startActiveSpan(name, async (span) => {
      await work();
      span.end();
    });

  it('have the attributes of the decision, also if decisions share a call, and none of a key', async () => {
    const redis = new Redis(servers.redis.port);
    const limiter = createLimiter({ name: 'spans', store: redisStore(redis), limit: 3, window: '1h' });
    await limiter.consume('b', { cost: 3 });
    await Promise.all(['a', 'b'].map((key) => during(key, () => limiter.consume(key))));
    const spans = exporter.getFinishedSpans();
    const common = { 'headgate.limiter': 'spans', 'headgate.policy': 'default', 'headgate.limit': 3 };
    const of = (name: string) => spans.find((span) => span.name === name)!.attributes;
    expect(of('a')).to.deep.equal({
      ...{ ...common, 'headgate.outcome': 'allowed', 'headgate.degraded': false, 'headgate.remaining': 2 },
    });
    expect(of('b')).to.include({
      ...common,
      'headgate.outcome': 'denied',
      'headgate.reason': 'quota-exceeded',
    });
    expect(of('b')['headgate.retry_after']).to.be.within(3000, 4000);
    expect(spans).to.have.length(2);
    await limiter.close();
    redis.disconnect();
  });

  it('are made for waits only, inside the active span', async () => {
    const limiter = createLimiter({ name: 'slow', algorithm: 'concurrency', limit: 1, lease: '1m' });
    const held = await limiter.acquire('k');
    await during('request', async () => {
      const waiting = limiter.wait('k');
      await new Promise((resolve) => setTimeout(resolve, 20));
      await held.release();
      await waiting;
    });
    const [wait, request] = exporter.getFinishedSpans();
    expect(wait!.name).to.equal('headgate.wait');
    expect(wait!.parentSpanContext?.spanId).to.equal(request!.spanContext().spanId);
    expect(wait!.attributes).to.include({ 'headgate.limiter': 'slow', 'headgate.outcome': 'allowed' });
    expect(wait!.duration[0] * 1000 + wait!.duration[1] / 1e6).to.be.at.least(15);
    await limiter.close();
  });
});
