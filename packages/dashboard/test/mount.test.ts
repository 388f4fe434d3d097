// The page below paths of all forms, behind frameworks that remove or add the slash at the end, and behind parsers of bodies.
import { expect } from 'chai';
import { memoryStore } from 'headgate';
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
