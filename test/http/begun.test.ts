// Denials after the response has begun, as in a stream of events with the fields sent before the limiter.
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { connect } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import Koa from 'koa';
import { serve as serveHono, type HttpBindings } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { Hono } from 'hono';
import { rateLimit as overHono } from 'headgate/hono';
import { rateLimit as overKoa } from 'headgate/koa';
import { adapters, serveHttp2, type Scenario, type Served } from './apps.js';

const fixed = { algorithm: 'fixed-window', limit: 1, window: '1h', keyGenerator: () => 'k' } as const;

const begin = (res: ServerResponse): void => {
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  res.write('begun ');
};

/** The body of an answer, or undefined if the answer was cut off. */
const bodyOf = (url: string): Promise<string | undefined> =>
  fetch(url).then(
    (response) => response.text().catch(() => undefined),
    () => undefined,
  );

for (const [name, { serve }] of Object.entries(adapters).filter(([, { sendsBefore }]) => sendsBefore))
  describe(`a response that has begun, on ${name}`, () => {
    let served: Served;
    const start = async (scenario: Scenario) => void (served = await serve(scenario));
    afterEach(() => served.close());

    it('is cut off if its request is denied', async () => {
      await start({ limiters: [fixed], before: begin });
      expect(await bodyOf(served.url)).to.equal('begun ');
      expect(await bodyOf(served.url)).to.equal(undefined);
    });

    it('is ended by the handler', async () => {
      let outgoing: ServerResponse;
      const handler = (): void => void outgoing.end('denied');
      const before = (res: ServerResponse): void => begin((outgoing = res));
      await start({ limiters: [{ ...fixed, handler }], before });
      expect(await bodyOf(served.url)).to.equal('begun ');
      expect(await bodyOf(served.url)).to.equal('begun denied');
    });

    it('stays as it is if it has ended', async () => {
      let handled = 0;
      const before = (res: ServerResponse): void => {
        begin(res);
        res.end('and ended');
      };
      await start({ limiters: [{ ...fixed, handler: () => void handled++ }, fixed], before });
      for (let i = 0; i < 3; i++) expect(await bodyOf(served.url)).to.equal('begun and ended');
      expect(handled).to.equal(0);
    });
  });

describe('a response that has begun', () => {
  it('is reset over HTTP/2 if its request is denied', async () => {
    const served = await serveHttp2({ limiters: [fixed], before: begin });
    const session = connect(served.url);
    const ask = async (): Promise<unknown> => {
      const stream = session.request({ ':path': '/' }).resume();
      return once(stream, 'end').then(
        () => stream.rstCode,
        () => 'reset',
      );
    };
    expect(await ask()).to.equal(0);
    expect(await ask()).to.equal('reset');
    session.close();
    await served.close();
  });

  it('is cut off where Hono returns responses, on Node', async () => {
    const app = new Hono<{ Bindings: HttpBindings }>();
    app.use(async (c, next) => {
      begin(c.env.outgoing);
      await next();
    });
    app.use(overHono(fixed));
    app.get('*', (c) => {
      c.env.outgoing.end('whole');
      return RESPONSE_ALREADY_SENT;
    });
    const server = serveHono({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' });
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect(await bodyOf(url)).to.equal('begun whole');
    expect(await bodyOf(url)).to.equal(undefined);
    server.close();
  });

  it('is cut off where Koa ends responses', async () => {
    const app = new Koa();
    app.use((ctx, next) => {
      begin(ctx.res);
      return next();
    });
    app.use(overKoa(fixed)).use((ctx) => void ctx.res.end());
    const server = createServer((req, res) => void app.callback()(req, res)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect(await bodyOf(url)).to.equal('begun ');
    expect(await bodyOf(url)).to.equal(undefined);
    server.close();
  });
});
