// The page never shows zero for a figure that it does not know.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import type { Page } from 'playwright-core';
import { memoryStore, type Store } from 'headgate';
import { redisStore } from 'headgate/redis';
import { startServer } from '../../../../test/support/servers.js';
import { clients, freshPrefix } from '../../../../test/support/stores.js';
import { limiterOf, openSite } from '../page.js';

describe('what the page does not know', function () {
  this.timeout(90_000);
  const tile = async (page: Page, name: string) => page.getByRole('region', { name }).innerText();
  const go = (page: Page, screen: string) => page.evaluate(`location.hash = '#/${screen}'`);
  const main = (page: Page) => page.locator('main').innerText();

  const STORES: Record<string, () => Store> = {
    memory: () => memoryStore({ counts: false }),
    redis: () => redisStore(clients.redis, { prefix: freshPrefix(), counts: false, publish: '50ms' }),
  };
  for (const [kind, make] of Object.entries(STORES))
    it(`names counts: false in place of every figure (${kind})`, async () => {
      const store = make();
      const api = limiterOf(store, 'api');
      for (let i = 0; i < 9; i++) await api.consume('ada');
      const { page, problems } = await openSite({ store });
      const row = page.locator('.limiters tbody', { has: page.getByRole('button', { name: 'api' }) });
      await row.waitFor();
      for (const name of ['Decisions', 'Denied', 'Waiting', 'Store'])
        expect(await tile(page, name))
          .to.match(/unknown/)
          .and.contain('counts: false');
      const cells = await row.locator('td').allInnerTexts();
      expect(cells.slice(0, 5)).to.deep.equal(Array(5).fill('unknown'));
      await row.getByRole('button').first().click();
      await row.getByText('Unknown: its store has counts: false.').waitFor();
      expect(problems).to.deep.equal([]);
    });

  it('names the limiters without counts beside others', async () => {
    const prefix = freshPrefix();
    const counting = redisStore(clients.redis, { prefix, counts: true, publish: '50ms' });
    await limiterOf(counting, 'api').consume('ada');
    await limiterOf(redisStore(clients.redis, { prefix, counts: false, publish: '50ms' }), 'off').consume(
      'a',
    );
    await sleep(300);
    const { page } = await openSite({ store: counting });
    await page.getByRole('button', { name: 'off' }).waitFor();
    expect(await tile(page, 'Decisions')).to.contain('without those of 1 limiter: unknown');
    expect(await tile(page, 'Denied')).not.to.match(/nothing is denied|none counted in/);
  });

  it('names a missing permission, and shows nothing as none', async () => {
    const { redis } = clients;
    const prefix = freshPrefix();
    const own = redisStore(redis, { prefix, publish: '50ms' });
    await limiterOf(own, 'api').ban('eve', '1h');
    await sleep(300);
    await redis.call('ACL', 'SETUSER', 'reader', 'reset', 'on', '>password', '~*', '+@all', '-scan');
    const { host = '127.0.0.1', port } = redis.options;
    const few = new Redis(port!, host, { username: 'reader', password: 'password' });
    try {
      const { site, page } = await openSite({ store: few, prefix, auth: 'none' });
      const response = await fetch(`${site.url}api/denied?name=api`, { headers: { cookie: 'user=ada' } });
      expect(response.status).to.equal(503);
      expect(((await response.json()) as { error: string }).error).to.match(/NOPERM.*scan/i);
      const row = page.locator('.limiters tbody', { has: page.getByRole('button', { name: 'api' }) });
      await row.getByRole('button').first().click();
      await row
        .locator('.detail')
        .getByText(/lacks a permission that this needs: NOPERM.*scan/i)
        .first()
        .waitFor();
      // The list of all limiters says so, too.
      await page.getByText(/Unknown: The user of Redis lacks a permission that this needs/).waitFor();
      const text = await row.locator('.detail').innerText();
      expect(text)
        .to.match(/Bans 1/i)
        .and.contain('eve');
      expect(text).to.match(/Busiest admitted keys/i);
      expect(text).not.to.match(/depend on the request|No key is denied|No key is banned|No key has used/);
    } finally {
      few.disconnect();
      await redis.call('ACL', 'DELUSER', 'reader');
    }
  });

  it('knows nothing on a page that is opened while the store hangs', async () => {
    const server = await startServer('redis');
    const client = new Redis(server.url);
    client.on('error', () => {});
    const store = redisStore(client, { counts: true, publish: '50ms' });
    const api = limiterOf(store, 'api', { timeout: '1s' });
    await api.consume('ada');
    await sleep(300);
    process.kill(server.pid, 'SIGSTOP');
    try {
      const { page } = await openSite({ store, timeout: '500ms' });
      await page.getByText('No figure is known.').waitFor();
      for (const name of ['Decisions', 'Denied', 'Waiting']) {
        expect(await tile(page, name))
          .to.contain('unknown')
          .and.contain('the store does not answer');
        expect(await tile(page, name)).not.to.match(/\d/);
      }
      expect(await page.locator('#limiters').innerText()).to.contain('unknown');
      expect(await main(page)).not.to.match(/No limiter is known|Nothing was changed/);
      await go(page, 'processes');
      await page.getByText('Unknown: the store does not answer.').waitFor();
      expect(await main(page))
        .to.contain('The store does not answer')
        .and.not.contain('No process');
      await go(page, 'what-if/api');
      await page.getByText('Unknown: the store does not answer.').waitFor();
      expect(await main(page)).not.to.match(/No limiter|counts: false/);
      await go(page, 'log');
      await page.getByText('Unknown: the store does not answer.').waitFor();
      expect(await main(page)).not.to.match(/no such changes|\b0 changes/);
    } finally {
      process.kill(server.pid, 'SIGCONT');
    }
    client.disconnect();
    await server.stop();
  });

  it('gives old figures their age on every screen while the store hangs', async () => {
    const server = await startServer('redis');
    const client = new Redis(server.url);
    client.on('error', () => {});
    const store = redisStore(client, { counts: true, publish: '50ms' });
    const api = limiterOf(store, 'api', { timeout: '1s' });
    await api.consume('ada');
    await api.ban('eve', '1h', { by: 'ada' });
    const { page } = await openSite({ store, timeout: '500ms' }, 'log');
    await page.getByRole('cell', { name: 'eve' }).waitFor();
    await go(page, 'processes');
    await page.locator('.processes tbody tr', { hasText: 'up' }).waitFor();
    await go(page, 'log');
    await page.getByRole('cell', { name: 'eve' }).waitFor();
    process.kill(server.pid, 'SIGSTOP');
    try {
      await page.getByText('The answer below is from').waitFor();
      await page.getByText('The figures below are from').waitFor();
      expect(await main(page)).to.contain('eve');
      await go(page, 'processes');
      await page.locator('.processes tbody tr').waitFor();
      expect(await main(page)).to.contain('The figures below are from');
      expect(await page.locator('.processes .good').count()).to.equal(0);
      await go(page, 'what-if/api');
      await page.getByText('has not answered within').nth(1).waitFor();
      expect(await main(page))
        .to.contain('The figures below are from')
        .and.not.contain('No use was recorded');
    } finally {
      process.kill(server.pid, 'SIGCONT');
    }
    client.disconnect();
    await server.stop();
  });
});
