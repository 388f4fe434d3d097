// Header fields without a server: `headgate/http`, and the lists of stacked limiters.
import { expect } from 'chai';
import fc from 'fast-check';
import { createLimiter, memoryStore, type Policy } from 'headgate';
import { denial, rateLimitHeaders, type HeaderDialect } from 'headgate/http';
import { compileHeaders, retryAfterSeconds } from '../../src/http/quota-fields.js';
import { problemOf } from '../../src/http/problem.js';
import { ofLimiter, type LimiterDecision } from '../../src/limiter/decision.js';
import { TestClock } from '../support/clock.js';
import { runs } from '../support/random.js';

const minute = { name: 'minute', algorithm: 'fixed-window', limit: 5, window: '1m' } as const;
const slots = { name: 'slots', algorithm: 'concurrency', limit: 1, lease: '1m' } as const;
const all: HeaderDialect[] = ['draft-6', 'draft-11', 'legacy'];

describe('headgate/http', () => {
  it('writes no fields for a shadow limiter, whatever its verdict', async () => {
    const limiter = createLimiter({ policies: [minute], shadow: true });
    for (const cost of [1, 5, 6, 0]) {
      expect(rateLimitHeaders(await limiter.consume('k', { cost }), all)).to.deep.equal({});
    }
  });

  it('writes no fields for a limiter that is off', async () => {
    const limiter = createLimiter({ policies: [minute], enabled: false });
    expect(rateLimitHeaders(await limiter.consume('k'), all)).to.deep.equal({});
  });

  it('writes no fields if all policies are shadows', async () => {
    const shadows = [minute, slots, { ...minute, name: 'other' }].map((policy) => ({
      ...policy,
      shadow: true,
    }));
    for (const policies of [shadows.slice(0, 1), shadows]) {
      const limiter = createLimiter({ policies, ban: { after: 1 } });
      for (const cost of [1, 5, 6, 0]) {
        const decision = await limiter.consume('k', { cost });
        expect(decision.allowed).to.equal(true);
        for (const dialects of [all, 'draft-7', 'draft-6'] as const)
          expect(rateLimitHeaders(decision, dialects)).to.deep.equal({});
      }
      await limiter.ban('k', '1h');
      const answer = denial(await limiter.consume('k'), all);
      expect(answer.headers).to.have.all.keys('Retry-After', 'Cache-Control', 'Content-Type');
      expect(JSON.parse(answer.body)).to.deep.include({ 'violated-policies': [] });
    }
  });

  it('writes concurrency in draft-11 only', async () => {
    const limiter = createLimiter({ ...slots, ban: { after: 2, for: '1h' } });
    const expected = [undefined, undefined, 'banned', 'banned'];
    for (const reason of expected) {
      const decision = await limiter.consume('k');
      if (reason) expect(decision.reason).to.equal(reason);
      expect(rateLimitHeaders(decision, ['draft-6', 'draft-7', 'legacy'])).to.deep.equal({});
      expect(rateLimitHeaders(decision)).to.have.all.keys('RateLimit', 'RateLimit-Policy');
    }
  });

  it('writes the unit for a request that has waited, too', async () => {
    const limiter = createLimiter({ algorithm: 'gcra', limit: 5, window: '1m', unit: 'tokens' });
    const fields = rateLimitHeaders(await limiter.wait('k'));
    expect(fields['RateLimit-Policy']).to.equal('"default";q=5;w=60;qu="tokens"');
  });

  it('writes the time of more units under an override of the burst, never too early', async () => {
    const store = memoryStore({ clock: new TestClock().read });
    const bucket = { algorithm: 'token-bucket', limit: 10, window: '100s', burst: 100 } as const;
    const limiter = createLimiter({ store, ...bucket, overrides: true });
    for (const burst of [10, 500]) {
      const key = String(burst);
      await limiter.override(key, { burst });
      const fields = rateLimitHeaders(await limiter.consume(key, { cost: burst }));
      expect(fields['RateLimit']).to.equal('"default";r=0;t=10');
    }
    await limiter.close();
  });

  it('writes a denying quota in the older dialects, although slots deny longer', async () => {
    const limiter = createLimiter({
      store: memoryStore({ clock: new TestClock().read }),
      policies: [
        { ...slots, lease: '1h' },
        { ...minute, limit: 1 },
      ],
    });
    await limiter.consume('k');
    const decision = await limiter.consume('k');
    expect(decision.policy).to.equal('slots');
    const { headers } = denial(decision, 'draft-6');
    expect(headers).to.include({ 'RateLimit-Limit': '1', 'RateLimit-Remaining': '0', 'Retry-After': '3600' });
    expect(headers).to.include({ 'RateLimit-Reset': '60' });
  });

  it('writes the time of the full quota if waiting does not help', async () => {
    const limiter = createLimiter({ ...minute, store: memoryStore({ clock: new TestClock().read }) });
    await limiter.consume('k');
    const fields = rateLimitHeaders(await limiter.consume('k', { cost: 6 }), 'draft-6');
    expect(fields).to.include({ 'RateLimit-Remaining': '4', 'RateLimit-Reset': '60' });
  });

  it('writes the time to come again, if waiting helps', async () => {
    const limiter = createLimiter({ policies: [minute], ban: { after: 9, for: '1h' } });
    const never = denial(await limiter.consume('k', { cost: 6 }));
    expect(never.status).to.equal(429);
    expect(never.headers).not.to.have.property('Retry-After');
    await limiter.consume('k', { cost: 5 });
    expect(denial(await limiter.consume('k')).headers).to.have.property('Retry-After', '60');
    await limiter.ban('k', '1h');
    expect(denial(await limiter.consume('k', { cost: 6 })).headers).to.have.property('Retry-After', '3600');
  });

  it('writes the time even if it is at once, so that no client comes again without a pause', async () => {
    const limiter = createLimiter(minute);
    for (const [retryAfterMs, seconds] of [
      [0, '1'],
      [1, '1'],
      [1000, '1'],
      [1001, '2'],
    ] as const) {
      // The methods of a decision are on its prototype.
      const decision = Object.assign(await limiter.consume('k', { cost: 6 }), { retryAfterMs });
      expect(denial(decision).headers).to.have.property('Retry-After', seconds);
    }
  });

  it('writes the time of free room, if a full store or queue denies', async () => {
    for (const [onFull, reset] of [
      ['deny', '60'],
      ['admit', '0'],
    ] as const) {
      const clock = new TestClock();
      const store = memoryStore({ clock: clock.read, maxKeys: 100, onFull });
      const limiter = createLimiter({ ...minute, window: '1h', store, warnings: false });
      for (let i = 0; i < 100; i++) await limiter.consume(`k${i}`, { cost: 5 });
      clock.now += 59 * 60_000;
      const decision = await limiter.consume('late');
      expect(decision.reason).to.equal('store-full');
      const fields = rateLimitHeaders(decision, 'draft-6');
      expect(fields).to.include({ 'RateLimit-Remaining': '5', 'RateLimit-Reset': reset });
    }
    const turns = createLimiter({ algorithm: 'leaky-bucket', limit: 1, window: '1h', maxDelay: '1d' });
    for (let i = 0; i < 2; i++) await turns.consume('k');
    const held = ofLimiter(await turns.consume('k'));
    const denied = held.deniedFor('queue-full', held.delayMs);
    expect(rateLimitHeaders(denied, 'draft-6')).to.include({ 'RateLimit-Reset': '7200' });
  });

  it('gives a policy without a name its limiter’s, if it is the only policy', async () => {
    const namesOf = async (name: string, policies: readonly Policy[]) =>
      itemsOf(rateLimitHeaders(await createLimiter({ name, policies }).consume('k'))['RateLimit']);
    const unnamed = { algorithm: 'fixed-window', limit: 5, window: '1m' } as const;
    expect(await namesOf('one', [unnamed])).to.deep.equal(['one']);
    expect(await namesOf('own', [minute])).to.deep.equal(['minute']);
    expect(await namesOf('two', [{ ...unnamed, name: 'default' }, minute])).to.deep.equal([
      'default',
      'minute',
    ]);
    // Names that a field cannot contain, or has no room for.
    for (const name of ['gr\u00fcn', 'x'.repeat(65)])
      expect(await namesOf(name, [unnamed])).to.deep.equal(['default']);
    expect(await namesOf('x'.repeat(64), [unnamed])).to.deep.equal(['x'.repeat(64)]);
  });
});

