// The age of what the page shows: a server that hangs, and a session that has ended.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { expect } from 'chai';
import { memoryStore } from 'headgate';
import { limiterOf, endWith, openSite, openTab } from '../page.js';
import { startPage } from '../servers.js';

/** Forwards connections to a port, until `hang` stops all bytes, as if the server hung. */
async function startProxy(port: number) {
  const sockets = new Set<Socket>();
  let isHanging = false;
  const server = createServer((client) => {
    const target = connect(port, '127.0.0.1');
    for (const [from, to] of [
      [client, target],
      [target, client],
    ] as const) {
      sockets.add(from);
      from.on('error', () => to.destroy());
      from.on('close', () => to.destroy());
      from.on('data', (bytes) => isHanging || to.write(bytes));
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    hang: () => void (isHanging = true),
    wake() {
      isHanging = false;
      for (const socket of sockets) socket.destroy();
    },
    close: () => server.close(),
  };
}

describe('the connection of the page', function () {
  this.timeout(90_000);
  it('is not live while the server hangs, and figures have an age', async () => {
    const store = memoryStore();
    limiterOf(store, 'api');
    const url = new URL(endWith(await startPage({ store })).url);
    const proxy = await startProxy(Number(url.port));
    url.port = String(proxy.port);
    const { page } = await openTab(url.href, { user: 'ada' });
    await page.locator('.link.live').waitFor();
    proxy.hang();
    const link = page.locator('.link');
    await link.getByText('No data').waitFor();
    expect(await page.getByRole('alert').innerText())
      .to.contain('No data arrives from the server of this page.')
      .and.to.contain('The figures below are from');
    expect(await page.locator('main.old .limiters').count()).to.equal(1);
    const age = async () => Number(/No data for (\d+) s/.exec(await link.innerText())![1]);
    const before = await age();
    expect(before).to.be.within(10, 14);
    await page.waitForTimeout(2500);
    expect(await age()).to.be.within(before + 1, before + 4);
    proxy.wake();
    await page.locator('.link.polling').waitFor();
    expect(await page.getByRole('alert').count()).to.equal(0);
    proxy.close();
  });

  it('ends with the session, and no screen blames the store', async () => {
    const store = memoryStore();
    limiterOf(store, 'api');
    const { page } = await openSite({ store, needsSession: true });
    await page.locator('.link.live').waitFor();
    await page.context().clearCookies({ name: 'user' });
    await page.locator('.link.ended').waitFor({ timeout: 15_000 });
    expect(await page.locator('.link').innerText()).to.equal('Session ended');
    expect(await page.getByRole('alert').innerText())
      .to.contain('Your session has ended. Reload the page.')
      .and.to.contain('The figures below are from');
    expect(await page.locator('main.old').count()).to.equal(1);
    await page.evaluate("location.hash = '#/log'");
    await page.getByText('Unknown.', { exact: true }).waitFor();
    expect(await page.locator('main').innerText()).not.to.contain('store');
  });
});
