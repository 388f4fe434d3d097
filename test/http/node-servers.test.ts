// The middleware of Express where requests have no `ip`: servers of Node, such as connect, and the engine of socket.io.
import { once } from 'node:events';
import { createServer, type Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import type { Request } from 'express';
import type { HeadgateError } from 'headgate';
import { rateLimit } from 'headgate/express';
import { Server } from 'socket.io';
import { io } from 'socket.io-client';

const quota = { algorithm: 'fixed-window', limit: 2, window: '1m', warnings: false } as const;
const forged = { 'X-Forwarded-For': '198.51.100.7' };

/** Listens on a free port. */
async function listen(server: HttpServer): Promise<string> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe('the middleware of Express on a server of Node', () => {
  let server: HttpServer;
  let code: string | undefined;
  const limit = rateLimit(quota);

  /** @param prepare what middleware before the limiter does to a request */
  async function start(prepare: (req: object) => void = () => {}): Promise<string> {
    await limit.limiter.reset('127.0.0.1');
    code = undefined;
    server = createServer((req, res) => {
      prepare(req);
      limit(req, res, (error?: unknown) => {
        code = (error as HeadgateError | undefined)?.code;
        res.end(String((req as Request).rateLimit?.key));
      });
    });
    return listen(server);
  }

  afterEach(() => server.close());

  it('counts by the address of the connection, whatever its fields claim', async () => {
    const url = await start();
    const answers = [
      await fetch(url),
      await fetch(url, { headers: forged }),
      await fetch(url, { headers: forged }),
    ];
    expect(answers.map(({ status }) => status)).to.deep.equal([200, 200, 429]);
    expect(await answers[1]!.text()).to.equal('127.0.0.1');
    expect(answers[2]!.headers.get('retry-after')).to.equal('60');
  });

  it('by the `ip` that other middleware has found, and refuses a request if it found none', async () => {
    const found = await start((req) => Object.assign(req, { ip: '192.0.2.1' }));
    expect(await (await fetch(found)).text()).to.equal('192.0.2.1');
    server.close();
    await fetch(await start((req) => Object.assign(req, { ip: undefined })));
    expect(code).to.equal('HEADGATE_NO_CLIENT_IP');
  });
});

describe("the middleware of Express in socket.io's engine", () => {
  for (const transport of ['polling', 'websocket']) {
    it(`counts by the address of the connection, by ${transport}`, async () => {
      const server = createServer();
      const sockets = new Server(server);
      const keys: string[] = [];
      // A connection by polling is several requests: the handshake is the one without a session.
      const skip = (req: Request) => req.url.includes('sid=');
      sockets.engine.use(rateLimit({ ...quota, skip, onDecision: ({ key }) => void keys.push(key) }));
      const url = await listen(server);
      const connect = async (): Promise<string> => {
        const options = {
          transports: [transport],
          forceNew: true,
          reconnection: false,
          extraHeaders: forged,
        };
        const socket = io(url, options);
        const outcome = await new Promise<string>((resolve) => {
          socket.once('connect', () => resolve('connected'));
          socket.once('connect_error', () => resolve('denied'));
        });
        socket.disconnect();
        return outcome;
      };
      expect([await connect(), await connect(), await connect()]).to.deep.equal([
        'connected',
        'connected',
        'denied',
      ]);
      expect(keys).to.deep.equal(['127.0.0.1', '127.0.0.1', '127.0.0.1']);
      await sockets.close();
    });
  }

  it('holds a slot of a websocket until it closes', async () => {
    const server = createServer();
    const sockets = new Server(server);
    const limit = rateLimit({ algorithm: 'concurrency', limit: 1, lease: '1m' });
    sockets.engine.use(limit);
    const url = await listen(server);
    const connect = () => io(url, { transports: ['websocket'], forceNew: true, reconnection: false });
    const first = connect();
    await new Promise((resolve) => first.once('connect', resolve as () => void));
    const second = connect();
    await new Promise((resolve) => second.once('connect_error', resolve));
    first.disconnect();
    while (!(await limit.limiter.peek('127.0.0.1')).allowed) await new Promise(setImmediate);
    second.disconnect();
    await sockets.close();
  });
});
