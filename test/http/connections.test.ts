// Every end of a connection gives back the slots, units and turns of its requests.
import { once } from 'node:events';
import {
  connect as connectHttp2,
  constants,
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type ServerHttp2Session,
} from 'node:http2';
import { connect, type Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { createLimiter, type Limiter, type Policy, type Store } from 'headgate';
import { memory, TestClock } from '../support/stores.js';
import { adapters, serveHttp2, type Scenario, type Serve, type Served, type TestOptions } from './apps.js';
import { endings, get, sent } from './hostile.js';
import { around } from '../support/around.js';

const HOUR = 3_600_000;

/** Slots and units, more than any of these clients takes. */
const taken: Policy[] = [
  { name: 'slots', algorithm: 'concurrency', limit: 10, lease: '1h' },
  { name: 'quota', algorithm: 'fixed-window', limit: 10, window: '1h' },
];

/** The first request goes on, and each further request is held for another hour. */
const paced: Policy[] = [
  { name: 'paced', algorithm: 'leaky-bucket', limit: 1, window: '1h', burst: 1, maxDelay: '10h' },
];

/** A body larger than the buffers of sockets and streams. */
const LONG = 'x'.repeat(30_000_000);

/** A server with a limiter, and the rest of the limiter's quota. */
class Site {
  /** The number of requests that reached the handler. */
  reached = 0;
  /** The errors that reached the framework. */
  readonly failures: string[] = [];
  readonly #limiter: Limiter;
  readonly #bodies: PassThrough[] = [];
  /** Connections that do not end with the server. */
  readonly #connections: { destroy(): unknown }[] = [];
  #served!: Served;

  private constructor(limiter: Limiter) {
    this.#limiter = limiter;
  }

  static async open(
    serve: Serve,
    policies: Policy[],
    options: TestOptions = {},
    store = memory(new TestClock().read),
  ): Promise<Site> {
    const common = { name: 'site', store, timeout: '1m', policies } as const;
    const site = new Site(createLimiter(common));
    const limiters = [{ ...common, ...options } as TestOptions];
    site.#served = await serve({
      limiters,
      answer: (request) => site.#answer(request.url),
      failed: ({ code }) => site.failures.push(code),
    });
    site.#served.server.on('upgrade', (_request, socket) => {
      socket.on('error', () => {}).on('end', () => socket.end());
      site.#connections.push(socket.resume());
    });
    site.#served.server.on('session', (session: ServerHttp2Session) => site.#connections.push(session));
    return site;
  }

  #answer(url: string): ReturnType<NonNullable<Scenario['answer']>> {
    this.reached++;
    if (url === '/?hang') return new Promise(() => {});
    if (url === '/?long') return { body: LONG };
    if (url === '/?fail') return { status: 500 };
    if (url !== '/?begin') return {};
    const body = new PassThrough();
    body.write('begun');
    this.#bodies.push(body);
    return { body };
  }

  get port(): number {
    return this.#served.port;
  }

  /** Resolves when the server has no connection any more. */
  async abandoned(): Promise<void> {
    const { server } = this.#served;
    const count = () => new Promise<number>((resolve) => server.getConnections((_, n) => resolve(n)));
    await until(async () => (await count()) === 0);
  }

  /** The remaining units of each policy. */
  async left(): Promise<string> {
    return (await this.#limiter.peek('127.0.0.1')).policies.map(({ remaining }) => remaining).join();
  }

  /** The number of hours by which the bucket has admitted ahead of time. */
  async ahead(): Promise<number> {
    return (await this.#limiter.peek('127.0.0.1')).resetAfterMs / HOUR;
  }

  async close(): Promise<void> {
    for (const stream of [...this.#bodies, ...this.#connections]) stream.destroy();
    await this.#served.close();
    await this.#limiter.close();
  }
}

/** A store whose decisions wait for the test. Looks are always answered. */
function gated(): { store: Store; asked(): number; open(): void } {
  const inner = memory(new TestClock().read);
  const waiting: (() => void)[] = [];
  const store = around(inner, {
    async decide(query) {
      if (!query.peek) await new Promise<void>((resolve) => waiting.push(resolve));
      return inner.decide(query);
    },
  });
  return { store, asked: () => waiting.length, open: () => waiting.splice(0).forEach((go) => go()) };
}

/** Waits until an effect of started work has happened. */
async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(1);
}

function http1(serve: Serve) {
  let site: Site;
  const sockets: Socket[] = [];
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await site.close();
  });

  async function send(text: string): Promise<Socket> {
    const socket = connect({ port: site.port, host: '127.0.0.1' });
    sockets.push(socket);
    socket.on('error', () => {});
    await once(socket, 'connect');
    socket.write(text);
    return socket;
  }

  for (const [what, { text, n, begins }] of Object.entries(sent())) {
    for (const [how, end] of Object.entries(endings)) {
      // A client that ends only its own half reads on, and gets the long answer.
      const whole = what.includes('long') && how === 'half-closed';

      it(`${what}, ${how}: gives slots back, and units`, async () => {
        site = await Site.open(serve, taken, { refundAborted: true, skipSuccessfulRequests: whole });
        const socket = await send(text);
        await until(async () => (await site.left()) === `${10 - n},${10 - n}`);
        if (begins) await once(socket, 'readable');
        end(socket);
        if (how === 'half-closed') socket.resume();
        await until(async () => (await site.left()) === '10,10');
      });

      it(`${what}, ${how}: gives its turns back`, async () => {
        site = await Site.open(serve, paced);
        await send(get('/?hang'));
        await until(() => site.reached === 1);
        const socket = await send(text);
        await until(async () => (await site.ahead()) === n + 1);
        end(socket);
        await until(async () => (await site.ahead()) === 1);
        expect(site.reached).to.equal(1);
      });
    }
  }

  it('a client that disconnects before the decision: gives slots back, and units', async () => {
    const { store, asked, open } = gated();
    site = await Site.open(serve, taken, { refundAborted: true }, store);
    const clients = await Promise.all([1, 2, 3].map(() => send(get('/?hang'))));
    await until(() => asked() === 3);
    for (const [i, socket] of clients.entries()) Object.values(endings)[i]!(socket);
    clients[2]!.destroy();
    await site.abandoned();
    expect(await site.left()).to.equal('10,10');
    open();
    // The slot is taken and given back, and both need some time.
    await sleep(20);
    await until(async () => (await site.left()) === '10,10');
  });

  it('a client that disconnects before the decision: its units stay, by default', async () => {
    const { store, asked, open } = gated();
    site = await Site.open(serve, taken, { skipFailedRequests: true, skipSuccessfulRequests: true }, store);
    const socket = await send(get('/'));
    await until(() => asked() === 1);
    socket.resetAndDestroy();
    await site.abandoned();
    open();
    await until(async () => (await site.left()) === '10,9');
  });

  it('a client that disconnects before the decision: gives its turn back', async () => {
    const { store, asked, open } = gated();
    site = await Site.open(serve, paced, {}, store);
    const stays = await send(get('/?hang'));
    await until(() => asked() === 1);
    open();
    await until(() => site.reached === 1);
    const goes = await send(get('/'));
    await until(() => asked() === 1);
    stays.destroy();
    goes.destroy();
    await site.abandoned();
    open();
    await sleep(20);
    await until(async () => (await site.ahead()) === 1);
    expect(site.reached).to.equal(1);
    expect(site.failures).to.deep.equal([]);
  });

  it('an answer that is cut off is not a success: its units stay', async () => {
    site = await Site.open(serve, taken, { skipSuccessfulRequests: true, skipFailedRequests: true });
    for (const text of [get('/?long'), get('/?fail'), get('/?hang') + get('/') + get('/?fail')]) {
      const socket = await send(text);
      if (!text.includes('hang')) await once(socket, 'readable');
      else await until(async () => (await site.left()).startsWith('7,'));
      socket.resetAndDestroy();
      await until(async () => (await site.left()).startsWith('10,'));
    }
    // The failed answers were small enough to have been sent.
    expect(await site.left()).to.equal('10,6');
  });

  it('a client that pipelines many requests adds one listener to its connection', async () => {
    const warnings: Error[] = [];
    const warned = (warning: Error) => void warnings.push(warning);
    process.on('warning', warned);
    site = await Site.open(serve, [{ ...taken[0]!, limit: 100 }]);
    const socket = await send(get('/?hang') + get('/').repeat(40));
    await until(async () => (await site.left()) === '59');
    socket.destroy();
    await until(async () => (await site.left()) === '100');
    process.off('warning', warned);
    expect(warnings).to.deep.equal([]);
  });

  it('a slot is renewed for renewFor, and then ends with its lease', async () => {
    const store = memory();
    const slot: Policy = { algorithm: 'concurrency', limit: 1, lease: 100 };
    site = await Site.open(serve, [slot], { store, renewFor: 250 });
    const limiter = createLimiter({ name: 'site', store, ...slot });
    await send(get('/?hang'));
    await until(() => site.reached === 1);
    await until(async () => (await limiter.peek('127.0.0.1')).remaining === 1);
    await limiter.close();
  });

  it('sequential requests leave no listener behind', async () => {
    site = await Site.open(serve, taken, { skipSuccessfulRequests: true });
    const socket = await send(get('/'));
    for (let i = 0; i < 30; i++) {
      await once(socket, 'readable');
      while (socket.read() !== null);
      await until(async () => (await site.left()) === '10,10');
      socket.write(get('/'));
    }
  });
}

