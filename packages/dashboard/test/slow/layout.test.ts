// Tables fit into their columns, whatever the names in them.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { redisStore } from 'headgate/redis';
import { clients, freshPrefix } from '../../../../test/support/stores.js';
import { limiterOf, openSite } from '../page.js';

const LONG = 'a-policy-with-a-name-that-somebody-chose-for-clarity';

/** The tables and buttons that reach out of their boxes, as texts. */
const OVERFLOWS = `[...document.querySelectorAll('table, .list, .list .quiet, td.acts > button, td[data-label] > *')].flatMap((each) => {
  const box = each.parentElement.getBoundingClientRect();
  const own = each.getBoundingClientRect();
  return own.width > 0 && (own.right > box.right + 1 || own.left < box.left - 1 || (each.matches('.list *') && each.scrollWidth > each.clientWidth + 1))
    ? [each.tagName + '.' + each.className + ' ' + each.innerText.slice(0, 40) + ': ' + Math.round(own.left) + '-' + Math.round(own.right) + ' in ' + Math.round(box.left) + '-' + Math.round(box.right)]
    : [];
})`;

describe('tables of the page', function () {
  this.timeout(60_000);
  /** The answers for an opened row, with each cause and end of a denial. */
  const withDenials = (page: Page) =>
    page.route('**/api/limiter?*', async (route) => {
      const answer = await route.fetch();
      const body = (await answer.json()) as { keys: object[]; tenants: object[] };
      const denied = { admitted: 0.2, denied: 4812, policy: LONG, isOverridden: true };
      const keys = [
        { key: '203.0.113.66', ...denied, policy: 'address', retryAfterMs: 58_000 },
        { key: '10.1.0.90', ...denied, policy: 'account', deniedFor: 'account', retryAfterMs: 0 },
        { key: 'a90', dimension: 'account', ...denied, lacksSlots: true, retryAfterMs: 29_000 },
        { key: '2001:db8:aaaa:bbbb:cccc:dddd::/56', dimension: 'address', ...denied, bannedForMs: 7_000_000 },
        { key: `customer:${'x'.repeat(200)}`, dimension: 'account', ...denied, retryAfterMs: 0 },
        { key: `busy:${'y'.repeat(80)}`, dimension: 'account', admitted: 1234, denied: 0 },
      ];
      const tenant = { key: 'heavy', dimension: 'tenant', within: 'provider openai', policy: LONG };
      const shares = { tier: 'enterprise', limit: 100_000, share: 31_000, used: 25_000, weight: 1000 };
      const answers = { isHeavy: true, allowed: false, denying: LONG, reason: 'quota-exceeded' };
      const rates = { denied: 1234, deniedBy: [{ policy: LONG, denied: 1234 }], retryAfterMs: 5000 };
      const tenants = [{ ...tenant, ...shares, ...answers, ...rates }];
      await route.fulfill({ json: { ...body, keys, tenants } });
    });

  for (const width of [1024, 1280, 1440])
    it(`are as wide as their columns at most, at ${width} pixels`, async () => {
      const store = redisStore(clients.redis, { prefix: freshPrefix(), counts: true, publish: '50ms' });
      const api = limiterOf(store, 'api', { policies: [`${LONG}=9/1h`, 'slots=concurrency 2/30s'] });
      const other = limiterOf(store, `a-limiter-with-a-name-that-is-long-${'z'.repeat(60)}`);
      const long = `customer:${'x'.repeat(200)}`;
      for (let i = 0; i < 12; i++)
        for (const limiter of [api, other])
          await limiter.consume(i % 2 === 0 ? long : '2001:db8:aaaa:bbbb::/56');
      await api.ban('203.0.113.7', '2h', { by: 'ops', reason: `INC-7 ${'w'.repeat(90)}` });
      await api.override(long, { [LONG]: '40/1m' }, { for: '1d', by: 'grace', reason: 'launch' });
      const { page, problems } = await openSite({ store }, '', { viewport: { width, height: 900 } });
      await withDenials(page);
      await page.getByRole('button', { name: 'api', exact: true }).click();
      await page.getByText('with another key of its requests').waitFor();
      await page.locator('.details .list').first().waitFor();
      for (const screen of ['', `key/${long}`, 'log', 'processes']) {
        if (screen) await page.evaluate(`location.hash = '#/${screen}'`);
        await sleep(1500);
        expect(await page.evaluate<string[]>(OVERFLOWS), screen).to.deep.equal([]);
        expect(await page.evaluate<number>('document.documentElement.scrollWidth'), screen).to.equal(width);
      }
      expect(problems).to.deep.equal([]);
    });
});
