// Buttons do what they say, and dialogs name what they change.
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { createLimiter, type Limiter } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { told } from '../../../cli/test/cli.js';
import { servers } from '../../../../test/support/shared-servers.js';
import { clients, freshPrefix } from '../../../../test/support/stores.js';
import { endWith, openTab } from '../page.js';
import { startPage, type Site } from '../servers.js';

describe('the buttons of the page', function () {
  this.timeout(60_000);
  let site: Site;
  let store: ReturnType<typeof redisStore>;
  let limiters: Record<'api' | 'login' | 'reports', Limiter>;
  beforeEach(async () => {
    const prefix = freshPrefix();
    store = redisStore(clients.redis, { prefix, counts: true, publish: '50ms', localDenials: false });
    const tiers = {
      free: ['address=600/1m', 'account=60/1m by account'],
      pro: ['address=3000/1m', 'account=1000/1m by account'],
    };
    const common = { store, overrides: true };
    limiters = {
      api: createLimiter({ ...common, name: 'api', tiers, ban: {} }),
      login: createLimiter({
        ...{ ...common, name: 'login', policies: ['address=4/1m'] },
        ban: { after: 2, within: '5m', for: '10m' },
      }),
      reports: createLimiter({
        ...{ ...common, name: 'reports', policies: ['slots=concurrency 4/30s by account'], ban: {} },
      }),
    };
    for (const name of Object.keys(limiters))
      await told(['--redis', servers.redis.url, '--prefix', prefix], name);
    for (const limiter of Object.values(limiters)) endWith(limiter);
    site = endWith(await startPage({ store }));
  });
  const open = async (screen: string) => {
    const tab = await openTab(site.url, { user: 'ada' });
    await tab.page.locator('.limiters tbody').nth(2).waitFor();
    await tab.page.evaluate(`location.hash = '#/${screen}'`);
    return tab;
  };
  const dialog = (page: Page) => page.getByRole('dialog');

  it('with a duration apply it, whatever was chosen last, and an undo names the state that it restores', async () => {
    await limiters.api.consume({ account: 'a90', key: '10.1.0.90' }, { tier: 'free' });
    const { page, problems } = await open('key/a90?by=account');
    const free = page.locator('.answer', { hasText: 'tier free' });
    await free.getByRole('button', { name: 'Limits × 2' }).click();
    await dialog(page).getByLabel('Another duration').fill('3h');
    await dialog(page).getByLabel('Reason').fill('launch');
    await dialog(page).getByRole('button', { name: 'Change limits' }).click();
    await page.locator('.note', { hasText: 'a90' }).getByRole('button', { name: 'Undo' }).click();
    await dialog(page).getByText('Limits: account 120/1m → the configured limits', { exact: true }).waitFor();
    await dialog(page).getByRole('button', { name: 'Cancel' }).click();
    await page.locator('.changes').getByRole('button', { name: 'Undo' }).click();
    await dialog(page).getByText('Limits: account 120/1m → the configured limits', { exact: true }).waitFor();
    await dialog(page).getByRole('button', { name: 'Cancel' }).click();
    // A button without a duration keeps the last choice.
    await free.getByRole('button', { name: 'Limits × 2' }).click();
    expect(await dialog(page).getByLabel('Another duration').inputValue()).to.equal('3h');
    await dialog(page).getByRole('button', { name: 'Cancel' }).click();
    await page.evaluate("location.hash = '#/what-if/api'");
    await page.getByRole('button', { name: 'account in tier free' }).click();
    await page.locator('input[type=range]').fill('40');
    await page.getByRole('button', { name: 'Override all keys for 1 h' }).click();
    expect(await dialog(page).locator('pre').innerText()).to.contain(' --for 1h ');
    await dialog(page).getByLabel('Reason').fill('incident');
    await dialog(page).getByRole('button', { name: 'Change limits' }).click();
    await page.locator('.note', { hasText: 'all keys' }).waitFor();
    const ends = [];
    for await (const { key, until, since } of createAdmin(store).overrides({ name: 'api' }))
      if (key === undefined) ends.push(Math.round((until!.getTime() - since.getTime()) / 60_000));
    expect(ends).to.deep.equal([60]);
    // Nor does it replace the last choice.
    await page.evaluate("location.hash = '#/key/a90?by=account'");
    await free.getByRole('button', { name: 'Limits × 2' }).click();
    expect(await dialog(page).getByLabel('Another duration').inputValue()).to.equal('3h');
    expect(problems).to.deep.equal([]);
  });

  it('reset all answers of a key at once, and the headline names the limiter of earlier denials', async () => {
    for (let i = 0; i < 7; i++) await limiters.login.consume('198.51.100.9');
    await limiters.api.consume({ key: '198.51.100.9', account: 'a1' }, { tier: 'free' });
    await limiters.login.unban('198.51.100.9', { by: 'ops', reason: 'a mistake' });
    const { page, problems } = await open('key/198.51.100.9');
    await page
      .locator('.answer', { hasText: 'reports' })
      .getByText('No limit, only bans')
      .waitFor({ state: 'attached' });
    await page.getByRole('button', { name: 'Reset all 2 answers' }).click();
    expect(await dialog(page).innerText()).to.contain('In all limiters with a record: ');
    expect(await dialog(page).innerText()).to.match(/: (api, login|login, api)\./);
    await dialog(page).getByLabel('Reason').fill('over');
    await dialog(page).getByRole('button', { name: 'Reset', exact: true }).click();
    await page.locator('.note', { hasText: 'login: reset address' }).waitFor();
    const verdict = page.locator('.verdict');
    await page
      .getByText(/Admitted now by every limiter, after \d denials? in login in the last 15 minutes/)
      .waitFor();
    expect(await verdict.innerText()).not.to.contain('reports');
    expect(problems).to.deep.equal([]);
  });

  it('import lines with keys alone, into a limiter that the operator chooses', async () => {
    const { page, problems } = await open('now');
    const all = page.locator('.transfers');
    await all.getByRole('button', { name: 'Import bans' }).click();
    await dialog(page).getByLabel('or its lines').fill('203.0.113.7');
    await dialog(page).getByText('2h', { exact: true }).click();
    await dialog(page).getByText('Choose the limiter of lines without one.').waitFor();
    await dialog(page).getByLabel('Limiter of lines without one').selectOption('login');
    await dialog(page).getByText('1 new', { exact: true }).waitFor();
    await dialog(page).getByLabel('Reason').fill('INC-7');
    await dialog(page).getByRole('button', { name: 'Import', exact: true }).click();
    await page.locator('.note', { hasText: 'Imported 1 ban' }).waitFor();
    expect((await limiters.login.peek('203.0.113.7')).reason).to.equal('banned');
    await all.getByRole('button', { name: 'Import overrides' }).click();
    await dialog(page).getByLabel('or its lines').fill('203.0.113.7 9/1m');
    await dialog(page).getByText('Choose a limiter first.').waitFor();
    await dialog(page).locator('select[name=limiter]').selectOption('login');
    await dialog(page).getByText('1 new', { exact: true }).waitFor();
    expect(problems).to.deep.equal([]);
  });
});
