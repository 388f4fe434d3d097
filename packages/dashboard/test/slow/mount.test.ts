// The page in Chromium, below an address that a framework has changed.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { createLimiter, memoryStore } from 'headgate';
import { dashboard } from 'headgate-dashboard';
import { endWith, openTab } from '../page.js';

describe('the page without a slash at the end of its address', function () {
  this.timeout(60_000);
  it('reads, streams and changes, behind a framework that removes slashes', async () => {
    const store = memoryStore();
    const limiter = endWith(createLimiter({ store, name: 'api', policies: ['5/1h'], ban: {} }));
    const handler = dashboard({ store, basePath: '/admin/limits', actions: () => ({ by: 'ada' }) });
    // Next.js answers so by default.
    const server = createServer((req, res) => {
      const path = req.url ?? '';
      if (path.endsWith('/')) res.writeHead(308, { location: path.slice(0, -1) }).end();
      else handler.node(req, res);
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/admin/limits`;
    const { page, problems } = await openTab(`${url}/#/key/ada`);
    await page.locator('.link.live').waitFor();
    expect(page.url()).to.equal(`${url}#/key/ada`);
    await page.getByRole('button', { name: 'Ban' }).first().click();
    await page.getByLabel('Reason').fill('test');
    await page.locator('dialog[open] button[type=submit]').click();
    await page.locator('dialog[open]').waitFor({ state: 'detached' });
    expect((await limiter.peek('ada')).reason).to.equal('banned');
    expect(problems).to.deep.equal([]);
    server.closeAllConnections();
    server.close();
  });
});
