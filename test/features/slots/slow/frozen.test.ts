// Requests that run while their store is down for longer than a lease keep their slots.
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import express from 'express';
import { Redis } from 'ioredis';
import { createLimiter, type Store } from 'headgate';
import { rateLimit } from 'headgate/express';
import { redisStore } from 'headgate/redis';
import { around } from '../../../support/around.js';
import { startServer } from '../../../support/servers.js';
import { memory } from '../../../support/stores.js';

const LEASE = 1500;

const options = {
  name: 'frozen',
  policies: `concurrency 3/${LEASE}ms`,
  timeout: '150ms',
  warnings: false,
  onHealth: () => {},
} as const;

interface Backend {
  connect(): Store;
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  close(): Promise<void>;
}

const backends: Record<string, () => Promise<Backend>> = {
  'Redis that is frozen': async () => {
    const server = await startServer('redis');
    const clients: Redis[] = [];
    return {
      connect: () => {
        clients.push(new Redis(server.port));
        return redisStore(clients.at(-1)!);
      },
      freeze: () => server.kill('SIGSTOP'),
      thaw: () => server.kill('SIGCONT'),
      close: async () => {
        for (const client of clients) client.disconnect();
        await server.stop();
      },
    };
  },
  'a store that fails': async () => {
    const inner = memory();
    let isDown = false;
    const failing = async <T>(call: () => T): Promise<Awaited<T>> => {
      if (isDown) throw new Error('It is down.');
      return await call();
    };
    return {
      connect: () =>
        around(inner, {
          decide: (query) => failing(() => inner.decide(query)),
          lease: (change) => failing(() => inner.lease(change)),
        }),
      freeze: async () => void (isDown = true),
      thaw: async () => void (isDown = false),
      close: async () => {},
    };
  },
};

for (const [name, open] of Object.entries(backends)) {
  it(`slots of requests that still run come back after ${name}, and those of a dead process do not`, async function () {
    this.timeout(60_000);
    const backend = await open();
    const servers: Server[] = [];
    const held: Promise<unknown>[] = [];
    const limiter = createLimiter({ ...options, store: backend.connect() });
    const left = async () => (await limiter.peek('ada')).remaining;
    try {
      for (let i = 0; i < 2; i++) {
        const app = express();
        app.use(rateLimit({ ...options, store: backend.connect(), keyGenerator: () => 'ada' }));
        app.get('/hang', () => {});
        const server = createServer(app).listen(0, '127.0.0.1');
        servers.push(server);
        await once(server, 'listening');
        const { port } = server.address() as AddressInfo;
        held.push(fetch(`http://127.0.0.1:${port}/hang`).catch(() => {}));
      }
      while ((await left()) > 1) await sleep(10);
      const dead = createLimiter({ ...options, store: backend.connect() });
      expect((await dead.acquire('ada')).allowed).to.be.true;
      await backend.freeze();
      await sleep(2 * LEASE);
      await backend.thaw();
      while ((await limiter.peek('ada')).degraded) await sleep(10);
      while ((await left()) !== 1) await sleep(10);
      // From now on, the two requests keep their slots for longer than a lease.
      const found = new Set<number>();
      for (const until = performance.now() + 2 * LEASE; performance.now() < until; await sleep(50))
        found.add(await left());
      expect([...found]).to.deep.equal([1]);
      for (const server of servers) server.closeAllConnections();
      await Promise.all(held);
      while ((await left()) < 3) await sleep(10);
    } finally {
      for (const server of servers) {
        server.close();
        server.closeAllConnections();
      }
      await backend.close();
    }
  });
}
