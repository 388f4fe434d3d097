// The page below paths of all forms, behind frameworks that remove or add the slash at the end, and behind parsers of bodies.
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { connect, createServer as createServer2 } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import express from 'express';
import express4 from 'express4';
import { createLimiter, memoryStore } from 'headgate';
import { dashboard } from 'headgate-dashboard';
import { dashboard as expressDashboard } from 'headgate-dashboard/express';
import { addressOf } from '../src/page/address.js';
import { frameworks, tokenFields } from './servers.js';

for (const [name, start] of Object.entries(frameworks))
  describe(`dashboard on ${name}`, () => {
    it('answers without a redirect, with and without a slash at the end of each path', async () => {
      const site = await start({ store: memoryStore() });
      const init = { redirect: 'manual', headers: { cookie: 'user=ada' } } as const;
      for (const path of ['', 'api/now/', 'index.html/', 'api/log/?since=1h', 'api/nothing/']) {
        const [plain, slash] = [site.url + path.replace('/?', '?').replace(/\/$/, ''), site.url + path];
        const [a, b] = await Promise.all([fetch(plain.replace(/\/$/, ''), init), fetch(slash, init)]);
        expect([a.status, b.status], path).to.deep.equal(path === 'api/nothing/' ? [404, 404] : [200, 200]);
        expect(a.headers.get('content-type'), path).to.equal(b.headers.get('content-type'));
        await Promise.all([a.text(), b.text()]);
      }
      await site.close();
    });
  });

describe('the addresses of the page', () => {
  it('are below the path of the page, whatever its end', () => {
    for (const page of [
      '/admin/limits',
      '/admin/limits/',
      '/admin/limits/index.html',
      '/admin/limits/index.html/',
    ])
      expect(addressOf('api/now', new URL(`http://x${page}`)), page).to.equal(
        'http://x/admin/limits/api/now',
      );
    for (const page of ['', '/', '/index.html'])
      expect(addressOf('api/now', new URL(`http://x${page}`)), page).to.equal('http://x/api/now');
  });
});

describe("dashboard on Node's server", () => {
  it('answers 500 if `actions` throws, and warns of the cause without passwords', async () => {
    const warnings: Error[] = [];
    const collect = (warning: Error) => void warnings.push(warning);
    process.on('warning', collect);
    const page = dashboard({
      store: memoryStore(),
      actions: () => {
        throw new Error('no session: redis://ada:secret@sessions:6379');
      },
    });
    const server = createServer(page.node).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    for (const path of ['/api/now', '/api/stream']) {
      const response = await fetch(url + path);
      expect(response.status, path).to.equal(500);
      const text = await response.text();
      expect(JSON.parse(text)).to.have.property('error');
      expect(text).not.to.contain('session:');
    }
    server.close();
    process.off('warning', collect);
    expect(warnings.map(({ name }) => name)).to.deep.equal(['HeadgateWarning', 'HeadgateWarning']);
    expect(warnings[0]!.message).to.contain('dashboard: a request failed: Error: no session');
    expect(warnings[0]!.message).not.to.contain('secret');
  });
});

for (const [name, create] of Object.entries({
  'Express 5': express,
  'Express 4': express4 as unknown as typeof express,
}))
  describe(`dashboard on ${name} behind a parser of all bodies`, () => {
    const parsers = {
      json: create.json({ limit: '1mb' }),
      text: create.text({ type: '*/*', limit: '1mb' }),
      raw: create.raw({ type: '*/*', limit: '1mb' }),
      // Reads no JSON.
      urlencoded: create.urlencoded({ extended: true }),
    };
    for (const [parser, middleware] of Object.entries(parsers))
      it(`reads changes and imports: ${parser}`, async () => {
        const store = memoryStore();
        const limiter = createLimiter({ store, name: 'api', policies: ['5/1m'], ban: {} });
        const app = create().use(middleware);
        app.use('/limits', expressDashboard({ store, actions: () => ({ by: 'ada' }) }));
        const server = createServer(app as RequestListener).listen(0, '127.0.0.1');
        await once(server, 'listening');
        const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/limits`;
        const headers = await tokenFields(url);
        const post = (path: string, body: object) =>
          fetch(`${url}/api/${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
        const ban = await post('change', { action: 'ban', name: 'api', key: 'é', for: '1h', reason: 'test' });
        expect(ban.status, await ban.text()).to.equal(200);
        expect((await limiter.peek('é')).reason).to.equal('banned');
        const line = (_: unknown, i: number) =>
          JSON.stringify({ kind: 'banned', name: 'api', key: `${i}`.repeat(60), bannedForMs: 3_600_000 });
        const text = Array.from({ length: 900 }, line).join('\n');
        const preview = await post('preview', { kind: 'bans', text });
        expect(preview.status, await preview.text()).to.equal(200);
        server.closeAllConnections();
        server.close();
        await limiter.close();
      });
  });

describe('dashboard on a server of HTTP/2', () => {
  it('knows the host of a reader on its own machine, and the origin of the page', async () => {
    const page = dashboard({ store: memoryStore(), actions: () => null });
    const server = createServer2(page.node as never).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const client = connect(`http://127.0.0.1:${port}`);
    const statusOf = async (fields: object): Promise<unknown> => {
      const asked = client.request({ ':path': '/api/now', ...fields });
      const [headers] = (await once(asked, 'response')) as [Record<string, unknown>];
      asked.resume().close();
      return headers[':status'];
    };
    expect(await statusOf({})).to.equal(200);
    expect(await statusOf({ ':authority': 'rebound.example' })).to.equal(403);
    const post = { ':method': 'POST', ':path': '/api/key', 'content-type': 'application/json' };
    const token = {
      cookie: `headgate-dashboard-token=${'t'.repeat(24)}`,
      'x-headgate-token': 't'.repeat(24),
    };
    const origin = `http://127.0.0.1:${port}`;
    const asked = client.request({ ...post, ...token, origin });
    asked.end('{"key":"k"}');
    const [headers] = (await once(asked, 'response')) as [Record<string, unknown>];
    expect(headers[':status']).to.equal(200);
    client.destroy();
    server.close();
  });
});
