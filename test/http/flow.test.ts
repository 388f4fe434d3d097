// The functions for authors of adapters. The conformance suite tests them over HTTP.
import { EventEmitter } from 'node:events';
import { expect } from 'chai';
import { HeadgateError, memoryStore, type Decision, type Store } from 'headgate';
import { createFlow, type Framework, type HttpOptions } from 'headgate/http';

interface Req {
  readonly ip?: string;
  rateLimit?: Decision;
}

class Res extends EventEmitter {
  status = 200;
  readonly fields: Record<string, string> = {};
  body: string | undefined;
  ended = false;
  sent = false;

  end(completed: boolean): void {
    this.ended = true;
    this.emit('end', completed);
  }
}

/** A framework without `trail` and `keep`. */
const framework: Framework<Req, Res> = {
  ip: (req) => req.ip,
  getHeader: (res, name) => res.fields[name] ?? null,
  setHeader: (res, name, value) => void (res.fields[name] = value),
  headersSent: (res) => res.sent,
  getStatus: (res) => res.status,
  setStatus: (res, status) => void (res.status = status),
  send: (res, body) => void (res.body = body),
  hasEnded: (res) => res.ended,
  onEnd: (res, ended) => {
    res.on('end', ended);
    return () => void res.off('end', ended);
  },
};

const limit = { limit: 1, window: '1h' } as const;
const flowOf = (options: HttpOptions<Req, Res> = limit) => createFlow(framework, options);
const request = (): Req => ({ ip: '192.0.2.1' });

/** The memory store, with promises. */
function slow(): Store {
  const store = memoryStore();
  return { ...failing, decide: (query) => Promise.resolve(store.decide(query)) };
}

const fail = () => Promise.reject(new Error('away'));
const failing: Store = { decide: fail, adjust: fail, lease: fail, reset: fail, ban: fail };

