// Decisions of the memory store go on in the same call, however many requests a turn of the event loop brings.
import { once } from 'node:events';
import { connect, type AddressInfo } from 'node:net';
import { mock } from 'node:test';
import { expect } from 'chai';
import express, { type Request, type Response } from 'express';
import Fastify from 'fastify';
import { rateLimit, type RateLimitOptions } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';

const turn = () => new Promise(setImmediate);

/** Passes a request to a limiter, which calls `next` when the request goes on. */
type Hand = (next: (error?: unknown) => void) => void;

const limit: RateLimitOptions = { limit: 1e9, window: '1h', headers: false };

const middlewares: Readonly<Record<string, () => Promise<Hand>>> = {
  express: async () => {
    const middleware = rateLimit(limit);
    return (next) => void middleware({ ip: '192.0.2.1' } as Request, {} as Response, next);
  },
  fastify: async () => {
    const app = Fastify();
    await app.register(rateLimitPlugin, { global: false, ...limit } as object);
    const hook = app.rateLimit() as unknown as (...args: unknown[]) => void;
    return (next) => hook({ ip: '192.0.2.1' }, {}, next);
  },
};

describe('a request that the memory store decides', () => {
  for (const [name, make] of Object.entries(middlewares)) {
    it(`goes on at once under fake timers, even on a busy server (${name})`, async () => {
      const hand = await make();
      let passed = 0;
      const next = () => void passed++;
      for (let i = 0; i < 50; i++) {
        hand(next);
        hand(next);
        await turn();
      }
      mock.timers.enable({ apis: ['setImmediate', 'setTimeout', 'setInterval'] });
      try {
        passed = 0;
        for (let i = 1; i <= 50; i++) {
          hand(next);
          expect(passed).to.equal(i);
        }
      } finally {
        mock.timers.reset();
      }
    });
  }
});

describe('a concurrency policy before a synchronous handler', function () {
  this.timeout(60_000);

  it('denies no request, however many a turn brings: their handlers never run at once', async () => {
    const app = express();
    app.use(rateLimit({ algorithm: 'concurrency', limit: 10, lease: '1m' }));
    app.get('/', (_req, res) => {
      const end = performance.now() + 1;
      while (performance.now() < end);
      res.end();
    });
    const server = app.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const sockets = await Promise.all(
      Array.from({ length: 30 }, async () => {
        const socket = connect(port, '127.0.0.1').setEncoding('latin1');
        await once(socket, 'connect');
        return socket;
      }),
    );
    const statuses = new Set<string>();
    for (let round = 0; round < 20; round++) {
      const answers = sockets.map((socket) => once(socket, 'data') as Promise<[string]>);
      for (const socket of sockets) socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
      for (const [text] of await Promise.all(answers)) statuses.add(text.split(' ')[1]!);
    }
    for (const socket of sockets) socket.destroy();
    server.close();
    expect([...statuses]).to.deep.equal(['200']);
  });
});
