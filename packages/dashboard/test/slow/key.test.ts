// The page of a key: the headline, and the buttons that fit its state.
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { memoryStore, type Limiter, type Store } from 'headgate';
import { counted, limiterOf, openSite } from '../page.js';

describe('the page of a key', function () {
  this.timeout(60_000);
  let store: Store;
  let limiter: Limiter;
  const start = async (): Promise<Page> => {
    store = memoryStore();
    limiter = limiterOf(store, 'api', { policies: ['4/1h'] });
    return (await openSite({ store })).page;
  };

  it('is not green after denials of the last minutes, and / selects the old key', async () => {
    const page = await start();
    for (let i = 0; i < 7; i++) await limiter.consume('eve');
    await limiter.reset('eve');
    await counted(store, 'api', 7);
    await page.evaluate("location.hash = '#/key/eve'");
    await page
      .getByText(/Admitted now by every limiter, after 3 denials in api in the last 15 minutes/)
      .waitFor();
    expect(await page.locator('.verdict').getAttribute('class')).to.equal('verdict');
    await page.locator('main').focus();
    await page.keyboard.press('/');
    await page.keyboard.type('bob');
    expect(await page.locator('#key').inputValue()).to.equal('bob');
  });

  it('without a record is one sentence, with the limiters that it could belong to, folded', async () => {
    store = memoryStore();
    limiterOf(store, 'api');
    limiterOf(store, 'login', { policies: ['9/1h by account'] });
    const { page } = await openSite({ store }, 'key/nobody');
    await page.getByText('Admitted. No limiter has a record of this key').waitFor();
    const others = page.locator('details.others');
    expect(await others.locator('summary').innerText()).to.equal('It could belong to: api, login');
    expect(await page.locator('.answer').first().isVisible()).to.equal(false);
    await others.locator('summary').click();
    await page.getByRole('button', { name: 'Ban', exact: true }).first().waitFor();
  });

  it('has the ban and the override in the dialog, and multiplies the limits in force', async () => {
    const page = await start();
    await limiter.override('eve', '2/1h', { by: 'ops' });
    await limiter.ban('eve', '30m', { by: 'ops' });
    await page.evaluate("location.hash = '#/key/eve'");
    await page.getByRole('button', { name: '× ½' }).click();
    const dialog = page.getByRole('dialog');
    expect(await dialog.innerText())
      .to.contain('The key is banned for 29 min more')
      .and.to.contain('An override of this key is in force: 2/1h.');
    expect(await dialog.getByRole('textbox', { name: 'Limit' }).inputValue()).to.equal('1/1h');
  });

  it('is not green if a limiter has no answer', async () => {
    const page = await start();
    await limiter.consume('eve');
    await page.route('**/api/key', async (route) => {
      const answer = await route.fetch();
      const body = (await answer.json()) as { views: object[] };
      const views = body.views.map((view) => ({ ...view, allowed: null, policies: [] }));
      await route.fulfill({ json: { ...body, views } });
    });
    await page.evaluate("location.hash = '#/key/eve'");
    await page.getByText('Unknown: no answer in api').waitFor();
    expect(await page.locator('.verdict').getAttribute('class')).to.equal('verdict');
  });

  it('of a counted key that is banned has Unban in the row, with the time of the ban', async () => {
    const page = await start();
    for (let i = 0; i < 7; i++) await limiter.consume('eve');
    await page.locator('.busy-keys tbody tr', { hasText: /eve\s*api/ }).waitFor();
    await page.locator('.limiters tbody').getByRole('button', { name: 'api' }).click();
    // A key that rose before the last minutes may be near the limit of an hour.
    expect(await page.locator('td[data-label="Near limit"]').innerText()).to.match(/none new|1\s*\/min/);
    const keys = page.locator('.details .keys').first().locator('tbody tr', { hasText: 'eve' });
    await keys.getByRole('button', { name: 'Ban', exact: true }).click();
    await page.getByLabel('Reason').fill('INC-7');
    await page.getByRole('dialog').getByRole('button', { name: 'Ban', exact: true }).click();
    await limiter.consume('eve');
    await keys.getByRole('button', { name: 'Unban' }).waitFor();
    expect(await keys.innerText()).to.match(/for 1 h 59 min/);
    expect(await keys.getByRole('button', { name: 'Ban', exact: true }).count()).to.equal(0);
  });
});
