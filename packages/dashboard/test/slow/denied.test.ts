// The searches of an open row, and the dialogs, in Chromium.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { memoryStore, type Store } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { clients, freshPrefix } from '../../../../test/support/stores.js';
import { limiterOf, openSite, type TabOptions } from '../page.js';

describe('an open row of the page', function () {
  this.timeout(60_000);
  let traffic: NodeJS.Timeout | undefined;
  afterEach(() => clearInterval(traffic));

  const open = (store: Store, screen = 'now', options?: TabOptions) => openSite({ store }, screen, options);
  const onRedis = () => redisStore(clients.redis, { prefix: freshPrefix(), publish: '50ms', counts: true });
  const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });

  it('searches denied keys although no denial was counted, and says so', async () => {
    const store = memoryStore();
    const api = limiterOf(store, 'api');
    const { page, problems } = await open(store);
    await button(page, 'api').waitFor();
    await api.consume('eve', { cost: 5 });
    traffic = setInterval(() => void api.consume(`user:${Date.now()}`), 100);
    await page.locator('.limiters td', { hasText: /none counted in the last seconds/ }).waitFor();
    expect(await page.getByRole('region', { name: 'Denied' }).innerText()).to.contain(
      'none counted in the last seconds',
    );
    let answer = (): void => {};
    const asked = new Promise<void>((resolve) => (answer = resolve));
    await page.route('**/api/denied?*', async (route) => {
      await asked;
      await route.continue();
    });
    await button(page, 'api').click();
    await page.getByText('No denial was counted in the last 5 s, searching …').waitFor();
    expect(await page.locator('.detail').innerText()).not.to.match(/No key is denied/);
    answer();
    await page.locator('.detail .list li', { hasText: /eve[^]*by default for \d/ }).waitFor();
    expect(await page.getByRole('heading', { name: /^Denied now at \d\d:\d\d/ }).count()).to.equal(1);
    expect(await page.locator('.detail').innerText()).not.to.match(/No key is denied|nothing is denied/);
    expect(problems).to.deep.equal([]);
  });

  it('finds keys above 80 % by itself, with the time, and again while it is open', async () => {
    const store = memoryStore();
    const api = limiterOf(store, 'api', { policies: ['10/1h'] });
    const { page, problems } = await open(store);
    await button(page, 'api').waitFor();
    await api.consume('ada', { cost: 8 });
    let asked = 0;
    page.on('request', (request) => (asked += Number(request.url().includes('api/near'))));
    await button(page, 'api').click();
    await page.getByText('8 of 10').waitFor();
    await page.getByRole('heading', { name: /^Above 80 % at \d\d:\d\d/ }).waitFor();
    await api.consume('ada');
    await page.getByText('9 of 10').waitFor({ timeout: 15_000 });
    expect(asked).to.be.within(2, 4);
    expect(problems).to.deep.equal([]);
  });

  it('has the number of all bans and overrides, and shows the next ones', async () => {
    const store = memoryStore();
    const api = limiterOf(store, 'api');
    await api.consume('ada');
    await createAdmin(store).ban('203.0.113.0/26', '1h', { name: 'api', by: 'ada', reason: 'INC-7' });
    for (let i = 0; i < 60; i++) await api.override(`k${i}`, '9/1h');
    const { page, problems } = await open(store);
    await button(page, 'api').click();
    await page.getByRole('heading', { name: /^Bans 64/ }).waitFor();
    await page.getByRole('heading', { name: /^Overrides 60/ }).waitFor();
    expect(await button(page, 'Unban').count()).to.equal(50);
    await button(page, 'Show more bans: 50 of 64 are shown').click();
    await button(page, 'Unban').nth(63).waitFor();
    await button(page, 'Show more overrides: 50 of 60 are shown').click();
    await button(page, 'End').nth(59).waitFor();
    expect(await page.getByRole('button', { name: /^Show more/ }).count()).to.equal(0);
    expect(problems).to.deep.equal([]);
  });

  it('shows the slots of each key', async () => {
    const store = memoryStore();
    const reports = limiterOf(store, 'reports', { policies: ['slots=concurrency 2/1m'] });
    const { page } = await open(store);
    await button(page, 'reports').waitFor();
    for (const key of ['pdf', 'pdf', 'csv']) await reports.consume(key);
    await button(page, 'reports').click();
    await page.locator('.slots li', { hasText: /pdf\s*2 of 2 slots/ }).waitFor();
    await page.locator('.slots li', { hasText: /csv\s*1 of 2 slots/ }).waitFor();
    const stop = new AbortController();
    const waiting = reports.wait('pdf', { timeout: '1m', signal: stop.signal }).catch(() => {});
    const process = /\d+: 2 slots held for up to (\d+|<) .*, 1 waiting for up to /;
    await page.locator('.slots li', { hasText: process }).waitFor();
    await page.getByRole('link', { name: 'pdf' }).first().click();
    await page.locator('.answer.denied', { hasText: process }).waitFor();
    stop.abort();
    await waiting;
  });

  it('begins with a lower limit for all keys, and takes a number alone', async () => {
    const store = onRedis();
    const api = limiterOf(store, 'api', { policies: ['minute=60/1m'] });
    const { page, problems } = await open(store);
    await button(page, 'api').click();
    await page.getByRole('button', { name: 'Change the limits of all keys' }).click();
    const dialog = page.getByRole('dialog');
    const limit = dialog.getByLabel('Limit of minute');
    expect(await limit.inputValue()).to.equal('30/1m');
    expect(await dialog.getByRole('button', { name: '× ½' }).getAttribute('aria-pressed')).to.equal('true');
    await dialog.getByLabel('Reason').fill('incident');
    await limit.fill('ten');
    await dialog.getByText('Write a number and a window, such as 10/1m.').waitFor();
    expect(await limit.getAttribute('aria-invalid')).to.equal('true');
    expect(await dialog.locator('pre').count()).to.equal(0);
    expect(await dialog.getByRole('button', { name: 'Change limits' }).isDisabled()).to.equal(true);
    await limit.fill('10');
    expect(await dialog.locator('pre').innerText()).to.contain(
      'headgate override minute=10/1m --all --name api',
    );
    await dialog.getByRole('button', { name: 'Change limits' }).click();
    await page.locator('.note', { hasText: 'all keys' }).waitFor();
    await api.consume('ada');
    let limitNow = 60;
    for (let i = 0; i < 50 && limitNow === 60; i++) {
      await sleep(100);
      limitNow = (await api.usage('ada')).policies[0]!.limit;
    }
    expect(limitNow).to.equal(10);
    expect(problems).to.deep.equal([]);
  });

  it('shows no command for a store in memory', async () => {
    const store = memoryStore();
    limiterOf(store, 'api');
    const { page } = await open(store, 'key/ada');
    await page.getByRole('button', { name: 'Ban', exact: true }).click();
    await page.getByRole('dialog').waitFor();
    expect(await page.getByRole('dialog').innerText()).not.to.match(/command line|headgate/);
    await page.keyboard.press('Escape');
    await page.goto(page.url().replace('key/ada', 'now'));
    await button(page, 'api').click();
    await page.getByText('No key is banned, as far as the store has records of bans.').waitFor();
    expect(await page.locator('.detail').innerText()).not.to.contain('headgate list');
  });

  it('resets a key in all limiters and dimensions, and reports each', async () => {
    const store = onRedis();
    const api = limiterOf(store, 'api');
    const login = limiterOf(store, 'login', { policies: ['account=5/1h by account'] });
    await api.consume('ada', { cost: 5 });
    await login.consume({ account: 'ada' }, { cost: 5 });
    const { page, problems } = await open(store, 'key/ada');
    const answer = page.locator('.answer', { has: page.getByRole('heading', { name: 'api' }) });
    await answer.getByRole('button', { name: 'Reset' }).click();
    const dialog = page.getByRole('dialog');
    expect(await dialog.innerText()).to.contain('Stays charged: account in login');
    await dialog.getByText('in all limiters and dimensions with a record: api, login by account').click();
    expect(await dialog.innerText()).not.to.contain('Stays charged');
    expect(await dialog.locator('pre').innerText()).to.contain(
      'headgate reset ada --name login --dimension account',
    );
    await dialog.getByLabel('Reason').fill('INC-7');
    await dialog.getByRole('button', { name: 'Reset' }).click();
    const note = page.locator('.note', { hasText: 'Reset ada in api, login by account' });
    await note.waitFor();
    expect(await note.locator('li').allInnerTexts()).to.deep.equal([
      'api: reset default',
      'login by account: reset account',
    ]);
    expect((await api.peek('ada')).remaining).to.equal(5);
    expect((await login.peek({ account: 'ada' })).remaining).to.equal(5);
    expect(problems).to.deep.equal([]);
  });

  it('labels the figures of denied keys on a phone, with links that a finger meets', async () => {
    const store = memoryStore();
    const api = limiterOf(store, 'api', { policies: ['minute=2/1h'] });
    const { page } = await open(store, 'now', { viewport: { width: 390, height: 844 }, hasTouch: true });
    traffic = setInterval(() => void api.consume('203.0.113.66'), 100);
    const row = page.locator('.denied-keys tbody tr', { hasText: /for \d/ });
    await row.waitFor();
    const labels = await page.evaluate<string[]>(
      "[...document.querySelectorAll('.denied-keys tbody tr:first-child td')].map((each) => getComputedStyle(each, '::before').content)",
    );
    expect(labels).to.deep.equal(['"Key"', '"Limiter"', '"Denied/s"', '"Cause"', '"End"']);
    expect((await row.getByRole('link').boundingBox())!.height).to.be.at.least(24);
  });
});
