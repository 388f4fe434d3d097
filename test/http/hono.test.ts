// Features of Hono alone. The conformance suite has the rest.
import { expect } from 'chai';
import { HeadgateError, memoryStore, type Store } from 'headgate';
import { rateLimit } from 'headgate/hono';
import { Hono, type Context } from 'hono';
import sinon from 'sinon';

const common = { algorithm: 'fixed-window', window: '1m', keyGenerator: () => 'ada' } as const;

describe('Hono', () => {
  it('limiters share one request, even if middleware between them replaces it', async () => {
    const app = new Hono();
    app.use(rateLimit({ ...common, name: 'all', limit: 9 }), async (c, next) => {
      c.req.raw = new Request(c.req.raw);
      await next();
    });
    app.get('/', rateLimit({ ...common, name: 'one', limit: 1 }), (c) => c.text('ok'));
    await app.request('/');
    const { status, headers } = await app.request('/');
    expect(status).to.equal(429);
    expect(headers.get('ratelimit')).to.equal('"all";r=7;t=60, "one";r=0;t=60');
    expect(headers.get('ratelimit-remaining')).to.equal('0');
  });

  it('charges a request once, and denies it again, if it meets the limiter twice at the same time', async () => {
    const limit = rateLimit({ ...common, limit: 1, keyGenerator: async () => 'ada' });
    const app = new Hono();
    app.get('/', async (c) => {
      const loader = async () => {
        await limit(c, async () => {});
        return c.res.status;
      };
      return c.json(await Promise.all([loader(), loader()]));
    });
    expect((await limit.limiter.peek('ada')).remaining).to.equal(1);
    expect((await app.request('/')).status).to.equal(200);
    expect((await limit.limiter.peek('ada')).remaining).to.equal(0);
    expect(await (await app.request('/')).json()).to.deep.equal([429, 429]);
  });

  it('answers 500 and logs the cause if a request has no address', async () => {
    const log = sinon.stub(console, 'error');
    const app = new Hono();
    app.use(rateLimit({ limit: 1, window: '1m', clientIp: ({ req }: Context) => req.header('x-real-ip') }));
    const { status } = await Promise.resolve(app.request('/')).finally(() => log.restore());
    expect(status).to.equal(500);
    expect(log.args.flat().map((error) => (error as HeadgateError).code)).to.deep.equal([
      'HEADGATE_NO_CLIENT_IP',
    ]);
  });

  it('answers 503 if the store fails', async () => {
    const failure = new HeadgateError('HEADGATE_STORE_ERROR', 'The server at 192.0.2.1 is away.');
    const store = Object.create(memoryStore(), { decide: { value: () => Promise.reject(failure) } }) as Store;
    const app = new Hono();
    app.use(rateLimit({ ...common, limit: 1, store, onStoreError: 'throw' }));
    const answer = await app.request('/');
    expect([answer.status, answer.headers.get('retry-after')]).to.deep.equal([503, '1']);
    expect(await answer.text()).to.equal('Rate limiting is temporarily unavailable.');
  });
});
