// A process whose workers share slots with further processes. A worker waits for a slot, works for some time, and gives the slot back.
// Arguments: the task as JSON. The process reports each turn, and its tenant, and the code of each failure.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import express from 'express';
import { Redis } from 'ioredis';
import { createLimiter, type CreateLimiterOptions, type Store } from 'headgate';
import { rateLimit } from 'headgate/express';
import { limitFetch } from 'headgate/fetch';
import { redisStore } from 'headgate/redis';
import { storeOn } from './sqlite.js';

export interface SlotsTask {
  /** The way in which the workers wait. */
  readonly by: 'wait' | 'fetch' | 'http';
  /** The path of an SQLite file, or the port of Redis with a prefix. */
  readonly store: string | readonly [port: number, prefix: string];
  readonly limit: number;
  readonly workers: number;
  readonly workMs: number;
  /** The tenants that share the slots, each with so many workers. */
  readonly tenants?: readonly string[];
}

const { by, store: place, limit, workers, workMs, tenants } = JSON.parse(process.argv[2]!) as SlotsTask;
const store: Store =
  typeof place === 'string' ? storeOn(place) : redisStore(new Redis(place[0]), { prefix: place[1] });
const slots = { algorithm: 'concurrency', limit, lease: '10s', ...(tenants && { share: 'tenant' }) } as const;
const options: CreateLimiterOptions = { name: 'slots', policies: [slots], store, timeout: '5s' };

/** A server that answers after the work. */
async function listen(app: Parameters<typeof createServer>[1]): Promise<string> {
  const server = createServer(app).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** A turn of a worker of a tenant, if there are tenants. @returns the code of its failure, or undefined */
const ways: Record<SlotsTask['by'], () => Promise<(tenant?: string) => Promise<string | undefined>>> = {
  async wait() {
    const limiter = createLimiter(options);
    await limiter.peek('k');
    return async (tenant) => {
      const slot = await limiter.wait(tenant === undefined ? 'k' : { key: 'k', tenant }, { timeout: '20s' });
      await sleep(workMs);
      await slot.release();
      return undefined;
    };
  },
  async fetch() {
    const url = await listen((_, response) => void setTimeout(() => response.end('done'), workMs));
    const call = limitFetch(fetch, { ...options, key: () => 'k', timeout: '20s' });
    await call.limiter.peek('k');
    return async () => {
      const response = await call(url);
      await response.text();
      return undefined;
    };
  },
  async http() {
    const app = express();
    app.use(rateLimit({ ...options, keyGenerator: () => 'k', wait: '20s' }));
    app.get('/', (_, response) => void setTimeout(() => response.send('done'), workMs));
    const url = await listen(app);
    return async () => {
      const response = await fetch(url);
      await response.text();
      return response.ok ? undefined : String(response.status);
    };
  },
};

const turn = await ways[by]();
const work = async (tenant?: string): Promise<never> => {
  for (;;) {
    let failure: string | undefined;
    try {
      failure = await turn(tenant);
    } catch (error) {
      failure = String((error as { code?: string }).code ?? error);
    }
    process.send!(failure ?? (tenant === undefined ? 'turn' : `turn ${tenant}`));
  }
};
process.on('disconnect', () => process.exit());
process.on('message', () => {
  for (const tenant of tenants ?? [undefined]) for (let i = 0; i < workers; i++) void work(tenant);
});
process.send!('ready');