describe('stacked limiters', () => {
  it('keep the tightest quota in fields for a single quota, whichever comes first', async () => {
    for (const order of [
      [5, 9],
      [9, 5],
    ]) {
      const fields: Record<string, string> = {};
      const target = {
        getHeader: (_: unknown, field: string) => fields[field],
        setHeader: (_: unknown, field: string, value: string) => void (fields[field] = value),
      };
      const write = compileHeaders(['draft-7', 'draft-6', 'legacy']);
      for (const [i, limit] of order.entries()) {
        const limiter = createLimiter({ algorithm: 'fixed-window', limit, window: '1m' });
        write(target, {}, await limiter.decide('k'), i > 0);
      }
      expect(fields.RateLimit).to.equal('limit=5, remaining=4, reset=60');
      expect(fields).to.include({ 'RateLimit-Limit': '5', 'RateLimit-Remaining': '4' });
      expect(fields).to.include({ 'X-RateLimit-Limit': '5', 'X-RateLimit-Remaining': '4' });
      expect(fields['RateLimit-Policy']).to.equal(order.map((limit) => `${limit};w=60`).join(', '));
    }
  });

  it('of equal quotas keep the first, and begin if there are no fields yet', async () => {
    const write = compileHeaders(['draft-7', 'draft-6']);
    const fields: Record<string, string> = {};
    const target = {
      // Like web-standard headers.
      getHeader: (_: unknown, field: string) => fields[field] ?? null,
      setHeader: (_: unknown, field: string, value: string) => void (fields[field] = value),
    };
    for (const [limit, cost] of [
      [5, 1],
      [9, 5],
    ] as const)
      write(target, {}, await createLimiter({ ...minute, limit }).decide('k', cost), true);
    expect(fields['RateLimit']).to.equal('limit=5, remaining=4, reset=60');
    expect(fields).to.include({ 'RateLimit-Limit': '5', 'RateLimit-Remaining': '4' });
  });

  it('keep the list of a newer dialect', async () => {
    const fields: Record<string, string> = {};
    const target = {
      getHeader: (_: unknown, field: string) => fields[field],
      setHeader: (_: unknown, field: string, value: string) => void (fields[field] = value),
    };
    for (const [i, dialect] of (['draft-7', 'draft-11', 'draft-7'] as const).entries())
      compileHeaders(dialect)(target, {}, await createLimiter(minute).decide('k', i), i > 0);
    expect(fields).to.deep.equal({
      RateLimit: '"minute";r=4;t=60',
      'RateLimit-Policy': '"minute";q=5;w=60',
    });
  });

  it('are numbered by the items before them on each response', async () => {
    const write = compileHeaders('draft-11');
    const [free, pro, all] = ['tier', 'pro', 'tier'].map((name) =>
      createLimiter({ policies: [{ ...minute, name }] }),
    );
    const policyOf = async (...stack: (typeof all)[]) => {
      const fields: Record<string, string> = {};
      const target = {
        getHeader: (_: unknown, field: string) => fields[field],
        setHeader: (_: unknown, field: string, value: string) => void (fields[field] = value),
      };
      for (const [i, limiter] of stack.entries()) write(target, {}, await limiter!.decide('k'), i > 0);
      return fields['RateLimit-Policy'];
    };
    for (let i = 0; i < 2; i++) {
      expect(await policyOf(free, all)).to.equal('"tier";q=5;w=60, "tier-2";q=5;w=60');
      expect(await policyOf(pro, all)).to.equal('"pro";q=5;w=60, "tier";q=5;w=60');
      expect(await policyOf(all)).to.equal('"tier";q=5;w=60');
    }
  });

  it('have one item each in RateLimit and RateLimit-Policy, of one name, in one order', async () => {
    const write = compileHeaders(['draft-11', 'draft-6']);
    // Few letters, so that names collide: quotes, separators, and texts that resemble Headgate's numbers.
    const name = fc
      .array(fc.constantFrom('a', '-2', '-3', '"', '\\', ', ', ';', 'q=1'), { minLength: 1, maxLength: 3 })
      .map((parts) => parts.join(''));
    const set = fc.uniqueArray(fc.record({ name, shadow: fc.boolean() }), {
      selector: (policy) => policy.name,
      minLength: 1,
      maxLength: 3,
    });
    await fc.assert(
      fc.asyncProperty(fc.array(set, { minLength: 1, maxLength: 5 }), async (stack) => {
        const fields = new Map<string, string>();
        const target = {
          getHeader: (map: typeof fields, field: string) => map.get(field),
          setHeader: (map: typeof fields, field: string, value: string) => void map.set(field, value),
        };
        const names: string[] = [];
        for (const [i, policies] of stack.entries()) {
          const decision = await createLimiter({
            policies: policies.map((policy): Policy => ({ ...minute, limit: 1, ...policy })),
          }).decide('k', 2);
          const texts = write(target, fields, decision, i > 0);
          const problem = JSON.parse(problemOf(decision, 429, texts)) as Record<string, string[]>;
          names.push(...(problem['violated-policies'] ?? []));
        }
        expect(new Set(names).size).to.equal(names.length);
        expect(itemsOf(fields.get('RateLimit'))).to.deep.equal(names);
        expect(itemsOf(fields.get('RateLimit-Policy'))).to.deep.equal(names);
      }),
      runs('memory', 300, 0),
    );
  });
});

