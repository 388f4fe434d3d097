// The interceptor for undici's dispatchers.
import { EventEmitter } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { expect } from 'chai';
import { limitFetch, type LimitFetchOptions } from 'headgate/fetch';
import { Agent, fetch as undiciFetch, Pool, request, Request as UndiciRequest } from 'undici';

describe('limitFetch: the interceptor of undici', () => {
  let server: Server;
  let url: string;
  let status = 200;
  before(async () => {
    server = createServer((asked, response) => {
      asked.resume();
      response.statusCode = status;
      if (status === 429) response.setHeader('Retry-After', '1');
      response.end('ok');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterEach(() => void (status = 200));
  after(() => {
    server.closeAllConnections();
    server.close();
  });

  function made(options: LimitFetchOptions) {
    const call = limitFetch(fetch, options);
    const dispatcher = new Agent().compose(call.interceptor);
    const ask = async (its: object = {}): Promise<number> => {
      const answer = await request(url, { dispatcher, ...its });
      await answer.body.text();
      return answer.statusCode;
    };
    return { call, ask };
  }

  it('learns from the answer: a 429 is told to the caller, and pauses the next request', async () => {
    const { call, ask } = made({ name: 'pauses', policies: ['100/1s'], timeout: 300 });
    const told: unknown[] = [];
    const listener = (message: unknown): void => void told.push(message);
    subscribe('headgate:outbound', listener);
    try {
      status = 429;
      expect(await ask()).to.equal(429);
    } finally {
      unsubscribe('headgate:outbound', listener);
    }
    expect(told).to.deep.equal([{ limiter: 'pauses', key: new URL(url).host, status: 429, pauseMs: 1000 }]);
    expect(call.stats).to.include({ violations: 1, pauses: 1 });
    const error = await ask().catch((thrown: unknown) => thrown);
    expect(error).to.have.property('code', 'HEADGATE_WAIT_TIMEOUT');
  });

  it('asks the option denied, with the fields, and without a body', async () => {
    const seen: unknown[] = [];
    const denied = ({ status, headers, body }: Response): number => {
      seen.push([status, headers.get('retry-after'), body]);
      return 30_000;
    };
    const { ask } = made({ policies: ['100/1s'], timeout: 300, denied });
    status = 429;
    expect(await ask()).to.equal(429);
    expect(seen).to.deep.equal([[429, '1', null]]);
    const error = await ask().catch((thrown: unknown) => thrown);
    expect(error).to.have.nested.property('decision.retryAfterMs').that.is.within(29_000, 30_000);
  });

  it('who aborts leaves the line with the reason, and its turn is free', async () => {
    const { call, ask } = made({ policies: ['1/5s'] });
    await ask();
    const end = new AbortController();
    const waits = ask({ signal: end.signal }).catch((thrown: unknown) => thrown);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(call.limiter.gauges.waiting).to.equal(1);
    const reason = new Error('enough');
    end.abort(reason);
    expect(await waits).to.equal(reason);
    expect(call.limiter.gauges.waiting).to.equal(0);
  });

  it("whoever aborts undici's fetch, or by an emitter, leaves the line, too; what undici refuses is told", async () => {
    const { call, ask } = made({ policies: ['1/5s'] });
    const dispatcher = new Agent().compose(call.interceptor);
    await ask();
    const stop = new AbortController();
    const emitter = new EventEmitter();
    const waits = [
      undiciFetch(url, { dispatcher, signal: stop.signal }),
      ask({ signal: emitter }),
      ask({ signal: AbortSignal.abort(new Error('before')) }),
    ].map((each) => each.catch((thrown: unknown) => thrown));
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(call.limiter.gauges.waiting).to.equal(2);
    const reason = new Error('enough');
    stop.abort(reason);
    emitter.emit('abort');
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(call.limiter.gauges.waiting).to.equal(0);
    const errors = (await Promise.all(waits)) as Error[];
    expect(errors[0]).to.equal(reason);
    expect(errors[1]).to.have.property('name', 'AbortError');
    expect(errors[2]).to.have.property('message', 'before');
    const free = made({ policies: ['100/1s'] });
    const refused = await free.ask({ method: 'POST', body: 5 }).catch((thrown: unknown) => thrown);
    expect(refused).to.have.property('code', 'UND_ERR_INVALID_ARG');
  });

  it("undici's own fetch is taken in place of the global one", async () => {
    const answer = await limitFetch(undiciFetch, '100/1s')(url);
    expect(await answer.text()).to.equal('ok');
  });

  it("undici's own Request is known: its body is not sent again", async () => {
    status = 429;
    const asked = new UndiciRequest(url, { method: 'PUT', body: 'x' });
    const seen: string[] = [];
    const key: LimitFetchOptions['key'] = ({ method }) => (seen.push(method), 'partner');
    const answer = await limitFetch(undiciFetch, { policies: '100/1s', key })(asked);
    expect([answer.status, ...seen]).to.deep.equal([429, 'PUT']);
  });

  it('a path is no other host, whatever it looks like', async () => {
    const seen: string[] = [];
    const { ask } = made({ policies: ['100/1s'], key: (its) => (seen.push(its.url), 'partner') });
    expect([await ask({ path: '//other.test/' }), await ask({ path: '//' })]).to.deep.equal([200, 200]);
    expect(seen).to.deep.equal([`${url}//other.test/`, `${url}//`]);
  });

  it('tells the key the whole address, with the query that undici adds', async () => {
    const urls: string[] = [];
    const key = (asked: { url: string }): undefined => void urls.push(asked.url);
    const { ask } = made({ policies: ['100/1s'], key });
    await ask({ path: '/items', query: { page: 2, tag: ['a', 'b'] } });
    expect(urls).to.deep.equal([`${url}/items?page=2&tag=a&tag=b`]);
  });

  it('of a pool, which does not tell its origin, needs a key', async () => {
    const ask = async (options: LimitFetchOptions): Promise<number> => {
      const pool = new Pool(url).compose(limitFetch(fetch, options).interceptor);
      const answer = await pool.request({ path: '/items', method: 'GET' });
      await answer.body.text();
      return answer.statusCode;
    };
    expect(await ask({ policies: ['100/1s'], key: () => 'partner' })).to.equal(200);
    const error = await ask({ policies: ['100/1s'] }).catch((thrown: unknown) => thrown);
    expect(error).to.have.property('code', 'HEADGATE_INVALID_KEY');
  });

  it('gives a slot back when the answer has ended, and when there is none', async () => {
    const { call, ask } = made({ policies: ['concurrency 1/1m'] });
    expect(await Promise.all([ask(), ask(), ask()])).to.deep.equal([200, 200, 200]);
    const dispatcher = new Agent().compose(call.interceptor);
    const error = await request('http://127.0.0.1:1', { dispatcher }).catch((thrown: unknown) => thrown);
    expect(error).to.have.property('code', 'ECONNREFUSED');
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(call.limiter.gauges.slots).to.equal(0);
  });

  it('gives a slot back when an interceptor behind it throws', async () => {
    const call = limitFetch(fetch, { policies: ['concurrency 1/1m'] });
    const thrown = new Error('broken');
    const broken = () => () => {
      throw thrown;
    };
    const dispatcher = new Agent().compose(broken, call.interceptor);
    expect(await request(url, { dispatcher }).catch((error: unknown) => error)).to.equal(thrown);
    expect(call.limiter.gauges.slots).to.equal(0);
  });

  it('reads the header fields of an object and of a list for the key, and sends what has none', async () => {
    const seen: (string | undefined)[] = [];
    const key: LimitFetchOptions['key'] = ({ headers, method }) => {
      seen.push(`${method} ${headers.get('x-account')}`);
      return headers.get('x-account') ?? undefined;
    };
    const { call, ask } = made({ policies: ['100/1s'], key });
    await ask({ headers: { 'x-account': 'ada' } });
    await ask({ headers: ['x-account', 'bob'], method: 'POST', body: 'x' });
    await ask();
    expect(seen).to.deep.equal(['GET ada', 'POST bob', 'GET null']);
    expect(call.stats.calls).to.equal(2);
  });
});
