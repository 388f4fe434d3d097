// Law 13 over HTTP and across limiters: units that a response, a stacked limiter or consumeAll gives back are as if they had never been charged.
import { expect } from 'chai';
import express from 'express';
import Fastify from 'fastify';
import request from 'supertest';
import { consumeAll, createLimiter, memoryStore } from 'headgate';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import { START, TestClock } from '../support/clock.js';

const log = { algorithm: 'sliding-log', limit: 5, window: '1s' } as const;
const key = (): string => 'k';

/** A server that answers a login right (200) or wrong (401), and does not count the right ones. */
async function serve(kind: 'express' | 'fastify', clock: TestClock) {
  const limiter = createLimiter({ name: 'login', store: memoryStore({ clock: clock.read }), ...log });
  const options = { limiter, keyGenerator: key, skipSuccessfulRequests: true };
  if (kind === 'express') {
    const app = express();
    app.use(rateLimit(options));
    app.get('/:status', (req, res) => void res.sendStatus(Number(req.params.status)));
    return { limiter, ask: (status: number) => request(app).get(`/${status}`), close: async () => {} };
  }
  const app = Fastify();
  await app.register(rateLimitPlugin, { global: true, ...options });
  app.get('/:status', (req, reply) => reply.code(Number((req.params as { status: string }).status)).send(''));
  await app.ready();
  return {
    limiter,
    ask: (status: number) => request(app.server).get(`/${status}`),
    close: () => app.close(),
  };
}

describe('law 13, return, over HTTP', () => {
  for (const kind of ['express', 'fastify'] as const) {
    it(`${kind}: wrong passwords leave in their time, however many logins succeed meanwhile`, async () => {
      const clock = new TestClock();
      const { limiter, ask, close } = await serve(kind, clock);
      const settled = async (remaining: number) => {
        // The response is sent before its cost is given back.
        while ((await limiter.peek('k')).remaining !== remaining) await new Promise(setImmediate);
      };
      for (let wrong = 1; wrong <= 4; wrong++) {
        await ask(401).expect(401);
        clock.now += 10;
      }
      for (let i = 0; i < 20; i++) {
        await ask(200).expect(200);
        await settled(1);
        clock.now += 40;
      }
      clock.now = START + 1_000 + 5;
      await settled(2);
      clock.now = START + 1_030;
      await settled(5);
      await close();
      await limiter.close();
    });
  }

  it('a limiter before another one that denied, and consumeAll: as if never asked', async () => {
    const clock = new TestClock();
    const store = memoryStore({ clock: clock.read });
    const [first, tight] = [
      createLimiter({ name: 'first', store, ...log }),
      createLimiter({ name: 'tight', store, limit: 1, window: '1h' }),
    ];
    const app = express();
    app.get(
      '/',
      ...[first, tight].map((limiter) => rateLimit({ limiter, keyGenerator: key })),
      (_req, res) => {
        res.send('');
      },
    );
    await request(app).get('/').expect(200);
    clock.now += 500;
    await request(app).get('/').expect(429);
    const joint = await consumeAll([first, tight].map((limiter) => ({ limiter, key: 'k' })));
    expect(joint.allowed).to.equal(false);
    while ((await first.peek('k')).remaining !== 4) await new Promise(setImmediate);
    // Only the unit of the admitted request counts.
    clock.now = START + 999;
    expect((await first.peek('k')).remaining).to.equal(4);
    clock.now = START + 1_000;
    expect((await first.peek('k')).remaining).to.equal(5);
    for (const limiter of [first, tight]) await limiter.close();
  });
});
