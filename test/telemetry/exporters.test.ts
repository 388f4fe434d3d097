// Several exporters: the workers of a cluster, and more than one in a process.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { expect } from 'chai';
import { Gauge, Registry } from 'prom-client';
import { TYPESCRIPT } from '../../scripts/lib/run.mjs';
import { createLimiter } from '../../src/index.js';
import { instrument } from '../../src/opentelemetry.js';
import { prometheusMetrics } from '../../src/prometheus.js';

describe('the metrics of a cluster in the primary process', function () {
  this.timeout(20_000);

  /** The values that four workers report together, of which one has the given values. */
  async function together(values: Record<string, number>): Promise<Record<string, number>> {
    const program = fileURLToPath(new URL('../support/cluster-metrics-child.ts', import.meta.url));
    const child = fork(program, [JSON.stringify(values)], { execArgv: [...TYPESCRIPT] });
    const [all] = (await once(child, 'message')) as [Record<string, number>];
    return all;
  }

  it('are down if one store is, and have an override if one has', async () => {
    expect(await together({})).to.include({
      ...{ headgate_store_up: 1, headgate_store_servers_down: 0, headgate_overrides_active: 0 },
    });
    const down = { headgate_store_up: 0, headgate_store_servers_down: 2, headgate_overrides_active: 1 };
    expect(await together(down)).to.include(down);
  });

  it('are sums of keys, queues and decisions', async () => {
    expect(await together({})).to.include({
      ...{ headgate_memory_keys: 4, headgate_queue_limit: 200, headgate_decisions_total: 4 },
    });
  });
});

describe('prometheusMetrics', () => {
  it('leaves no metric in a registry that refuses one', () => {
    const registry = new Registry();
    new Gauge({ name: 'headgate_overrides_active', help: 'taken', registers: [registry] });
    expect(() => prometheusMetrics({ register: registry })).to.throw('headgate_overrides_active already');
    expect(registry.getMetricsAsArray()).to.have.length(1);
    registry.removeSingleMetric('headgate_overrides_active');
    prometheusMetrics({ register: registry })();
  });

  it('removes nothing of a later call, even if it is ended twice', async () => {
    const registry = new Registry();
    const end = prometheusMetrics({ register: registry });
    end();
    const endLater = prometheusMetrics({ register: registry });
    end();
    expect(await registry.metrics()).to.contain('headgate_store_up');
    endLater();
    expect(registry.getMetricsAsArray()).to.deep.equal([]);
  });
});

describe('the spans of several exporters', () => {
  const exporter = new InMemorySpanExporter();
  const manager = new AsyncLocalStorageContextManager();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  before(() => {
    context.setGlobalContextManager(manager.enable());
    trace.setGlobalTracerProvider(provider);
  });
  after(async () => {
    await provider.shutdown();
    trace.disable();
    context.disable();
  });

  /** The names of the spans of a request that waits, and the request's outcome. */
  async function spansOfWait(): Promise<unknown[]> {
    exporter.reset();
    const limiter = createLimiter({ algorithm: 'concurrency', limit: 1, lease: '1m' });
    const held = await limiter.acquire('k');
    await trace.getTracer('test').startActiveSpan('request', async (span) => {
      const waiting = limiter.wait('k');
      await new Promise((resolve) => setTimeout(resolve, 20));
      await held.release();
      await waiting;
      span.end();
    });
    await limiter.close();
    const spans = exporter.getFinishedSpans();
    return spans.map(({ name, attributes }) => [name, attributes['headgate.outcome']]);
  }

  it('are made once, as long as one of the exporters with spans has not ended', async () => {
    const whole = [
      ['headgate.wait', 'allowed'],
      ['request', 'allowed'],
    ];
    const none = [['request', undefined]];
    const [first, second] = [instrument({ spans: true }), instrument({ spans: true })];
    const plain = instrument();
    expect(await spansOfWait()).to.deep.equal(whole);
    plain();
    plain();
    expect(await spansOfWait()).to.deep.equal(whole);
    first();
    first();
    expect(await spansOfWait()).to.deep.equal(whole);
    second();
    expect(await spansOfWait()).to.deep.equal(none);
  });
});
