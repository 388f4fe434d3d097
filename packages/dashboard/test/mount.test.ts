// The page below paths of all forms, behind frameworks that remove or add the slash at the end, and behind parsers of bodies.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { memoryStore } from 'headgate';
import { dashboard } from 'headgate-dashboard';
import { addressOf } from '../src/page/address.js';
import { frameworks } from './servers.js';

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
