// Reports of waits: one decision for each request that waits or is held, at the end of the wait.
import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import type { DecisionMessage } from '../../../src/contract/diagnostics.js';
import { rateLimited } from '../../../src/decorators.js';
import { limitFetch } from '../../../src/fetch.js';
import { createLimiter, memoryStore, type Decision, type Limiter } from '../../../src/index.js';
import { redisStore } from '../../../src/redis.js';
import type { Announced } from '../../../src/contract/announcement.js';
import { rateLimit } from '../../../src/web.js';
import { servers } from '../../support/shared-servers.js';

/** A memory store that counts the decisions which the command line would show. */
function countingStore() {
  const counted: Decision[] = [];
  const announce = (): Announced => ({
    withdraw: () => {},
    count: (decision) => void counted.push(decision),
  });
  return { counted, store: Object.assign(memoryStore(), { announce }) };
}

const outcomeOf = ({ allowed, reason }: Decision): string => (allowed ? 'allowed' : reason);

/** How often each outcome occurs. */
function tally(decisions: readonly Decision[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const each of decisions) counts[outcomeOf(each)] = (counts[outcomeOf(each)] ?? 0) + 1;
  return counts;
}

describe('reports of waits', () => {
  const messages: DecisionMessage[] = [];
  const onMessage = (message: unknown): void => void messages.push(message as DecisionMessage);
  const published = (name: string) => messages.filter(({ limiter }) => limiter === name);

  beforeEach(() => {
    messages.length = 0;
    subscribe('headgate:decision', onMessage);
  });
  afterEach(() => void unsubscribe('headgate:decision', onMessage));

  /** Checks that the channel, `onDecision` and the counts of `top` agree. */
  function expectReports(name: string, expected: Record<string, number>, ...others: (readonly Decision[])[]) {
    for (const decisions of [published(name).map(({ decision }) => decision), ...others])
      expect(tally(decisions)).to.deep.equal(expected);
  }

  it('report a request in line once, as admitted, with the time for which it waited', async () => {
    const { store, counted } = countingStore();
    const heard: Decision[] = [];
    const limiter = createLimiter({
      ...{ name: 'line', store, algorithm: 'concurrency', limit: 1, lease: '1m', warnings: false },
      onDecision: (decision) => void heard.push(decision),
    });
    const first = await limiter.acquire('k');
    const waits = [1, 2].map(async () => (await limiter.wait('k')).release());
    while (limiter.gauges.waiting < 2) await new Promise(setImmediate);
    await first.release();
    await Promise.all(waits);
    expectReports('line', { allowed: 3 }, heard, counted);
    const waited = published('line').map(({ waitedMs }) => waitedMs);
    expect(waited[0]).to.equal(undefined);
    expect(waited.slice(1).every((ms) => ms! > 0)).to.equal(true);
    await limiter.close();
  });

  it('report timeouts, full lines and aborted waits as such', async () => {
    const { store, counted } = countingStore();
    const heard: Decision[] = [];
    const limiter = createLimiter({
      ...{ name: 'given-up', store, limit: 1, window: '1h', maxWaiting: 1, maxWaitingPerKey: 1 },
      onDecision: (decision) => void heard.push(decision),
    });
    await limiter.consume('k');
    const gone = new AbortController();
    const waiting = limiter.wait('k', { signal: gone.signal }).catch(() => {});
    while (limiter.gauges.waiting < 1) await new Promise(setImmediate);
    await limiter.wait('k').catch(() => {});
    await limiter.wait('k', { timeout: 5 }).catch(() => {});
    gone.abort();
    await waiting;
    await limiter.wait('k', { timeout: 5 }).catch(() => {});
    await limiter.wait('k', { signal: AbortSignal.abort() }).catch(() => {});
    await limiter.wait('k', { cost: 2 }).catch(() => {});
    const expected = {
      allowed: 1,
      'queue-full': 2,
      aborted: 2,
      'wait-timeout': 1,
      'cost-exceeds-capacity': 1,
    };
    expectReports('given-up', expected, heard, counted);
    for (const { decision } of published('given-up')) {
      expect(decision.key).to.equal('k');
      if (decision.reason === 'wait-timeout')
        expect(decision).to.include({ allowed: false, policy: 'default', limit: 1, degraded: false });
    }
    await limiter.close();
  });

  it('report calls of limitFetch that were never sent as timeouts', async () => {
    const { store, counted } = countingStore();
    const heard: Decision[] = [];
    const call = limitFetch(async () => new Response('ok'), {
      ...{ name: 'partner', store, key: () => 'p', policies: ['2/10s'], timeout: 50, margin: 0 },
      onDecision: (decision) => void heard.push(decision),
    });
    const ends = await Promise.allSettled(Array.from({ length: 10 }, () => call('http://partner.test/')));
    const sent = ends.filter(({ status }) => status === 'fulfilled').length;
    expect(sent).to.be.within(1, 2);
    const waits = published('partner').filter(({ waitedMs }) => waitedMs !== undefined);
    expect(tally(waits.map(({ decision }) => decision))).to.deep.equal({
      allowed: sent,
      'wait-timeout': 10 - sent,
    });
    for (const decisions of [heard, counted]) expect(tally(decisions)['wait-timeout']).to.equal(10 - sent);
    await call.limiter.close();
  });

  it('report a call of limitFetch that a pause outlasts as a timeout', async () => {
    const answers = [new Response('', { status: 429, headers: { 'Retry-After': '60' } })];
    const call = limitFetch(async () => answers.pop() ?? new Response('ok'), {
      ...{ name: 'pausing', key: () => 'p', limit: 100, window: '1s', timeout: '1s', retry: false },
    });
    await call('http://partner.test/');
    messages.length = 0;
    const error: unknown = await call('http://partner.test/').catch((thrown: unknown) => thrown);
    expect(error).to.have.property('code', 'HEADGATE_WAIT_TIMEOUT');
    expectReports('pausing', { 'wait-timeout': 1 });
    await call.limiter.close();
  });

  const held = { algorithm: 'leaky-bucket', limit: 1, window: '1h', maxDelay: '30d' } as const;

  it('report a held request of an adapter once, when its hold ends', async () => {
    const { store, counted } = countingStore();
    const heard: Decision[] = [];
    const limiter = createLimiter({
      ...{ ...held, name: 'held', store, maxWaiting: 1, maxWaitingPerKey: 1 },
      onDecision: (decision) => void heard.push(decision),
    });
    const handler = rateLimit({ limiter, keyGenerator: () => 'k' })(() => new Response('ok'));
    const gone = new AbortController();
    const request = (signal?: AbortSignal) =>
      handler(new Request('http://service.test/', { signal: signal ?? null }));
    expect((await request()).status).to.equal(200);
    const waiting = request(gone.signal);
    while (limiter.gauges.held < 1) await new Promise(setImmediate);
    expect((await request()).status).to.equal(503);
    expectReports('held', { allowed: 1, 'queue-full': 1 }, heard, counted);
    gone.abort();
    await waiting.catch(() => {});
    expectReports('held', { allowed: 1, 'queue-full': 1, aborted: 1 }, heard, counted);
    await limiter.close();
  });

  it('report held calls of a function once', async () => {
    const limiter = createLimiter({ ...held, limit: 100, window: '1s', name: 'function' });
    const call = rateLimited(() => 'done', { limiter });
    expect(await Promise.all([call(), call(), call()])).to.deep.equal(['done', 'done', 'done']);
    expectReports('function', { allowed: 3 });
    await limiter.close();
  });

  it('report a wait over HTTP once', async () => {
    const limiter = createLimiter({
      ...{ name: 'http', limit: 1, window: '1h', maxWaiting: 1, maxWaitingPerKey: 1 },
    });
    const handler = (wait: string) =>
      rateLimit({ limiter, keyGenerator: () => 'k', wait })(() => new Response('ok'));
    const request = (wait: string) => handler(wait)(new Request('http://service.test/'));
    expect((await request('1s')).status).to.equal(200);
    expect((await request('1s')).status).to.equal(429);
    const waiting = limiter.wait('k').catch(() => {});
    while (limiter.gauges.waiting < 1) await new Promise(setImmediate);
    expect((await request('2h')).status).to.equal(503);
    await limiter.close();
    await waiting;
    expectReports('http', { allowed: 1, 'wait-timeout': 1, 'queue-full': 1, aborted: 1 });
  });

  it('report a shadow that does not answer in time as an admission', async () => {
    const limiter = createLimiter({ name: 'shadow', limit: 1, window: '1h', shadow: true });
    for (let i = 0; i < 3; i++) await limiter.wait('k', { timeout: 5 });
    expectReports('shadow', { allowed: 3 });
    await limiter.close();
  });

  it('have the tier, also of waits and of overridden keys', async () => {
    const tiers = { free: '1/1h', pro: ['100/1h', '50/1m'] } as const;
    const limiter: Limiter = createLimiter({ name: 'tiers', tiers, overrides: true, ban: {} });
    await limiter.consume('a', { tier: 'free' });
    await limiter.wait('b', { tier: 'pro' });
    await limiter.override('c', { tier: 'pro' });
    await limiter.consume('c', { tier: 'free' });
    expect(published('tiers').map(({ tier }) => tier)).to.deep.equal(['free', 'pro', 'pro']);
    await limiter.close();
    const untiered = createLimiter({ name: 'untiered', limit: 1, window: '1h' });
    await untiered.consume('a');
    expect(published('untiered').map(({ tier }) => tier)).to.deep.equal([undefined]);
    await untiered.close();
  });

  it('come in the asynchronous context of the request, also if decisions share a call', async () => {
    const requests = new AsyncLocalStorage<string>();
    const redis = new Redis(servers.redis.port);
    const heard: unknown[] = [];
    const limiter = createLimiter({
      ...{ name: 'context', store: redisStore(redis), limit: 9, window: '1m' },
      onDecision: ({ key }) => void heard.push([key, requests.getStore()]),
    });
    const listener = (message: unknown): void =>
      void heard.push([(message as DecisionMessage).decision.key, requests.getStore()]);
    await Promise.all(['a', 'b', 'c'].map((key) => requests.run(key, () => limiter.consume(key))));
    expect(heard).to.have.deep.members(['a', 'b', 'c'].map((key) => [key, key]));
    heard.length = 0;
    subscribe('headgate:decision', listener);
    await Promise.all(['a', 'b', 'c'].map((key) => requests.run(key, () => limiter.wait(key))));
    unsubscribe('headgate:decision', listener);
    expect(heard).to.have.deep.members(['a', 'b', 'c', 'a', 'b', 'c'].map((key) => [key, key]));
    await limiter.close();
    redis.disconnect();
  });
});
