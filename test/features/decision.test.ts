import { expect } from 'chai';
import express from 'express';
import fc from 'fast-check';
import {
  createLimiter,
  memoryStore,
  type CreateLimiterOptions,
  type Decision,
  type Reason,
  type Store,
} from 'headgate';
import { rateLimit } from 'headgate/express';
import request from 'supertest';
import { TestClock } from '../support/clock.js';
import { algorithms, policyOf } from '../support/policies.js';
import { runs } from '../support/random.js';

type Asked = [cost: number, key: string][];

/** The documentation of each reason in `Decision`. @param maxDelay the longest that a policy holds an admitted request, ms */
function expectAsTyped({ allowed, reason, retryAfterMs, delayMs }: Decision, maxDelay = 0): void {
  expect(delayMs).to.be.within(0, allowed ? maxDelay : 0);
  switch (reason) {
    case undefined:
    case 'allow-listed':
    case 'disabled':
      expect([allowed, retryAfterMs]).to.deep.equal([true, 0]);
      break;
    case 'cost-exceeds-capacity':
    case 'deny-listed':
      expect(retryAfterMs).to.equal(undefined);
      break;
    default:
      expect(retryAfterMs).to.be.a('number');
  }
}

describe('the types of a decision', () => {
  const quota = { algorithm: 'fixed-window', limit: 2, window: '1h' } as const;
  const away = () => Promise.reject(new Error('away'));
  const failing: Store = { decide: away, adjust: away, lease: away, reset: away, ban: away };
  const twice: Asked = [
    [2, 'a'],
    [1, 'a'],
  ];
  const banned = { ...quota, ban: { after: 1, within: '1h', for: '1h' } } as const;
  const crowd: Asked = Array.from({ length: 100 }, (_, i) => [2, `k${i}`]);
  const full = (onFull: 'admit' | 'deny') => ({ ...quota, store: memoryStore({ maxKeys: 100, onFull }) });

  const scenes: Record<string, { reason: Reason; options: () => CreateLimiterOptions; asked?: Asked }> = {
    'an exceeded quota': { reason: 'quota-exceeded', options: () => quota },
    'a cost above the capacity': { reason: 'cost-exceeds-capacity', options: () => quota, asked: [[3, 'a']] },
    'a ban': { reason: 'banned', options: () => banned, asked: [...twice, [1, 'a']] },
    'a store that fails': {
      reason: 'store-error',
      options: () => ({ ...quota, store: failing, onStoreError: 'deny' }),
    },
    'a store that fails and admits': {
      reason: 'store-error',
      options: () => ({ ...quota, store: failing, onStoreError: 'allow' }),
    },
    'a full store': { reason: 'store-full', options: () => full('deny'), asked: [...crowd, [1, 'a']] },
    'a full store that admits': {
      reason: 'store-full',
      options: () => full('admit'),
      asked: [...crowd, [1, 'a']],
    },
    'a switch': { reason: 'disabled', options: () => ({ ...quota, enabled: false }) },
  };

  for (const [name, { options, asked = twice, reason }] of Object.entries(scenes)) {
    for (const shadow of [false, true]) {
      const title = `is true of ${name}${shadow ? ', of a shadow' : ''}`;
      it(title, async () => {
        const limiter = createLimiter({ name: title, ...options(), shadow, warnings: false });
        let last: Decision | undefined;
        for (const [cost, key] of asked) expectAsTyped((last = await limiter.consume(key, { cost })));
        expect(last?.reason).to.equal(reason);
        if (shadow) expect(last?.allowed).to.equal(true);
        await limiter.close();
      });
    }
  }

  it('hold for lists, for a full queue, and for the decision that a handler gets', async () => {
    const decisions: Decision[] = [];
    const app = express();
    const options = {
      window: '1h',
      onDecision: (decision: Decision) => void decisions.push(decision),
    } as const;
    const path = (at: string) =>
      rateLimit({
        ...options,
        limit: 1,
        denyList: () => at === '/denied',
        allowList: () => at === '/allowed',
      });
    for (const at of ['/denied', '/allowed']) app.get(at, path(at), (_req, res) => void res.send('ok'));
    const statuses = [];
    for (const at of ['/denied', '/allowed']) statuses.push((await request(app).get(at)).status);
    expect(statuses).to.deep.equal([403, 200]);
    const handled = rateLimit({
      ...options,
      limit: 1,
      handler: (_req, res, decision) => {
        const denied: false = decision.allowed;
        res.json({ denied, reason: decision.reason });
      },
    });
    app.get('/handled', handled, (_req, res) => void res.send('ok'));
    await request(app).get('/handled');
    expect((await request(app).get('/handled')).body).to.deep.equal({
      denied: false,
      reason: 'quota-exceeded',
    });
    expect(decisions.map(({ reason }) => reason)).to.deep.equal([
      'deny-listed',
      'allow-listed',
      undefined,
      'quota-exceeded',
    ]);
    for (const decision of decisions) expectAsTyped(decision);

    const leaky = createLimiter({ policies: 'leaky-bucket 1/1h burst 1 max-delay 10h', maxWaiting: 1 });
    const admitted = [];
    for (let n = 0; n < 3; n++) admitted.push(await leaky.consume('k'));
    const [, waiting, last] = admitted.map((decision) => leaky.hold(decision).catch(() => undefined));
    const full = await last;
    expect(full?.reason).to.equal('queue-full');
    expectAsTyped(full!);
    await leaky.close();
    await waiting;
  });

  it('hold for random policies, shadows and costs', async () => {
    const scene = fc.record({
      policies: fc
        .array(
          fc.constantFrom(...algorithms).chain((algorithm) => fc.tuple(policyOf(algorithm), fc.boolean())),
          {
            minLength: 1,
            maxLength: 3,
          },
        )
        .map((list) => list.map(([policy, shadow], i) => ({ ...policy, name: `p${i}`, shadow }))),
      shadow: fc.boolean(),
      costs: fc.array(fc.record({ cost: fc.integer({ min: 0, max: 30 }), pause: fc.nat(2000) }), {
        maxLength: 20,
      }),
    });
    await fc.assert(
      fc.asyncProperty(scene, async ({ policies, shadow, costs }) => {
        const clock = new TestClock();
        const store = memoryStore({ clock: clock.read });
        const limiter = createLimiter({ store, policies, shadow, warnings: false });
        const maxDelay = Math.max(
          ...policies.map((policy) => Number('maxDelay' in policy && policy.maxDelay)),
        );
        for (const { cost, pause } of costs) {
          clock.advance(pause);
          expectAsTyped(await limiter.peek('k', { cost }), maxDelay);
          expectAsTyped(await limiter.consume('k', { cost }), maxDelay);
        }
        await limiter.close();
      }),
      runs('memory', 200, 0),
    );
  });
});
