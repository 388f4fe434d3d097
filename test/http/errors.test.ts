// The frameworks' own answers to a failed request: they contain no details that only the server may know.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { inspect } from 'node:util';
import { expect } from 'chai';
import express5 from 'express';
import express4 from 'express4';
import Fastify from 'fastify';
import { createLimiter, HeadgateError, type Store } from 'headgate';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import type { HttpOptions } from 'headgate/http';
import { rateLimit as koaRateLimit } from 'headgate/koa';
import Koa from 'koa';
import { ask, type Answer } from './client.js';

type Options = HttpOptions<object, object>;

interface Outcome {
  readonly answer: Answer;
  /** The text of the log. */
  readonly log: string;
}

const overExpress =
  (express: typeof express5) =>
  async (options: Options): Promise<Outcome> => {
    const app = express();
    // Otherwise Express sends the stack.
    app.set('env', 'production');
    app.use(rateLimit(options as never));
    const server = app.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { error } = console;
    let log = '';
    console.error = (logged: unknown) => (log += inspect(logged));
    try {
      const answer = await ask(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
      await new Promise(setImmediate);
      return { answer, log };
    } finally {
      console.error = error;
      server.closeAllConnections();
      server.close();
    }
  };

async function overFastify(options: Options): Promise<Outcome> {
  let log = '';
  const stream = { write: (line: string) => void (log += line) };
  const app = Fastify({ logger: { stream }, forceCloseConnections: true });
  await app.register(rateLimitPlugin, options as never);
  app.get('/', () => 'ok');
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  const answer = await ask(url);
  await app.close();
  return { answer, log };
}

async function overKoa(options: Options): Promise<Outcome> {
  const app = new Koa();
  let log = '';
  app.on('error', (error) => (log += inspect(error)));
  app.use(koaRateLimit(options as never));
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const answer = await ask(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  server.closeAllConnections();
  server.close();
  return { answer, log };
}

const DETAILS = 'connect ECONNREFUSED 10.1.2.3:6379, key ada@example.org';

function failing(): Store {
  const fail = () => Promise.reject(new Error(DETAILS));
  return { decide: fail, adjust: fail, lease: fail, reset: fail, ban: fail };
}

const frameworks = {
  'Express 4': overExpress(express4 as unknown as typeof express5),
  'Express 5': overExpress(express5),
  'Fastify 5': overFastify,
  Koa: overKoa,
};

for (const [name, serve] of Object.entries(frameworks)) {
  describe(`a request that fails, on ${name}`, () => {
    it('because of the store: 503, Retry-After, and the details only in the log', async () => {
      const { answer, log } = await serve({
        store: failing(),
        limit: 1,
        window: '1m',
        onStoreError: 'throw',
      });
      expect(answer.status).to.equal(503);
      expect(answer.headers).to.include({ 'retry-after': '1' });
      expect(answer.text).not.to.match(/10\.1\.2\.3|ada/);
      expect(log).to.include(DETAILS);
      // Each of these requests is logged while a store is down.
      expect(log.trim().split('\n')).to.have.length.below(6);
    });

    it('because its limiter is closed: 503, with the code of that error', async () => {
      const limiter = createLimiter({ limit: 1, window: '1m' });
      await limiter.close();
      const { answer, log } = await serve({ limiter });
      expect(answer.status).to.equal(503);
      expect(answer.headers).to.include({ 'retry-after': '1' });
      expect(log).to.include('is closed');
    });

    it('because of an invalid key: 500, without the key', async () => {
      const { answer, log } = await serve({
        limit: 1,
        window: '1m',
        keyGenerator: () => ({ email: 'ada@example.org' }) as unknown as string,
      });
      expect(answer.status).to.equal(500);
      expect(answer.text).not.to.include('ada');
      expect(log).to.include('ada@example.org');
    });

    for (const [what, policies, quoted] of [
      ['that are invalid', ['a=5/1m', 'secret-plan 10/1m'], 'secret-plan'],
      ['by a key that it has not got', ['a=5/1m by secret-plan'], 'secret-plan'],
    ] as const) {
      it(`because of policies ${what}: 500, without their text`, async () => {
        const { answer, log } = await serve({ policies: () => policies });
        expect(answer.status).to.equal(500);
        expect(answer.text).not.to.match(/secret|polic/);
        expect(log).to.include(quoted);
      });
    }
  });
}

describe('the error of a request that fails', () => {
  it('has its code, and the details as its cause', async () => {
    const middleware = rateLimit({
      store: failing(),
      policies: '1/1m',
      keyGenerator: () => 'key',
      onStoreError: 'throw',
    });
    const error = await new Promise<unknown>((resolve) => {
      void middleware({} as never, {} as never, resolve);
    });
    expect(error).to.be.instanceOf(HeadgateError);
    const { code, message, cause } = error as HeadgateError;
    expect(code).to.equal('HEADGATE_STORE_ERROR');
    expect(message).to.equal('Rate limiting is temporarily unavailable.');
    expect((cause as HeadgateError).message).to.include(DETAILS);
  });
});