describe('Retry-After', () => {
  const retryAfterOf = (retryAfterMs: number | undefined, jitter?: number, random?: () => number) =>
    retryAfterSeconds({ retryAfterMs } as LimiterDecision, jitter, random);

  it('is the time, rounded up; with a jitter later by up to the jitter, at most doubled, never earlier', () => {
    expect([0, 1, 1000, 1001].map((ms) => retryAfterOf(ms))).to.deep.equal([1, 1, 1, 2]);
    const spread = (wait: number) => [0, 0.25, 0.5, 0.999].map((part) => retryAfterOf(wait, 60, () => part));
    expect(spread(120_000)).to.deep.equal([120, 135, 150, 180]);
    expect(spread(20_000)).to.deep.equal([20, 25, 30, 40]);
    expect(spread(300)).to.deep.equal([1, 1, 2, 2]);
    expect(retryAfterOf(undefined, 60)).to.equal(undefined);
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 366 * 86_400_000 }),
        fc.integer({ min: 1, max: 366 * 86_400 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (retryAfterMs, jitter, part) => {
          const [wait, least] = [
            retryAfterOf(retryAfterMs, jitter, () => part)!,
            retryAfterOf(retryAfterMs)!,
          ];
          expect(Number.isInteger(wait)).to.equal(true);
          expect(wait).to.be.within(least, least + Math.min(jitter, least));
        },
      ),
    );
  });

  it('spreads many clients evenly, whether the wait is short or long', () => {
    for (const [retryAfterMs, seconds] of [
      [17_300, 10],
      [60_000, 10],
      [1000, 1],
    ] as const) {
      const [least, values] = [retryAfterOf(retryAfterMs)!, seconds + 1];
      const drawn = Array.from({ length: 100 * values }, (_, i) => (i + 0.5) / (100 * values));
      const waits = drawn.map((part) => retryAfterOf(retryAfterMs, 10, () => part));
      const counts = Array.from({ length: values }, (_, i) => waits.filter((w) => w === least + i).length);
      expect(counts).to.deep.equal(Array(values).fill(100));
    }
  });
});

/** The strings of a structured list (RFC 9651), read character by character. */
function itemsOf(list = ''): string[] {
  const names: string[] = [];
  for (let i = 0; i < list.length;) {
    let name = '';
    expect(list[i++]).to.equal('"');
    for (; list[i] !== '"'; i++) name += list[i] === '\\' ? list[++i] : list[i];
    names.push(name);
    const end = list.indexOf(', ', i);
    expect(list.slice(i + 1, end < 0 ? undefined : end)).to.match(/^(;[a-z]+=\d+)+$/);
    i = end < 0 ? list.length : end + 2;
  }
  return names;
}
