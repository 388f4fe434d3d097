// What if, before a lower limit of all keys; the use of sliding windows; and networks in the dialog of a ban.
import { expect } from 'chai';
import { memoryStore } from 'headgate';
import { redisStore } from 'headgate/redis';
import { clients, freshPrefix } from '../../../../test/support/stores.js';
import { counted, limiterOf, openSite } from '../page.js';

describe('a lower limit of all keys, on the page', function () {
  this.timeout(60_000);

  it('says about how many units it denies, and that the limiter bans the keys that it denies', async () => {
    const store = redisStore(clients.redis, { prefix: freshPrefix(), publish: '50ms', counts: true });
    const ban = { after: 5, within: '10m', for: '10m' };
    const login = limiterOf(store, 'login', { policies: ['10/1h'], ban });
    for (let i = 0; i < 9; i++) await login.consume('ada');
    await counted(store, 'login', 9);
    const { page, problems } = await openSite({ store }, 'what-if/login', {
      viewport: { width: 390, height: 844 },
    });
    const verdict = page.locator('.verdict-line');
    await verdict.waitFor();
    expect(await page.getByText('A key is banned after').count()).to.equal(0);
    await page.locator('input[type=range]').fill('5');
    expect(await verdict.innerText()).to.match(/, and about \d+ of 9 admitted units/);
    await page.getByText('units may be a third more or fewer').waitFor();
    const warning = page.getByText('A key is banned after 5 denials in 10m');
    await warning.waitFor();
    const height = await page.evaluate<number>(
      'Math.max(...[...document.querySelectorAll(".distribution text")].map((each) => each.getBoundingClientRect().height))',
    );
    expect(height).to.be.above(9);
    await page.getByRole('button', { name: 'Override all keys for 1 h' }).click();
    await page.getByRole('dialog').getByText('A key is banned after 5 denials in 10m').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    await page.evaluate("location.hash = '#/now'");
    await page.getByRole('button', { name: 'login', exact: true }).click();
    await page.locator('.detail').getByText('includes its oldest segment').waitFor();
    expect(problems).to.deep.equal([]);
  });

  it('has the number of the keys of a banned network in its dialog', async () => {
    const store = memoryStore();
    await limiterOf(store, 'api').consume('ada');
    const { page } = await openSite({ store }, `key/${encodeURIComponent('203.0.113.0/24')}`);
    await page.getByRole('button', { name: /^Ban/ }).first().click();
    await page
      .getByRole('dialog')
      .getByText('Every request of the 256 keys of this network is denied')
      .waitFor();
  });
});
