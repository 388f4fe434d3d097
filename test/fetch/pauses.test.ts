// Pauses under fake timers, at the end of the limiter, and with one signal for many calls.
import { getEventListeners } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mock } from 'node:test';
import { expect } from 'chai';
import { createLimiter } from 'headgate';
import { limitFetch } from 'headgate/fetch';
import { useFakeTimers } from 'sinon';
import { codeOf } from '../support/errors.js';

const url = 'http://partner.test/';
const wide = { policies: ['1000/1s'], warnings: false } as const;

/** Denies the first call for a second, and answers the others. */
function partner() {
  let calls = 0;
  return (): Promise<Response> => {
    const isFirst = calls++ === 0;
    return Promise.resolve(
      new Response('x', isFirst ? { status: 429, headers: { 'retry-after': '1' } } : {}),
    );
  };
}

const turns = async (): Promise<void> => {
  for (let i = 0; i < 100; i++) await Promise.resolve();
};
describe('a pause of limitFetch', () => {
  it('ends by the fake timers of node:test, for a retry and for a later call', async () => {
    mock.timers.enable({ apis: ['setTimeout', 'Date'] });
    try {
      const call = limitFetch(partner(), wide);
      const retried = call(url);
      await turns();
      mock.timers.tick(1000);
      expect((await retried).status).to.equal(200);

      const once = limitFetch(partner(), { ...wide, retry: false });
      expect((await once(url)).status).to.equal(429);
      await turns();
      mock.timers.tick(60_000);
      expect((await once(url)).status).to.equal(200);
    } finally {
      mock.timers.reset();
    }
  });

  it('ends by the fake timers of sinon', async () => {
    const clock = useFakeTimers({ toNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
    try {
      const retried = limitFetch(partner(), wide)(url);
      await turns();
      await clock.tickAsync(1000);
      expect((await retried).status).to.equal(200);
    } finally {
      clock.restore();
    }
  });

  it('ends with the limiter: calls that sleep reject at once', async () => {
    const limiter = createLimiter({ limit: 100, window: '1s', warnings: false });
    const call = limitFetch(partner(), { limiter });
    const retried = codeOf(call(url));
    await turns();
    await limiter.close();
    const later = turns().then(() => 'it sleeps on');
    expect(await Promise.race([retried, later])).to.equal('HEADGATE_CLOSED');
    expect(await codeOf(call(url))).to.equal('HEADGATE_CLOSED');
  });

  it('ends for a call that is aborted', async () => {
    const stop = new AbortController();
    const call = limitFetch(partner(), wide);
    const retried = call(url, { signal: stop.signal }).catch((error: unknown) => error);
    await turns();
    stop.abort('enough');
    expect(await retried).to.equal('enough');
    expect(getEventListeners(stop.signal, 'abort')).to.have.length(0);
  });
});

describe('one signal for many waits', () => {
  const warned: string[] = [];
  const listener = ({ name }: Error) => void warned.push(name);
  let server: Server;
  before(async () => {
    process.on('warning', listener);
    server = createServer((_, response) => void response.end('x'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  after(() => {
    process.off('warning', listener);
    server.closeAllConnections();
    server.close();
  });

  it('prints no warning, in the line, in a hold and in a pause; each abort reaches all of them', async () => {
    const many = Array.from({ length: 15 });
    const stop = new AbortController();
    const { signal } = stop;
    const limiter = createLimiter({ limit: 1, window: '1m', warnings: false });
    await limiter.consume('k');
    const bucket = createLimiter('leaky-bucket 1/1m burst 1');
    const paced = createLimiter({ algorithm: 'leaky-bucket', limit: 1, window: '1m', maxDelay: '1h' });
    await paced.consume('k');
    const held = await Promise.all(many.map(() => paced.consume('k')));
    const paused = limitFetch(partner(), { ...wide, retry: false });
    await paused(url);
    await bucket.consume('k');
    const waits = [
      ...many.map(() => limiter.wait('k', { signal })),
      ...many.map(() => bucket.wait('k', { signal })),
      ...held.map((decision) => paced.hold(decision, { signal })),
      ...many.map(() => paused(url, { signal })),
    ].map((wait) => wait.catch(() => 'aborted'));
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(getEventListeners(signal, 'abort')).to.have.length(1);
    stop.abort();
    expect(await Promise.all(waits)).to.deep.equal(Array(60).fill('aborted'));
    expect(getEventListeners(signal, 'abort')).to.have.length(0);
    expect(warned).to.deep.equal([]);
  });

  it('prints no warning for calls by the real fetch', async () => {
    const { signal } = new AbortController();
    const call = limitFetch(fetch, wide);
    const partnerUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const texts = await Promise.all(
      Array.from({ length: 15 }, async () => (await call(partnerUrl, { signal })).text()),
    );
    expect(texts).to.deep.equal(Array(15).fill('x'));
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(warned).to.deep.equal([]);
  });
});
