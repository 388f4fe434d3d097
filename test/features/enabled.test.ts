// Limiters without options, and limiters that are switched off.
import { expect } from 'chai';
import express, { type RequestHandler } from 'express';
import Fastify from 'fastify';
import request from 'supertest';
import { consumeAll, createLimiter, memoryStore, type Store } from 'headgate';
import { rateLimited } from 'headgate/decorators';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin, type RateLimitPluginOptions } from 'headgate/fastify';

/** A store that fails at any call. */
const untouched = () =>
  new Proxy({} as Store, {
    get: (_, name) =>
      ['decide', 'adjust', 'lease', 'reset', 'ban'].includes(String(name))
        ? () => {
            throw new Error(`The store was asked: ${String(name)}`);
          }
        : undefined,
  });

const one = { limit: 1, window: '1h', onStoreError: 'throw' } as const;

function expressApp(...limiters: RequestHandler[]) {
  const app = express();
  app.use(...limiters);
  app.get('/', (req, res) => void res.json({ remaining: req.rateLimit?.remaining ?? null }));
  return app;
}

async function fastifyApp(options: RateLimitPluginOptions = {}, config = {}) {
  const app = Fastify();
  await app.register(rateLimitPlugin, options);
  app.get('/', { config }, (req) => ({ remaining: req.rateLimit?.remaining ?? null }));
  return app;
}

describe('without options', () => {
  it('Express admits 1,000 requests a minute', async () => {
    for (const options of [undefined, {}, { name: 'all', store: memoryStore() }]) {
      const { headers } = await request(expressApp(rateLimit(options)))
        .get('/')
        .expect(200);
      expect(headers['ratelimit-policy']).to.match(/^"[^"]+";q=1000;w=60$/);
    }
  });

  for (const [title, options, config] of [
    ['the plugin', undefined, {}],
    ['a route of a plugin without a quota', { global: false }, { rateLimit: {} }],
  ] as const) {
    it(`Fastify admits 1,000 requests a minute: ${title}`, async () => {
      const app = await fastifyApp(options, config);
      const { headers, body } = await app.inject('/');
      expect(headers['ratelimit-policy']).to.match(/^"[^"]+";q=1000;w=60$/);
      expect(JSON.parse(body)).to.deep.equal({ remaining: 999 });
      await app.close();
    });
  }

  it('an incomplete quota is still an error', () => {
    for (const options of [{ limit: 5 }, { window: '1m' }, { limit: undefined }, { algorithm: 'gcra' }]) {
      expect(() => rateLimit(options as never))
        .to.throw()
        .with.property('code', 'HEADGATE_INVALID_OPTION');
    }
  });
});

describe('enabled: false', () => {
  for (const enabled of [false, () => false]) {
    describe(typeof enabled, () => {
      it('a limiter admits every request, without asking the store', async () => {
        const reported: unknown[] = [];
        const limiter = createLimiter({
          ...one,
          limit: 5,
          enabled,
          store: untouched(),
          onDecision: (decision) => reported.push(decision),
        });
        expect(limiter.enabled).to.equal(false);
        for (const decision of [
          await limiter.consume('key', { cost: 50 }),
          await limiter.peek('key'),
          await limiter.wait('key', { cost: 50, timeout: 1 }),
        ]) {
          expect(decision).to.include({
            allowed: true,
            reason: 'disabled',
            limit: 5,
            remaining: 5,
            charged: 0,
          });
          const verdict = { name: 'default', key: 'key', allowed: true, limit: 5, remaining: 5 };
          expect(decision.policies).to.deep.equal([{ ...verdict, retryAfterMs: 0, resetAfterMs: 0 }]);
          await decision.refund();
        }
        expect(reported).to.deep.equal([]);
        const other = createLimiter(one);
        const joint = await consumeAll([
          { limiter, key: 'key' },
          { limiter: other, key: 'key' },
        ]);
        expect(joint.decision.limit).to.equal(1);
      });

      it('a wrong key or cost is still refused', async () => {
        const limiter = createLimiter({ ...one, enabled });
        const error = await limiter.consume('key', { cost: -1 }).catch((reason: unknown) => reason);
        expect(error).to.have.property('code', 'HEADGATE_INVALID_COST');
      });

      it('requests pass Express as if there were no limiter', async () => {
        const keyGenerator = () => expect.fail('No key is needed');
        const sharedLimit = rateLimit({ limiter: createLimiter({ ...one, store: untouched(), enabled }) });
        const app = expressApp(rateLimit({ ...one, store: untouched(), enabled, keyGenerator }), sharedLimit);
        for (let i = 0; i < 3; i++) {
          const answer = await request(app).get('/').expect(200);
          expect(answer.headers).not.to.have.property('ratelimit');
          expect(answer.body).to.deep.equal({ remaining: null });
        }
      });

      it('the plugin switches its routes, too, and a route only itself', async () => {
        for (const [options, config] of [
          [{ ...one, enabled }, { rateLimit: { limit: 2, window: '1h' } }],
          [{ ...one }, { rateLimit: { enabled } }],
          [{ ...one, enabled: true }, { rateLimit: { limit: 2, window: '1h', enabled } }],
        ] as const) {
          const app = await fastifyApp(options, config);
          for (let i = 0; i < 3; i++) expect((await app.inject('/')).statusCode).to.equal(200);
          expect((await app.inject('/')).headers).not.to.have.property('ratelimit');
          await app.close();
        }
      });

      it('a function is called as if it were not limited', async () => {
        const key = () => expect.fail('No key is needed');
        const limited = rateLimited((n: number) => n, { ...one, enabled, key });
        expect(await limited(1)).to.equal(1);
        expect(await limited(2)).to.equal(2);
      });
    });
  }

  it('the function is called for each decision', async () => {
    let enabled = true;
    const limiter = createLimiter({ ...one, enabled: () => enabled });
    expect((await limiter.consume('key')).allowed).to.equal(true);
    expect((await limiter.consume('key')).allowed).to.equal(false);
    enabled = false;
    expect((await limiter.consume('key')).allowed).to.equal(true);
    enabled = true;
    expect((await limiter.consume('key')).allowed).to.equal(false);
  });

  it('overrides are not read, either', async () => {
    let enabled = true;
    let reads = 0;
    const isOn = () => {
      reads++;
      return enabled;
    };
    const store = memoryStore();
    const limiter = createLimiter({ ...one, store, overrides: true, enabled: isOn });
    // The override leaves no policy, so the limiter reads before each decision whether the override still exists.
    await limiter.override('key', { default: false });
    await limiter.consume('key');
    enabled = false;
    const { decide } = store;
    store.decide = () => expect.fail('The store was asked');
    Object.defineProperty(store.overrides, 'read', { value: () => expect.fail('The record was read') });
    expect((await limiter.consume('key')).allowed).to.equal(true);
    expect(reads, 'once for each decision').to.equal(2);
    store.decide = decide;
  });

  it('a function that answers later, or without a boolean, is refused', async () => {
    for (const answer of [Promise.resolve(false), undefined, 0, 'off']) {
      const limiter = createLimiter({ ...one, enabled: (() => answer) as never });
      const error = await limiter.consume('key').catch((reason: unknown) => reason);
      expect(error).to.have.property('code', 'HEADGATE_INVALID_OPTION');
    }
  });
});