describe('a flow', () => {
  it('answers at once if no step needs a promise', () => {
    const flow = flowOf();
    const [req, denied] = [request(), new Res()];
    expect(flow.handle(req, new Res())).to.equal('next');
    expect(req.rateLimit?.remaining).to.equal(0);
    expect(flow.handle(request(), denied)).to.equal('answered');
    expect(denied).to.include({ status: 429 });
    expect(denied.fields).to.include({
      'Content-Type': 'application/problem+json',
      'Cache-Control': 'no-store',
    });
    expect(JSON.parse(denied.body!)).to.include({ status: 429 });
  });

  it('answers with a promise if the store does', async () => {
    const flow = flowOf({ ...limit, name: 'slow', store: slow() });
    const outcome = flow.handle(request(), new Res());
    expect(outcome).to.be.instanceOf(Promise);
    expect(await outcome).to.equal('next');
    expect(await flow.handle(request(), new Res())).to.equal('answered');
  });

  it('answers at once if the keys of dimensions do, otherwise with a promise', async () => {
    const byAccount = (account: () => string | Promise<string>) =>
      flowOf({ ...limit, by: 'account', keys: { account } });
    const [quick, late] = [byAccount(() => 'ada'), byAccount(async () => 'ada')];
    expect(quick.handle(request(), new Res())).to.equal('next');
    expect(quick.handle(request(), new Res())).to.equal('answered');
    expect(await late.handle(request(), new Res())).to.equal('next');
    expect(await late.handle(request(), new Res())).to.equal('answered');
  });

  it('leaves no rejection behind if the key of one dimension fails later, and that of another at once', async () => {
    const keys = { account: () => fail(), org: () => 7 as unknown as string };
    const flow = flowOf({ policies: ['a=1/1m by account', 'o=1/1m by org'], keys });
    expect(() => flow.handle(request(), new Res())).to.throw(HeadgateError, 'could not be rate limited');
    await new Promise(setImmediate);
  });

  it('decides once on a request', () => {
    const flow = flowOf();
    const req = request();
    for (let i = 0; i < 3; i++) expect(flow.handle(req, new Res())).to.equal('next');
  });

  it('denies a request again, with the fields of the denial, unless it was answered', () => {
    const flow = flowOf();
    void flow.handle(request(), new Res());
    const [req, answered] = [request(), Object.assign(new Res(), { sent: true })];
    const [first, again] = [new Res(), new Res()];
    for (const res of [first, again, answered]) expect(flow.handle(req, res)).to.equal('answered');
    expect(again).to.include({ status: 429, body: first.body });
    expect(again.fields).to.deep.equal(first.fields);
    expect(answered.fields).to.deep.equal({});
  });

  it('keeps the fields of an earlier limiter that has fewer units left', () => {
    const [tight, wide] = [flowOf(), flowOf({ ...limit, limit: 5 })];
    const [req, res] = [request(), new Res()];
    void tight.handle(req, res);
    void wide.handle(req, res);
    expect(res.fields).to.include({ 'RateLimit-Limit': '1', 'RateLimit-Remaining': '0' });
  });

  it('throws the request’s error, or rejects with it, in a form for the client', async () => {
    expect(() => flowOf().handle({}, new Res()))
      .to.throw(HeadgateError)
      .that.includes({ code: 'HEADGATE_NO_CLIENT_IP', statusCode: 500 });
    const flow = flowOf({ ...limit, name: 'failing', store: failing, onStoreError: 'throw' });
    const error: unknown = await Promise.resolve(flow.handle(request(), new Res())).catch((e: unknown) => e);
    expect(error).to.include({ code: 'HEADGATE_STORE_ERROR', statusCode: 503 });
    expect(error).to.have.deep.property('headers', { 'Retry-After': '1' });
  });

  it('calls a callback, too: once, or not at all, or with an error', async () => {
    const run = (flow: ReturnType<typeof flowOf>, req = request()) =>
      new Promise<unknown>((resolve) => {
        const res = new Res();
        flow.run(req, res, (error) => resolve(error ?? 'next'));
        setImmediate(() => resolve(res.status));
      });
    const quick = flowOf();
    expect(await run(quick)).to.equal('next');
    expect(await run(quick)).to.equal(429);
    expect(await run(quick, {})).to.include({ code: 'HEADGATE_NO_CLIENT_IP' });
    const late = flowOf({ ...limit, name: 'late', store: slow() });
    expect(await run(late)).to.equal('next');
    expect(await run(late)).to.equal(429);
    const away = flowOf({ ...limit, name: 'away', store: failing, onStoreError: 'throw' });
    expect(await run(away)).to.include({ code: 'HEADGATE_STORE_ERROR' });
  });

  it('gives back at the end of a response, by its status then, and not if it was cut off', async () => {
    const flow = flowOf({ ...limit, limit: 3, skipFailedRequests: true });
    const remaining = () => {
      const req = request();
      void flow.handle(req, new Res());
      return req.rateLimit!.remaining;
    };
    const [failed, cut] = [new Res(), new Res()];
    void flow.handle(request(), failed);
    void flow.handle(request(), cut);
    failed.status = cut.status = 500;
    cut.end(false);
    failed.end(true);
    failed.end(true);
    await new Promise(setImmediate);
    expect(remaining()).to.equal(1);
  });

  it('gives slots back at once for a response that has already ended', () => {
    const flow = flowOf({ algorithm: 'concurrency', limit: 1, lease: '1h' });
    const [answered, gone] = [new Res(), new Res()];
    answered.ended = answered.sent = gone.ended = true;
    for (let i = 0; i < 3; i++) expect(flow.handle(request(), answered)).to.equal('next');
    expect(answered.listenerCount('end')).to.equal(0);
    expect(flow.handle(request(), gone)).to.equal('answered');
  });

  it('drops a request whose client has left, and charges nothing', async () => {
    const gone = new Res();
    gone.ended = true;
    for (const [of, options] of Object.entries<HttpOptions<Req, Res>>({
      'a client without an address': limit,
      'a key': { ...limit, keyGenerator: () => '192.0.2.1' },
      'a key function that needs the address': { ...limit, keyGenerator: (req) => req.ip!.trim() },
      'policies that need a promise': { policies: async () => [limit] },
    })) {
      const flow = flowOf(options);
      expect(flow.handle({}, gone), of).to.equal('answered');
      expect(flow.handle(request(), gone), of).to.equal('answered');
      expect(flow.handle(request(), new Res()), of).to.satisfy(
        (o: unknown) => o === 'next' || o instanceof Promise,
      );
    }
    expect(gone).to.include({ body: undefined, status: 200 });
    const skipping = flowOf({ ...limit, skip: () => true });
    expect(skipping.handle({}, gone)).to.equal('next');
  });

  it('listens for the end of a response no longer than its request is held', async () => {
    const policy = { algorithm: 'leaky-bucket', limit: 1, window: '1h', maxDelay: '2h' } as const;
    const flow = flowOf({ policies: [policy], maxWaiting: 1 });
    const [held, refused] = [new Res(), new Res()];
    expect(flow.handle(request(), new Res())).to.equal('next');
    const outcome = Promise.resolve(flow.handle(request(), held)).catch((error: unknown) => error);
    expect(await flow.handle(request(), refused)).to.equal('answered');
    expect(held.listenerCount('end')).to.equal(1);
    expect(refused.listenerCount('end')).to.equal(0);
    await flow.close();
    expect(await outcome).to.include({ code: 'HEADGATE_CLOSED' });
    expect(held.listenerCount('end')).to.equal(0);
  });

  it('closes the limiter that it created', async () => {
    const flow = flowOf();
    await flow.close();
    expect(() => flow.handle(request(), new Res()))
      .to.throw()
      .that.includes({ code: 'HEADGATE_CLOSED' });
  });

  it('names its caller in messages about options', () => {
    const options = { ...limit, limits: 1 } as never;
    expect(() => createFlow(framework, options)).to.throw('createFlow');
    expect(() => createFlow(framework, options, 'rateLimit')).to.throw('rateLimit');
  });
});