function http2() {
  let site: Site;
  let session: ClientHttp2Session;
  afterEach(async () => {
    session.destroy();
    await site.close();
  });

  async function open(policies: Policy[], options?: TestOptions) {
    site = await Site.open(serveHttp2, policies, options);
    session = connectHttp2(`http://127.0.0.1:${site.port}`).on('error', () => {});
    await once(session, 'connect');
  }

  function send(path: string, method = 'GET'): ClientHttp2Stream {
    const stream = session.request(
      { ':path': path, ':method': method, 'content-type': 'text/plain' },
      { endStream: method === 'GET' },
    );
    stream.on('error', () => {});
    if (method === 'POST') stream.write('begun');
    return stream;
  }

  const endings: Readonly<Record<string, (streams: ClientHttp2Stream[]) => unknown>> = {
    'streams reset': (streams) => streams.forEach((stream) => stream.close(constants.NGHTTP2_CANCEL)),
    'streams closed without an error': (streams) =>
      streams.forEach((stream) => stream.close(constants.NGHTTP2_NO_ERROR)),
    'session destroyed': () => session.destroy(),
    'session destroyed with an error': () =>
      session.destroy(new Error('gone'), constants.NGHTTP2_PROTOCOL_ERROR),
  };
  const sent: Readonly<Record<string, () => ClientHttp2Stream>> = {
    'without an answer': () => send('/?hang'),
    'whose answer has begun': () => send('/?begin'),
    'whose answer is long': () => send('/?long'),
    'with a body that is not finished': () => send('/?hang', 'POST'),
  };
  for (const [what, request] of Object.entries(sent)) {
    for (const [how, end] of Object.entries(endings)) {
      it(`requests ${what}, ${how}: give slots back, and units`, async () => {
        // Some ends are only noticed by a look: slots are checked three times a lease.
        await open([{ ...taken[0]!, lease: 100 } as Policy, taken[1]!], { refundAborted: true });
        const streams = [request(), request()];
        await until(async () => (await site.left()) === '8,8');
        if (/begun|long/.test(what)) await Promise.all(streams.map((stream) => once(stream, 'readable')));
        end(streams);
        await until(async () => (await site.left()) === '10,10');
      });

      it(`requests ${what}, ${how}: give their turns back`, async () => {
        await open(paced);
        send('/?hang');
        await until(() => site.reached === 1);
        const streams = [request(), request()];
        await until(async () => (await site.ahead()) === 3);
        end(streams);
        await until(async () => (await site.ahead()) === 1);
        expect(site.reached).to.equal(1);
      });
    }
  }

  it('a stream that is reset is not a success: its units stay', async () => {
    await open(taken, { skipSuccessfulRequests: true, skipFailedRequests: true });
    for (const path of ['/?hang', '/?begin', '/?long']) {
      const stream = send(path);
      await until(async () => (await site.left()).startsWith('9,'));
      if (path !== '/?hang') await once(stream, 'readable');
      stream.close(constants.NGHTTP2_CANCEL);
      await until(async () => (await site.left()).startsWith('10,'));
    }
    const stream = send('/').resume();
    await once(stream, 'close');
    await until(async () => (await site.left()) === '10,7');
  });
}

for (const [adapter, { serve, knowsSent }] of Object.entries(adapters)) {
  if (knowsSent) describe(`connections that end, on ${adapter}`, () => http1(serve));
}
describe('connections that end, on Fastify 5 with HTTP/2', http2);
