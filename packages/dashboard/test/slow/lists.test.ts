// Lists of the page that an operator reads at night: keys near a limit of all limiters, and the keys of an import.
import { createRequire } from 'node:module';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { memoryStore } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { limiterOf, openSite, type TabOptions } from '../page.js';

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

describe('lists of the page', function () {
  this.timeout(90_000);
  const open = async (options: TabOptions = {}) => {
    const store = memoryStore();
    const plan = limiterOf(store, 'plan', { policies: ['month=calendar 1000/month by customer'] });
    const search = limiterOf(store, 'search', { policies: ['60/1h'] });
    // A store in memory counts from its first administration on.
    const admin = createAdmin(store);
    await plan.consume({ customer: 'acme' }, { cost: 850 });
    await search.consume('full', { cost: 60 });
    const bans = Array.from({ length: 24 }, (_, i) => ({
      name: 'search',
      key: `192.0.2.${i + 1}`,
      for: '2h',
    }));
    await admin.importBans(bans, { by: 'ops', reason: 'feed 12' });
    return openSite({ store }, '', { bypassCSP: true, ...options });
  };
  const violations = async (page: Page): Promise<string[]> => {
    await page.addScriptTag({ path: axe });
    return page.evaluate<string[]>(
      'axe.run().then(({ violations }) => violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`))',
    );
  };

  for (const width of [1280, 390])
    it(`name the keys of all limiters above 80 %, also of a month without requests, at ${width} pixels`, async () => {
      const { page, problems } = await open({ viewport: { width, height: 844 } });
      const near = page.locator('section[aria-labelledby=near-all]');
      const rows = near.locator('tbody tr');
      await rows.nth(1).waitFor();
      const [plan, full] = await rows.allInnerTexts();
      expect(plan).to.match(/acme\s+customer[^]*plan[^]*850 of 1,000[^]*month[^]*not known yet[^]*–/);
      expect(full).to.match(/full[^]*search[^]*60 of 60[^]*full/);
      expect(await near.innerText()).to.match(/Of \d+ keys read at \d\d:\d\d/);
      expect(
        await page.evaluate<boolean>(
          'document.documentElement.scrollWidth > document.documentElement.clientWidth',
        ),
      ).to.equal(false);
      expect(await violations(page)).to.deep.equal([]);
      expect(problems).to.deep.equal([]);
    });

  it('have the first keys of an import, all on request, and each key has its import', async () => {
    const { page, problems } = await open();
    await page.evaluate("location.hash = '#/log'");
    const row = page.locator('.log tbody tr', { hasText: 'imported bans' });
    await row.getByText('24 keys').waitFor();
    expect(await row.locator('.imported a').allInnerTexts()).to.deep.equal([
      '192.0.2.1',
      '192.0.2.2',
      '192.0.2.3',
    ]);
    expect(await violations(page)).to.deep.equal([]);
    await row.getByRole('button', { name: 'and 21 more' }).click();
    await row.locator('.imported a').nth(23).waitFor();
    expect(await row.getByRole('button', { name: /more/ }).count()).to.equal(0);
    await page.getByPlaceholder('Key, limiter, operator or reason').fill('192.0.2.17');
    await page.getByRole('link', { name: 'All changes of the key 192.0.2.17' }).click();
    await page.getByText('it and 23 other keys').waitFor();
    expect(await page.locator('.answer.denied').innerText()).to.match(
      /Banned by ops, 1 h 59 min left: feed 12|Banned by ops, 2 h left: feed 12/,
    );
    expect(await violations(page)).to.deep.equal([]);
    expect(problems).to.deep.equal([]);
  });
});
