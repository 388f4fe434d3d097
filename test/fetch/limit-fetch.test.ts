// Calls that keep to a partner's limit.
import { createServer } from 'node:http';
import { expect } from 'chai';
import { createLimiter, HeadgateError, memoryStore, type ErrorCode } from 'headgate';
import { limitFetch, type LimitedFetch, type LimitFetchOptions, type Pause } from 'headgate/fetch';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { useFakeTimers, type SinonFakeTimers } from 'sinon';
import { startServer } from '../support/servers.js';
import { StrictServer } from '../support/strict-server.js';
import { codeOf } from '../support/errors.js';

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** A response without a server. */
const answers = (
  ...list: [status: number, headers?: Record<string, string>][]
): typeof fetch & { bodies: unknown[] } =>
  Object.assign(
    (_: unknown, init?: RequestInit) => {
      bodies.push(init?.body);
      const [status, headers = {}] = list.length > 1 ? list.shift()! : list[0]!;
      return Promise.resolve(new Response('x', { status, headers }));
    },
    { bodies: [] as unknown[] },
  );
let bodies: unknown[] = [];
beforeEach(() => (bodies = []));

const wide = { policies: ['1000/1s'], warnings: false } as const;
const url = 'http://partner.test/items';

describe('limitFetch', function () {
  // Pauses and turns go by real time.
  this.retries(2);

  // The delay of a call depends on the load of the machine, so a few calls may reach the partner too early.
  it('in one process keeps a strict limit but for a call or two, and uses most of it', async function () {
    this.retries(3);
    const server = await new StrictServer(50).start();
    try {
      const call = limitFetch(fetch, '50/1s');
      const until = performance.now() + 4000;
      const work = async () => {
        while (performance.now() < until) await (await call(server.url)).text();
      };
      await Promise.all(Array.from({ length: 10 }, work));
      expect(server.violations).to.be.below(3);
      expect(server.arrivals.length).to.be.above(0.6 * 50 * 4);
    } finally {
      await server.stop();
    }
  });

  it('passes calls on as they are: methods, bodies, headers, streams, Request, URL', async () => {
    const server = createServer((request, response) => {
      response.setHeader('x-method', request.method!);
      response.setHeader('x-seen', String(request.headers['x-token']));
      request.pipe(response);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const echo = `http://127.0.0.1:${port}/`;
    const call = limitFetch(fetch, wide);
    try {
      const posted = await call(new URL(echo), {
        method: 'POST',
        body: 'hello',
        headers: { 'x-token': 't' },
      });
      expect([
        posted.headers.get('x-method'),
        posted.headers.get('x-seen'),
        await posted.text(),
      ]).to.deep.equal([...['POST', 't', 'hello']]);
      const put = await call(new Request(echo, { method: 'PUT', body: 'again' }));
      expect(await put.text()).to.equal('again');
      const form = new FormData();
      form.set('field', 'value');
      expect(await (await call(echo, { method: 'POST', body: form })).text()).to.contain('value');
      const stream = new Blob(['streamed']).stream();
      const init = { method: 'POST', body: stream, duplex: 'half' } as RequestInit;
      expect(await (await call(echo, init)).text()).to.equal('streamed');
      expect(call.decisionOf(posted)?.allowed).to.equal(true);
      expect(call.stats.calls).to.equal(4);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });

  it('who aborts leaves the line with the reason, and its turn is free', async () => {
    const call = limitFetch(answers([200]), { limit: 1, window: '1s', key: () => 'k' });
    await call(url);
    const reasons: unknown[] = [];
    const gone = Array.from({ length: 3 }, async () => {
      const stop = new AbortController();
      setTimeout(() => stop.abort('enough'), 30);
      await call(url, { signal: stop.signal }).catch((error: unknown) => reasons.push(error));
    });
    await Promise.all(gone);
    expect(reasons).to.deep.equal(['enough', 'enough', 'enough']);
    const began = performance.now();
    await call(url);
    expect(performance.now() - began).to.be.below(1500);
    expect(bodies).to.have.length(2);
  });

  it('a call that cannot go out in time is not sent', async () => {
    const call = limitFetch(answers([200]), { limit: 1, window: '1m', timeout: '50ms' });
    await call(url);
    expect(await codeOf(call(url))).to.equal('HEADGATE_WAIT_TIMEOUT');
    expect(bodies).to.have.length(1);
  });

  it('a call that would have to wait for the end of a pause is told for how long', async () => {
    const limiter = createLimiter({ limit: 100, window: '1s' });
    const call = limitFetch(answers([429, { 'retry-after': '60' }]), { limiter, timeout: '1s' });
    await call(url);
    const error = await call(url).catch((thrown: unknown) => thrown);
    expect(error).to.include({ code: 'HEADGATE_WAIT_TIMEOUT' });
    const { decision } = error as HeadgateError;
    expect(decision).to.include({ allowed: false, reason: 'banned' });
    expect(decision!.retryAfterMs).to.be.within(59_000, 60_000);
  });

  it('each host has a line of its own, and a key of undefined none', async () => {
    const call = limitFetch(answers([200]), { limit: 1, window: '1m', timeout: 50 });
    await call('http://a.test/');
    await call('http://b.test/');
    expect(await codeOf(call('http://a.test/'))).to.equal('HEADGATE_WAIT_TIMEOUT');
    const free = limitFetch(answers([200]), { limit: 1, window: '1m', timeout: 50, key: () => undefined });
    await free(url);
    await free(url);
    expect(free.stats.calls).to.equal(0);
  });

  it('a 429 with Retry-After pauses all limiters on the store, and a longer pause is never cut short', async () => {
    const store = memoryStore();
    const pauses: Pause[] = [];
    const options = {
      ...{ ...wide, store, name: 'partner', retry: false, timeout: 100 },
      onPause: (pause: Pause) => pauses.push(pause),
    } satisfies LimitFetchOptions;
    const one = limitFetch(answers([429, { 'retry-after': '30' }]), options);
    const other = limitFetch(answers([200]), options);
    const shorter = limitFetch(answers([429, { 'retry-after': '1' }]), { ...options, key: () => 'late' });
    await other(url);
    expect((await one(url)).status).to.equal(429);
    expect(pauses).to.deep.equal([{ key: 'partner.test', ms: 30_000, status: 429 }]);
    await sleep(5);
    expect(await codeOf(other(url))).to.equal('HEADGATE_WAIT_TIMEOUT');
    await shorter(url);
    await sleep(80);
    const { reason, retryAfterMs } = await one.limiter.peek('partner.test');
    expect(reason).to.equal('banned');
    expect(retryAfterMs).to.be.above(29_000);
    expect([one.stats.violations, one.stats.pauses, other.stats.calls]).to.deep.equal([1, 1, 1]);
  });

  it('a shorter pause of another limiter leaves the longer one', async () => {
    const store = memoryStore();
    const options = { ...wide, store, name: 'partner', retry: false, timeout: 100 } as const;
    let release = (): void => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    const slow = limitFetch(async () => {
      await held;
      return new Response('', { status: 429, headers: { 'retry-after': '1' } });
    }, options);
    const under = slow(url);
    await sleep(5);
    await limitFetch(answers([429, { 'retry-after': '30' }]), options)(url);
    await sleep(5);
    release();
    await under;
    await sleep(80);
    expect((await slow.limiter.peek('partner.test')).retryAfterMs).to.be.above(29_000);
  });

  it('a longer pause is put back if a shorter one replaces it at the same moment, also after a look at it', async () => {
    const options = { ...wide, store: memoryStore(), name: 'partner', retry: false } as const;
    const call = limitFetch(answers([429, { 'retry-after': '30' }]), options);
    await call(url);
    const { limiter } = call;
    await sleep(5);
    // The store counts whole milliseconds, so the pause seems longer by a fraction.
    await limiter.peek('partner.test');
    await limiter.ban('partner.test', '1s');
    await sleep(80);
    expect((await limiter.peek('partner.test')).retryAfterMs).to.be.above(29_000);
  });

  it('a pause that the store could not be told lasts as long as others', async () => {
    const call = limitFetch(answers([429, { 'retry-after': '30' }]), { ...wide, retry: false, timeout: 50 });
    Object.assign(call.limiter, { ban: () => Promise.reject(new Error('READONLY')) });
    await call(url);
    await sleep(1100);
    expect(await codeOf(call(url))).to.equal('HEADGATE_WAIT_TIMEOUT');
  });

  it('a 429 widens the margin of spaced calls for all limiters on the store, once for each cause', async () => {
    const store = memoryStore();
    const options = { store, policies: ['50/1s'], maxPause: 5, retry: false } as const;
    const denied: [number] = [429];
    const [one, other] = [1, 2].map(() => limitFetch(answers(denied), { ...options, name: 'learnt' }));
    await Promise.all([one!(url), other!(url), one!(url)]);
    await sleep(20);
    const { limiter } = other!;
    const learnt = await limiter.overrideOf('partner.test');
    expect(learnt).to.deep.include({ by: 'headgate/fetch', reason: 'margin 0.08, shrinks after 10 s' });
    expect(learnt!.change).to.deep.equal({ default: { window: '1080ms' } });
    expect(learnt!.until!.getTime() - learnt!.since.getTime()).to.equal(3_600_000);
    // Turns are 21.6 ms apart instead of 20.8. They begin after the up to four turns that were reserved before.
    const turns = await Promise.all(Array.from({ length: 30 }, () => limiter.consume('partner.test')));
    expect(turns.at(-1)!.delayMs).to.be.within(618, 627 + 4 * 22);
  });

  it('a margin that was learnt shrinks while nothing is denied, and longer after each denial', async () => {
    // The store's clock is eleven seconds behind, so each override looks that old.
    const store = memoryStore({ clock: () => Date.now() - 11_000 });
    const options = { store, name: 'shrinks', policies: ['50/1s'], maxPause: 5, retry: false } as const;
    const ok: [number] = [200];
    const call = limitFetch(answers([429], ok), options);
    const { limiter } = call;
    const ask = async (by = call): Promise<string | undefined> => {
      await by(url);
      await sleep(20);
      return (await limiter.overrideOf('partner.test'))?.reason;
    };
    expect(await ask()).to.equal('margin 0.08, shrinks after 10 s');
    let charged = 0;
    const narrowing = limitFetch(answers(ok), { ...options, onDecision: (its) => (charged += its.charged) });
    expect(await ask(narrowing)).to.equal('margin 0.04, shrinks after 10 s');
    // The call, the five turns that a first call gives up, and two turns for the shortened windows.
    expect(charged).to.be.within(4, 13);
    expect(await ask(limitFetch(answers([429]), options))).to.equal('margin 0.08, shrinks after 20 s');
    expect(await ask(limitFetch(answers(ok), options))).to.equal('margin 0.08, shrinks after 20 s');
  });

  it('a margin that is given is kept, and so is an override of somebody else', async () => {
    const options = { policies: ['50/1s'], maxPause: 5, retry: false } as const;
    const fixed = limitFetch(answers([429]), { ...options, name: 'fixed', margin: 0.02, overrides: true });
    await fixed(url);
    const call = limitFetch(answers([429]), { ...options, name: 'theirs' });
    await call.limiter.override('partner.test', '40/1s', { by: 'ada' });
    await call(url);
    await sleep(20);
    expect(await fixed.limiter.overrideOf('partner.test')).to.equal(undefined);
    expect(await call.limiter.overrideOf('partner.test')).to.include({ change: '40/1s', by: 'ada' });
  });

  /** Makes three calls during which the process is busy. @returns the units charged, and the sends after the beginning, ms */
  async function lateCalls(timeout: string): Promise<{ charged: number; sent: number[] }> {
    let charged = 0;
    let sent: number[] = [];
    const call = limitFetch(
      () => {
        sent.push(performance.now());
        return Promise.resolve(new Response());
      },
      { policies: ['50/1s'], timeout, onDecision: (decision) => (charged += decision.charged) },
    );
    // The first call goes out alone, and gives up turns.
    await call(url);
    await sleep(150);
    charged = 0;
    sent = [];
    const began = performance.now();
    const calls = [call(url), call(url), call(url)];
    await sleep(1);
    // The second and the third had their turns after 21 and 41 ms. So they are 79 and 59 ms late, of which the margin makes up for 15.
    for (const until = performance.now() + 100; performance.now() < until;);
    await Promise.all(calls);
    await sleep(1);
    return { charged, sent: sent.map((at) => at - began) };
  }

  it('a call that misses its turn takes another, so that it does not arrive near those a window later', async () => {
    const { charged, sent } = await lateCalls('30s');
    expect(charged).to.equal(3);
    expect(sent[2]! - sent[1]!).to.be.within(15, 60);
  });

  it('a late call without the time for another turn gives up turns', async () => {
    const { charged } = await lateCalls('3s');
    // Three calls and seven turns. On a busy machine they are later, and give up five turns each at most.
    expect(charged).to.be.within(10, 13);
  });

  it('asks for a pause before a turn comes, so that the answer makes no call late', async () => {
    const memory = memoryStore();
    const store = new Proxy(memory, {
      get(target, name: keyof typeof memory) {
        const value: unknown = target[name];
        if (name !== 'decide') return typeof value === 'function' ? (value.bind(target) as unknown) : value;
        const decide: typeof memory.decide = async (query) => {
          if (query.peek) await sleep(70);
          return target.decide(query);
        };
        return decide;
      },
    });
    const call = limitFetch(answers([200]), { store, policies: ['3/1s'] });
    const began = performance.now();
    await Promise.all([call(url), call(url), call(url)]);
    expect(performance.now() - began).to.be.within(680, 750);
  });

  it('denials of calls that were under way together are one cause: the pause does not double with each', async () => {
    const pauses: number[] = [];
    let status = 200;
    const slow = async (): Promise<Response> => {
      await sleep(30);
      return new Response('', { status });
    };
    const onPause = ({ ms }: Pause) => pauses.push(ms);
    const call = limitFetch(slow, { ...wide, retry: false, onPause });
    // The first call goes out alone.
    await call(url);
    status = 429;
    await Promise.all(Array.from({ length: 10 }, () => call(url)));
    expect(pauses).to.deep.equal([1000]);
  });

  it('a wait of nothing is obeyed once, and then counts as not said', async () => {
    const pauses: number[] = [];
    const onPause = ({ ms }: Pause) => pauses.push(ms);
    const zero: [number, Record<string, string>] = [429, { 'retry-after': '0' }];
    const call = limitFetch(answers(zero), { ...wide, maxPause: 40, onPause });
    expect((await call(url)).status).to.equal(429);
    expect(pauses).to.deep.equal([1, 40, 40]);
  });

  it('after a pause calls that are not spaced go out one by one, ever faster', async () => {
    const times: number[] = [];
    const partner = (): Promise<Response> => {
      times.push(performance.now());
      const headers = { 'retry-after-ms': '200' };
      return Promise.resolve(new Response('', times.length === 1 ? { status: 429, headers } : {}));
    };
    const call = limitFetch(partner, '600/1m');
    const calls = [call(url)];
    await sleep(20);
    for (let i = 0; i < 40; i++) calls.push(call(url));
    await Promise.all(calls);
    const first = times[1]!;
    expect(first - times[0]!).to.be.above(190);
    expect(times.filter((at) => at < first + 500)).to.have.length.below(9);
    expect(times.at(-1)! - first).to.be.above(1500);
    const began = performance.now();
    await sleep(2100);
    await Promise.all(Array.from({ length: 40 }, () => call(url)));
    expect(performance.now() - began).to.be.below(2900);
  });

  it('a handler that throws, or an answer that breaks off, fails no call', async () => {
    const warned: string[] = [];
    const listener = ({ message }: Error) => void warned.push(message);
    process.on('warning', listener);
    const broken = new ReadableStream({ start: (its) => its.error(new Error('gone')) });
    const list = [
      new Response(broken, { status: 429, headers: { 'retry-after-ms': '1' } }),
      new Response('ok'),
    ];
    const onPause = () => {
      throw new Error('mine');
    };
    const call = limitFetch(() => Promise.resolve(list.shift()!), { ...wide, onPause });
    expect((await call(url)).status).to.equal(200);
    await sleep(5);
    process.off('warning', listener);
    expect(warned).to.deep.equal(['onPause threw: Error: mine']);
  });

  it('an async handler that rejects fails no call, and not the process', async () => {
    const warned: string[] = [];
    const listener = ({ message }: Error) => void warned.push(message);
    process.on('warning', listener);
    const reject = (what: string) => () => Promise.reject(new Error(what)) as unknown as void;
    const options = { ...wide, retry: false, onPause: reject('one'), onDecision: reject('two') } as const;
    const call = limitFetch(answers([429, { 'retry-after-ms': '1' }]), options);
    expect((await call(url)).status).to.equal(429);
    await sleep(5);
    process.off('warning', listener);
    expect(warned).to.include.members(['onPause threw: Error: one', 'onDecision threw: Error: two']);
  });

  it('refuses an onDecision that is no function', () => {
    expect(() => limitFetch(fetch, { ...wide, onDecision: 5 } as never)).to.throw(/onDecision/);
  });

  it('address, method and body are those of the moment of the call, also of a Request as second argument', async () => {
    const seen: string[] = [];
    const partner = async (input: string | URL, init?: RequestInit): Promise<Response> => {
      const { url: its, method } = new Request(input, init);
      const body = init?.body ? await new Response(init.body).text() : '';
      seen.push(`${method} ${new URL(its).search} ${body}`);
      return new Response('');
    };
    const call = limitFetch(partner, wide);
    const at = new URL(url);
    const form = new FormData();
    const params = new URLSearchParams();
    const bytes = Buffer.from('0');
    const init: RequestInit = {};
    const calls: Promise<unknown>[] = [];
    for (const n of ['1', '2']) {
      at.searchParams.set('n', n);
      params.set('n', n);
      bytes.write(n);
      form.set('n', `form ${n}`);
      Object.assign(init, { method: 'POST', body: `text ${n}` });
      calls.push(call(at), call(url, init));
      for (const body of [params, bytes]) calls.push(call(url, { method: 'PUT', body }));
      calls.push(call(url, { method: 'PATCH', body: form }));
    }
    await Promise.all(calls);
    for (const n of ['1', '2']) {
      expect(seen).to.include.members([`GET ?n=${n} `, `POST  text ${n}`, `PUT  n=${n}`, `PUT  ${n}`]);
      expect(seen.filter((each) => each.startsWith('PATCH') && each.includes(`form ${n}`))).to.have.length(1);
    }
    const request = new Request('http://old.test/', { method: 'DELETE', body: 'why', headers: { a: '1' } });
    await call(url, request);
    expect(seen.at(-1)).to.equal('DELETE  why');
  });

  it('header fields are those of the moment of the call', async () => {
    const seen: (string | null)[] = [];
    const partner = (_: unknown, init?: RequestInit): Promise<Response> => {
      seen.push(new Headers(init?.headers).get('x-id'));
      return Promise.resolve(new Response(''));
    };
    const call = limitFetch(partner, '50/1s');
    const headers = new Headers();
    const calls = ['a', 'b', 'c'].map((id) => {
      headers.set('x-id', id);
      return call(url, { headers });
    });
    await Promise.all(calls);
    expect(seen).to.deep.equal(['a', 'b', 'c']);
  });

  it('a busy process loses turns, which no other call gets, and the calls keep their order', async () => {
    const store = memoryStore();
    const adjust = store.adjust.bind(store);
    let returned = 0;
    store.adjust = (change) => {
      returned++;
      return adjust(change);
    };
    const call = limitFetch(fetch, { policies: '5/1s', store, warnings: false });
    const order: number[] = [];
    const work = (i: number) => () => {
      order.push(i);
      const end = performance.now() + 300;
      while (i === 0 && performance.now() < end);
    };
    await Promise.all([0, 1, 2, 3, 4].map((i) => call.schedule(work(i))));
    expect({ order, returned }).to.deep.equal({ order: [0, 1, 2, 3, 4], returned: 0 });
  });

  it('priority: the highest goes first', async () => {
    const order: string[] = [];
    const call = limitFetch(
      (input) => {
        order.push(input as string);
        return Promise.resolve(new Response('x'));
      },
      {
        policies: ['fixed-window 1/60ms'],
        priority: ({ url: its }) => Number(its.split('#')[1]),
        warnings: false,
      },
    );
    await call(`${url}#0`);
    const calls = [call(`${url}#0`), call(`${url}#-1`)];
    await sleep(10);
    calls.push(call(`${url}#7`));
    const urgent = call.schedule(() => void order.push('9'), { key: 'partner.test', priority: 9 });
    await Promise.all([...calls, urgent]);
    expect(order.map((each) => each.split('#').at(-1))).to.deep.equal(['0', '9', '7', '0', '-1']);
    const error = await codeOf(call.schedule(() => 1, { priority: 1.5 }));
    expect(error).to.equal('HEADGATE_INVALID_OPTION');
  });

  it('what a server may ask for is bounded', async () => {
    const ask = { 'retry-after': '999999999' };
    const call = limitFetch(answers([429, ask], [200]), { ...wide, maxPause: '200ms', timeout: '5s' });
    const began = performance.now();
    expect((await call(url)).status).to.equal(200);
    expect(performance.now() - began).to.be.within(190, 1500);
    for (const field of ['x', '-1', '\u00ff', '1e9']) {
      const odd = limitFetch(answers([429, { 'retry-after': field }]), {
        ...wide,
        maxPause: 50,
        retry: false,
      });
      expect((await odd(url)).status).to.equal(429);
    }
  });

  it('only what is safe to send again is sent again, with the body, and within a budget', async () => {
    const denied: [number, Record<string, string>] = [429, { 'retry-after-ms': '1' }];
    const get = limitFetch(answers(denied, denied, [200]), wide);
    expect((await get(url)).status).to.equal(200);
    const post = limitFetch(answers(denied, [200]), wide);
    expect((await post(url, { method: 'POST', body: 'b' })).status).to.equal(429);
    bodies = [];
    const told = limitFetch(answers(denied, [200]), { ...wide, retry: true });
    expect((await told(url, { method: 'POST', body: 'b' })).status).to.equal(200);
    expect(bodies).to.deep.equal(['b', 'b']);
    const stream = limitFetch(answers(denied, [200]), { ...wide, retry: true });
    const body = new Blob(['b']).stream();
    expect((await stream(url, { method: 'POST', body, duplex: 'half' })).status).to.equal(429);
    bodies = [];
    const always = limitFetch(answers(denied), { ...wide, retry: 10 });
    for (let i = 0; i < 20; i++) await always(url);
    expect(bodies.length).to.be.within(30, 33);
    const error = limitFetch(answers([500]), wide);
    expect((await error(url)).status).to.equal(500);
    expect(error.stats.retries).to.equal(0);
  });

  it('fewer left than we think: lowered for all; an unknown quota that is used up: a pause', async () => {
    const left = { 'x-ratelimit-limit': '1000', 'x-ratelimit-remaining': '10', 'x-ratelimit-reset': '60' };
    const store = memoryStore();
    const options = { store, name: 'partner', policies: ['20/1s', 'day=1000/1d'] } as const;
    const call = limitFetch(answers([200, left]), options);
    await call(url);
    await sleep(20);
    const other = limitFetch(answers([200]), options);
    const { policies } = await other.limiter.peek('partner.test');
    expect(policies.find(({ name }) => name === 'day')?.remaining).to.equal(10);

    const spent = { 'x-ratelimit-limit': '77', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '60' };
    const pausing = limitFetch(answers([200, spent]), { ...wide, timeout: 50 });
    await pausing(url);
    expect(await codeOf(pausing(url))).to.equal('HEADGATE_WAIT_TIMEOUT');
    const deaf = limitFetch(answers([200, spent]), { ...wide, timeout: 50, learn: false });
    await deaf(url);
    expect((await deaf(url)).status).to.equal(200);
  });

  it('schedule refuses a cost by which calls are not spaced, with the fix, and takes any with a cost by call', async () => {
    for (const [own, cost] of [
      [{}, 2],
      [{ cost: 2 }, 3],
      [{}, { default: 2 }],
    ] as const) {
      const call = limitFetch(answers([200]), { ...wide, ...own });
      const problem = await call
        .schedule(() => 1, { cost })
        .catch((error: unknown) => error as HeadgateError);
      expect(problem).to.have.property('code', 'HEADGATE_INVALID_COST');
      expect(String(problem)).to.include('pass a function as `cost`');
    }
    const byCall = limitFetch(answers([200]), { ...wide, cost: () => 1 });
    expect(await byCall.schedule(() => 'done', { cost: 5 })).to.equal('done');
  });

  it('schedule calls a function at its turn, and gives slots back', async () => {
    const call = limitFetch(fetch, { algorithm: 'concurrency', limit: 1, lease: '1m', timeout: '2s' });
    let most = 0;
    let now = 0;
    const work = async () => {
      most = Math.max(most, ++now);
      await sleep(10);
      now--;
      return 'done';
    };
    const results = await Promise.all([1, 2, 3].map(() => call.schedule(work)));
    expect(results).to.deep.equal(['done', 'done', 'done']);
    expect(most).to.equal(1);
    expect(
      await codeOf(call.schedule(() => Promise.reject(new HeadgateError('HEADGATE_CLOSED', 'x')))),
    ).to.equal('HEADGATE_CLOSED');
    expect(call.limiter.gauges.slots).to.equal(0);
  });

  describe('schedule, in the time of a fake clock', () => {
    let time: SinonFakeTimers;
    beforeEach(() => (time = useFakeTimers({ now: Date.now(), toNotFake: ['nextTick', 'queueMicrotask'] })));
    afterEach(() => time.restore());

    /** Counts the one-second jobs that end within three minutes without an error ('none'), and the error codes of the rest. */
    const run = async (call: LimitedFetch, jobs: number): Promise<Record<string, number>> => {
      const ends: Record<string, number> = {};
      const job = () => call.schedule(() => new Promise((resolve) => setTimeout(resolve, 1000)));
      for (let i = 0; i < jobs; i++) void codeOf(job()).then((code) => (ends[code] = (ends[code] ?? 0) + 1));
      await time.tickAsync(180_000);
      await call.limiter.close();
      return ends;
    };
    const two = { algorithm: 'concurrency', limit: 2, lease: '1m' } as const;

    it('waits without a time limit', async () => {
      expect(await run(limitFetch(fetch, two), 80)).to.deep.equal({ none: 80 });
      const limiter = createLimiter(two);
      expect(await run(limitFetch(fetch, { limiter }), 80)).to.deep.equal({ none: 80 });
    });

    it('keeps the timeout and the lines that were set', async () => {
      const timeout = await run(limitFetch(fetch, { ...two, timeout: '10.5s' }), 80);
      expect(timeout).to.deep.equal({ none: 22, HEADGATE_WAIT_TIMEOUT: 58 });
      for (const bounded of [
        limitFetch(fetch, { ...two, maxWaiting: 10 }),
        limitFetch(fetch, { ...two, maxWaitingPerKey: 10 }),
        limitFetch(fetch, { limiter: createLimiter({ ...two, maxWaiting: 10, maxWaitingPerKey: 10 }) }),
      ]) {
        const ends = await run(bounded, 80);
        expect(ends).to.have.keys('none', 'HEADGATE_QUEUE_FULL');
        expect(ends.none).to.be.below(14);
      }
    });

    it('a call of the fetch still waits for 30 seconds', async () => {
      const call = limitFetch(() => new Promise<never>(() => {}), { ...two, limit: 1 });
      void call(url);
      let end: string | undefined = 'waits';
      void codeOf(call(url)).then((code) => (end = code));
      await time.tickAsync(29_900);
      expect(end).to.equal('waits');
      await time.tickAsync(200);
      expect(end).to.equal('HEADGATE_WAIT_TIMEOUT');
    });
  });

  it('options that are undefined are left out: pauses and the margin are shared all the same', () => {
    const { set } = limitFetch(fetch, { ...wide, ban: undefined, overrides: undefined }).limiter;
    expect(set).to.deep.include({ ban: limitFetch(fetch, wide).limiter.set.ban });
    expect(set.overrides).not.to.equal(undefined);
  });

  it('takes a limiter that is there, and refuses nonsense', async () => {
    const limiter = createLimiter('5/1s');
    expect(limitFetch(fetch, { limiter }).limiter).to.equal(limiter);
    const wrong: [unknown, ErrorCode][] = [
      [{ limiter, store: memoryStore() }, 'HEADGATE_INVALID_OPTION'],
      [{ limiter, margin: 0.1 }, 'HEADGATE_INVALID_OPTION'],
      [{ limiter: {} }, 'HEADGATE_INVALID_OPTION'],
      [{ ...wide, margin: 2 }, 'HEADGATE_INVALID_OPTION'],
      [{ policies: ['100/2s'], cost: 101 }, 'HEADGATE_INVALID_OPTION'],
      [{ ...wide, retry: 'always' }, 'HEADGATE_INVALID_OPTION'],
      [{ ...wide, retry: 11 }, 'HEADGATE_INVALID_OPTION'],
      [{ ...wide, maxPause: 'soon' }, 'HEADGATE_INVALID_OPTION'],
      [{ ...wide, cost: -1 }, 'HEADGATE_INVALID_COST'],
      [{ ...wide, cost: 'a' }, 'HEADGATE_INVALID_COST'],
      [{ ...wide, priority: 1.5 }, 'HEADGATE_INVALID_OPTION'],
      [{ ...wide, priority: 'high' }, 'HEADGATE_INVALID_OPTION'],
      [undefined, 'HEADGATE_INVALID_OPTION'],
      [{ policies: ['1/1h by org'] }, 'HEADGATE_UNKNOWN_DIMENSION'],
      [{ limiter: createLimiter('1/1h by org') }, 'HEADGATE_UNKNOWN_DIMENSION'],
      [{ ...wide, keyGenerator: () => 'k' }, 'HEADGATE_UNKNOWN_OPTION'],
      [{}, 'HEADGATE_INVALID_OPTION'],
    ];
    for (const [options, code] of wrong) {
      expect(() => limitFetch(fetch, options as never), JSON.stringify(options))
        .to.throw()
        .with.property('code', code);
    }
    const { schedule } = limitFetch(fetch, wide);
    expect(await codeOf(schedule(() => 1, { prio: 1 } as never))).to.equal('HEADGATE_UNKNOWN_OPTION');
  });
});

describe('limitFetch on Redis', () => {
  it('a store that stalls makes calls wait as long as its own timeout, not as long as the line', async () => {
    const redis = await startServer('redis');
    const client = new Redis(redis.url);
    try {
      const store = redisStore(client);
      const call = limitFetch(answers([200]), { store, policies: ['20/1s'], timeout: '15s' });
      await call(url);
      const calls = Array.from({ length: 10 }, () => call(url));
      await sleep(20);
      await redis.kill('SIGSTOP');
      const began = performance.now();
      await Promise.all(calls);
      await call(url);
      expect(performance.now() - began).to.be.below(5000);
    } finally {
      await redis.kill('SIGCONT');
      client.disconnect();
      await redis.stop();
    }
  });
});
