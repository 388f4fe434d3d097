// A `handler` with its parameters in a wrong order: every adapter reports the mistake at the first denial, with the signature.
import { getRequestListener } from '@hono/node-server';
import { Controller, type Type } from '@nestjs/common';
import { expect } from 'chai';
import express from 'express';
import Fastify from 'fastify';
import { memoryStore } from 'headgate';
import { rateLimit as onExpress } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import { rateLimit as onHono } from 'headgate/hono';
import { rateLimit as onKoa } from 'headgate/koa';
import { RateLimitModule } from 'headgate/nestjs';
import { rateLimit as onWeb } from 'headgate/web';
import { Hono } from 'hono';
import Koa from 'koa';
import request from 'supertest';
import { emittedCodes } from '../../src/common/warnings.js';
import { all, decorate, listen, moduleOf, platforms } from '../support/nest.js';

/** An argument of a handler, with every property that handlers use. */
interface Argument {
  retryAfterMs?: number;
  body?: unknown;
  json: (body: object) => unknown;
  send?: (body: string | object) => unknown;
  end?: () => unknown;
}

/** A handler as JavaScript calls it, without the types that would refuse the mistake. */
type Handler = (first: Argument, second: Argument, third: Argument) => unknown;

const options = (handler: Handler) => ({
  limit: 1,
  window: '1h' as const,
  keyGenerator: () => 'all',
  handler: handler as never,
});

/** Sends an admitted request and a denied one to a limiter with a handler. */
type Adapter = (handler: Handler) => Promise<void>;

async function askTwice(server: Parameters<typeof request>[0]): Promise<void> {
  for (let i = 0; i < 2; i++) await request(server).get('/');
}

const onNest: Adapter = async (handler) => {
  class Home {
    home(): string {
      return 'ok';
    }
  }
  Controller()(Home);
  decorate(Home as Type, 'home', all());
  const limits = RateLimitModule.forRoot({ store: memoryStore(), ...options(handler) });
  const { app, url } = await listen(moduleOf([Home], limits), platforms['Express']!());
  try {
    await askTwice(url);
  } finally {
    await app.close();
  }
};

const adapters: Record<string, { ask: Adapter; signature: string }> = {
  Express: {
    signature: 'handler(req, res, decision)',
    ask: (handler) => {
      const app = express().set('env', 'test');
      app.use(onExpress(options(handler)), (_req, res) => void res.end('ok'));
      return askTwice(app);
    },
  },
  Fastify: {
    signature: 'handler(request, reply, decision)',
    ask: async (handler) => {
      const app = Fastify();
      await app.register(rateLimitPlugin, options(handler));
      app.get('/', () => 'ok');
      for (let i = 0; i < 2; i++) await app.inject('/');
      await app.close();
    },
  },
  Koa: {
    signature: 'handler(ctx, ctx, decision)',
    ask: (handler) => {
      const app = new Koa({ proxy: true }).on('error', () => {});
      app.use(onKoa(options(handler))).use((ctx) => void (ctx.body = 'ok'));
      return askTwice(app.callback());
    },
  },
  Hono: {
    signature: 'handler(c, reply, decision)',
    ask: (handler) => {
      const app = new Hono().onError((_error, c) => c.text('failed', 500));
      app.use(onHono(options(handler))).get('/', (c) => c.text('ok'));
      return askTwice(getRequestListener(app.fetch, { overrideGlobalObjects: false }));
    },
  },
  Web: {
    signature: 'handler(request, reply, decision)',
    ask: async (handler) => {
      const limit = onWeb(options(handler))(() => new Response('ok'));
      for (let i = 0; i < 2; i++) await limit(new Request('http://localhost/')).catch(() => {});
    },
  },
  NestJS: { signature: 'handler(context, response, decision)', ask: onNest },
};

/** Handlers that take the decision for another argument, and the reported symptom. */
const mistaken: Record<string, [handler: Handler, symptom: RegExp]> = {
  'reads the decision from the second argument': [
    (_request, { retryAfterMs }) => expect(retryAfterMs).to.equal(undefined),
    /read `retryAfterMs` from an argument that is not the decision/,
  ],
  'writes to the decision': [
    (_request, _decision, response) => void (response.body = 'later'),
    /wrote to the decision/,
  ],
  'calls a method of the decision': [
    async (_request, _decision, response) => {
      await Promise.resolve();
      response.json({ error: 'later' });
    },
    /threw 'response\.json is not a function'/,
  ],
};

const right: Record<string, Handler> = {
  Express: (_req, res, { retryAfterMs }) => res.json({ retryAfterMs }),
  Fastify: (_request, reply, { retryAfterMs }) => reply.send!({ retryAfterMs }),
  Koa: (ctx, _ctx, { retryAfterMs }) => (ctx.body = { retryAfterMs }),
  Hono: (_c, reply, { retryAfterMs }) => (reply.body = String(retryAfterMs)),
  Web: (_request, reply, { retryAfterMs }) => (reply.body = String(retryAfterMs)),
  NestJS: (_context, response, { retryAfterMs }) => response.json({ retryAfterMs }),
};

describe('the arguments of a handler', () => {
  const { emitWarning } = process;
  let warned: string[] = [];

  beforeEach(() => {
    process.emitWarning = ((message: string, { code }: { code?: string }) => {
      if (code === 'HEADGATE_HANDLER_ARGUMENTS') warned.push(message);
    }) as typeof emitWarning;
    warned = [];
    emittedCodes.clear();
  });
  afterEach(() => (process.emitWarning = emitWarning));

  for (const [name, { ask, signature }] of Object.entries(adapters)) {
    for (const [mistake, [handler, symptom]] of Object.entries(mistaken)) {
      it(`${name}: a handler that ${mistake} is reported with the signature`, async () => {
        let denials = 0;
        await ask((...args) => {
          denials++;
          const answer = handler(...args);
          endSilently(args[1]);
          return answer;
        });
        expect(denials).to.equal(1);
        expect(warned).to.have.length(1);
        expect(warned[0]).to.match(symptom).and.to.contain(`Its signature is ${signature}:`);
      });
    }

    it(`${name}: a handler with the right order is not reported`, async () => {
      await ask(right[name]!);
      expect(warned).to.deep.equal([]);
    });
  }

  for (const name of ['Hono', 'Web'])
    it(`${name}: a handler that returns a Response is reported, because it is not sent`, async () => {
      await adapters[name]!.ask(() => new Response('later'));
      expect(warned[0]).to.match(/returned a Response, which is not sent/);
    });

  for (const name of ['Express', 'Fastify', 'NestJS'])
    it(`${name}: a handler that returns a value instead of sending it is reported`, async () => {
      await adapters[name]!.ask((_request, response) => {
        setImmediate(() => endSilently(response));
        return { error: 'later' };
      });
      expect(warned[0]).to.match(/returned a value, which is not sent/);
    });

  it('Hono: a handler that takes the context for the reply is reported', async () => {
    await adapters['Hono']!.ask((reply) => void (reply.body = 'later'));
    expect(warned[0]).to.match(/set the body of the request instead of the response/);
  });

  it('an error that is not a mistake of types is not reported, and fails the request as before', async () => {
    await adapters['Express']!.ask(() => {
      throw new Error('no database');
    });
    expect(warned).to.deep.equal([]);
  });
});

/** Ends the response where the mistaken handler would leave it open. */
function endSilently(response: Argument): void {
  if (typeof response.send === 'function') response.send('');
  else if (typeof response.end === 'function') response.end();
}
