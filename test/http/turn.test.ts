// Requests that come one at a time go on at once; those that come several in a turn of the event loop, when all of it are decided.
import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import type { Request, RequestHandler, Response } from 'express';
import { rateLimit } from 'headgate/express';

/** Requests until a crowd, or its end, is noticed. */
const MANY = 50;

interface Turn {
  /** What the turn's end finds: who was decided, and who went on. */
  readonly events: string[];
  readonly denied: number;
}

function makeMiddleware(limit: number): RequestHandler {
  return rateLimit({
    limit,
    window: '1h',
    keyGenerator: () => 'k',
    headers: false,
    handler: () => undefined,
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
  }
  await turn();
  return { events, denied };
}

async function crowd(limiter: RequestHandler): Promise<void> {
  for (let i = 0; i < MANY; i++) await hand(['x', 'y'], limiter);
}

async function calm(limiter: RequestHandler): Promise<void> {
  for (let i = 0; i < MANY; i++) await hand(['x'], limiter);
}

const AT_ONCE = ['a is asked for', 'a goes on', 'b is asked for', 'b goes on'];
const TOGETHER = ['a is asked for', 'b is asked for', 'a goes on', 'b goes on'];

describe('requests of one turn', () => {
  const limiter = makeMiddleware(1e9);

  afterEach(() => calm(limiter));

  it('go on at once, if those before came one at a time', async () => {
    await calm(limiter);
    expect((await hand(['a', 'b'], limiter)).events).to.deep.equal(AT_ONCE);
  });

  it('go on when all are decided, if those before came together; in their order', async () => {
    await crowd(limiter);
    for (let i = 0; i < MANY; i++) expect((await hand(['a', 'b'], limiter)).events).to.deep.equal(TOGETHER);
  });

  it('go on at once again after one that came alone', async () => {
    await crowd(limiter);
    await hand(['x'], limiter);
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

  it('wait again after one that threw', async () => {
    await crowd(limiter);
    const listeners = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    const thrown: Error[] = [];
    process.once('uncaughtException', (error) => thrown.push(error));
    try {
      for (let i = 0; i < 2; i++) {
        limiter({} as Request, {} as Response, () => {
          if (i === 0) throw new Error('of a handler');
        });
      }
      await turn();
    } finally {
      process.removeAllListeners('uncaughtException');
      for (const listener of listeners) process.on('uncaughtException', listener);
    }
    expect(thrown.map(({ message }) => message)).to.deep.equal(['of a handler']);
    expect((await hand(['a', 'b'], limiter)).events).to.deep.equal(TOGETHER);
  });
});
