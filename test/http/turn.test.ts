// Requests that come one at a time go on at once; those that come several in a turn of the event loop, when all of it are decided.
import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import type { Request, RequestHandler, Response } from 'express';
import type { Store } from 'headgate';
import { rateLimit } from 'headgate/express';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { servers } from '../support/shared-servers.js';
import { calm } from '../support/turns.js';

/** Turns until a crowd is noticed. */
const MANY = 50;

interface Turn {
  /** What the turn's end finds: who was decided, and who went on. */
  readonly events: string[];
  readonly denied: number;
}

function makeMiddleware(limit: number, store?: Store): RequestHandler {
  return rateLimit({
    limit,
    window: '1h',
    keyGenerator: () => 'k',
    headers: false,
    handler: () => undefined,
    ...(store && { name: 'turns', store }),
  });
}

/** Hands requests over in one turn, and waits for the next one. */
async function hand(names: readonly string[], ...limiters: RequestHandler[]): Promise<Turn> {
  const events: string[] = [];
  let denied = 0;
  const res = { setHeader: () => undefined } as unknown as Response;
  for (const name of names) {
    const req = {} as Request;
    const pass = (i: number): unknown => {
      if (i === limiters.length) return events.push(`${name} goes on`);
      events.push(`${name} is asked for`);
      limiters[i]!(req, res, () => pass(i + 1));
      if (req.rateLimit?.allowed === false) denied++;
      return undefined;
    };
    pass(0);
    // As between what two sockets have.
    await Promise.resolve();
  }
  await turn();
  return { events, denied };
}

async function crowd(limiter: RequestHandler): Promise<void> {
  for (let i = 0; i < MANY; i++) await hand(['x', 'y'], limiter);
}

const AT_ONCE = ['a is asked for', 'a goes on', 'b is asked for', 'b goes on'];
const TOGETHER = ['a is asked for', 'b is asked for', 'a goes on', 'b goes on'];

describe('requests of one turn', () => {
  const limiter = makeMiddleware(1e9);

  afterEach(() => calm());

  it('go on at once, if those before came one at a time', async () => {
    await calm();
    expect((await hand(['a', 'b'], limiter)).events).to.deep.equal(AT_ONCE);
  });

  it('go on when all are decided, if those before came together; in their order', async () => {
    await crowd(limiter);
    for (let i = 0; i < MANY; i++) expect((await hand(['a', 'b'], limiter)).events).to.deep.equal(TOGETHER);
  });

  it('go on together still, if few of those before came alone; at once, if eight did', async () => {
    await crowd(limiter);
    for (let i = 0; i < 7; i++) await hand(['x'], limiter);
    expect((await hand(['a', 'b'], limiter)).events).to.deep.equal(TOGETHER);
    for (let i = 0; i < 8; i++) await hand(['x'], limiter);
    expect((await hand(['a', 'b'], limiter)).events).to.deep.equal(AT_ONCE);
  });

  it('count once, however many limiters they pass', async () => {
    const other = makeMiddleware(1e9);
    for (let i = 0; i < MANY; i++) await hand(['x'], limiter, other);
    expect((await hand(['a', 'b'], limiter)).events).to.deep.equal(AT_ONCE);
  });

  it('wait for the first of their limiters alone', async () => {
    await crowd(limiter);
    const { events } = await hand(['a', 'b'], limiter, makeMiddleware(1e9));
    expect(events).to.deep.equal([
      'a is asked for',
      'b is asked for',
      'a is asked for',
      'a goes on',
      'b is asked for',
      'b goes on',
    ]);
  });

  it('are admitted up to the limit, and denied without waiting', async () => {
    await crowd(limiter);
    const { events, denied } = await hand(['a', 'b', 'c'], makeMiddleware(1));
    expect(denied).to.equal(2);
    expect(events).to.deep.equal(['a is asked for', 'b is asked for', 'c is asked for', 'a goes on']);
  });

  it('keep their asynchronous contexts', async () => {
    const storage = new AsyncLocalStorage<string>();
    await crowd(limiter);
    const seen: (string | undefined)[] = [];
    for (const name of ['a', 'b']) {
      storage.run(name, () => {
        limiter({} as Request, {} as Response, () => seen.push(storage.getStore()));
      });
    }
    await turn();
    expect(seen).to.deep.equal(['a', 'b']);
  });

  it('do not fail with one whose handler throws', async () => {
    await crowd(limiter);
    const listeners = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    const events: string[] = [];
    process.once('uncaughtException', ({ message }) => events.push(message));
    try {
      limiter({} as Request, {} as Response, () => {
        throw new Error('a handler throws');
      });
      limiter({} as Request, {} as Response, () => events.push('the other goes on'));
      await turn();
    } finally {
      process.removeAllListeners('uncaughtException');
      for (const listener of listeners) process.on('uncaughtException', listener);
    }
    expect(events).to.deep.equal(['a handler throws', 'the other goes on']);
  });

  describe('on Redis', () => {
    let client: Redis;
    let onRedis: RequestHandler;
    before(async () => {
      client = new Redis(servers.redis.port);
      await once(client, 'ready');
      onRedis = makeMiddleware(1e9, redisStore(client));
      // The first call tells the process the server's time.
      await ask();
    });
    after(() => client.disconnect());

    const ask = (): Promise<void> =>
      new Promise((resolve, reject) => {
        const next = (cause?: unknown): void =>
          cause ? reject(new Error('It failed.', { cause })) : resolve();
        onRedis({} as Request, {} as Response, next);
      });

    /** How many calls so many requests make that come in one turn. */
    async function callsOf(count: number): Promise<number> {
      await client.config('RESETSTAT');
      await Promise.all(Array.from({ length: count }, ask));
      return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(await client.info('commandstats'))![1]);
    }

    it('are each asked for at once, if they are few and those before came one at a time', async () => {
      await calm();
      expect(await callsOf(5)).to.equal(5);
    });

    it('are asked for in one call, however few, if those before came together', async () => {
      await crowd(limiter);
      for (const count of [2, 5, 9]) expect(await callsOf(count), `${count}`).to.equal(1);
    });
  });
});
