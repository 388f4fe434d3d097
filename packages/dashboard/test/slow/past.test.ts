// The past denials of a key, the processes, and the times of the page.
import { createRequire } from 'node:module';
import { hostname } from 'node:os';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { memoryStore, type Limiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { minuteKey, namesKey } from '../../../../src/stores/redis/operators/count-keys.js';
import { clients, freshPrefix } from '../../../../test/support/stores.js';
import { counted, endWith, limiterOf, openSite, openTab, type TabOptions } from '../page.js';
import { startPage } from '../servers.js';

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

describe('the past on the page', function () {
  this.timeout(90_000);
  let limiter: Limiter;

  const open = async (screen: string, options: TabOptions = {}) => {
    const store = memoryStore();
    limiter = limiterOf(store, 'api', { policies: ['minute=2/1m'], overrides: false });
    const site = endWith(await startPage({ store }));
    for (let i = 0; i < 9; i++) await limiter.consume('203.0.113.7');
    await counted(store, 'api', 9);
    return openTab(`${site.url}#/${screen}`, { user: 'ada', ...options });
  };
  const violations = async (page: Page): Promise<string[]> => {
    await page.addScriptTag({ path: axe });
    return page.evaluate<string[]>(
      'axe.run().then(({ violations }) => violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`))',
    );
  };
  const isTooWide = (page: Page) =>
    page.evaluate<boolean>('document.documentElement.scrollWidth > document.documentElement.clientWidth');

  it('shows when and why a key was denied, in each span, on a phone, too', async () => {
    const { page, problems } = await open('key/203.0.113.7', {
      viewport: { width: 390, height: 844 },
      bypassCSP: true,
    });
    const past = page.locator('section', { has: page.locator('#past') });
    await past.locator('svg.past').waitFor();
    for (const span of ['15 min', '1 h', '24 h']) {
      await past.getByRole('button', { name: span }).click();
      expect(await past.innerText())
        .to.contain('7 denials')
        .and.contain('by minute');
    }
    const titles = await past.locator('svg.past title').allTextContents();
    expect(titles.filter((title) => title.includes('7 denials by minute'))).to.have.length(1);
    expect(await isTooWide(page)).to.equal(false);
    expect(await violations(page)).to.deep.equal([]);
    expect(problems).to.deep.equal([]);
  });

  it('answers why a key was denied at a time, in the shown zone', async () => {
    const { page, problems } = await open('key/203.0.113.7', { timezoneId: 'Europe/Berlin' });
    const day = new Date();
    day.setUTCHours(day.getUTCHours() - 20, 12, 0, 0);
    const minute = day.getTime();
    const minutes = [
      { minute, count: 41, policy: 'minute' },
      { minute: minute + 60_000, count: 7, reason: 'banned' },
      { minute: minute + 3_600_000, count: 3, policy: 'minute' },
    ];
    const past = { name: 'api', key: '203.0.113.7', dimension: 'key', first: minute, last: minute, minutes };
    await page.route('**/api/past', (route) => route.fulfill({ json: { denials: [past], isCounted: true } }));
    await page.reload();
    const clockOf = (timeZone: string) =>
      new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', timeZone }).format(day);
    await page.getByLabel('At', { exact: true }).fill(clockOf('Europe/Berlin'));
    const items = page.locator('.at li');
    await items.first().waitFor();
    // The day is before the time if it is another one.
    const [at, after] = await items.allInnerTexts();
    expect(at).to.match(/\d\d:12.* 41 in api, by minute$/);
    expect(after).to.match(/\d\d:13.* 7 in api, banned$/);
    expect(await items.count()).to.equal(2);
    await page.locator('.zone').click();
    await page.getByLabel('At', { exact: true }).fill(clockOf('UTC'));
    await items.first().waitFor();
    expect(await items.first().innerText()).to.contain('41 in api, by minute');
    await page.getByLabel('At', { exact: true }).fill(clockOf('UTC').replace(':12', ':40'));
    await page.getByText(/No denial is recorded from 2 minutes before .* UTC to 2 minutes after\./).waitFor();
    expect(problems).to.deep.equal([]);
  });

  it('names the dimension of a limit that denied, if it is not that of the key', async () => {
    const store = memoryStore();
    const login = limiterOf(store, 'login', { policies: ['minute=1/1m by account', 'day=90/1d by address'] });
    const { page } = await openSite({ store });
    for (let i = 0; i < 4; i++) await login.consume({ account: 'ada', address: '203.0.113.66' });
    await counted(store, 'login', 4);
    await page.evaluate("location.hash = '#/key/203.0.113.66?by=address'");
    const card = page.locator('section .answer', { hasText: 'login' });
    await card.getByText('3 denials', { exact: true }).waitFor();
    expect(await card.innerText()).to.contain('by minute, a limit of another key (by account), first');
  });

  it('has the seconds of changes in the log, and space between the reset of all answers and the first one', async () => {
    const store = memoryStore();
    const limiters = ['api', 'login'].map((name) => limiterOf(store, name));
    for (const each of limiters) await each.consume('203.0.113.67');
    await limiters[0]!.ban('203.0.113.67', '1h', { by: 'ops' });
    const { page } = await openSite({ store }, 'key/203.0.113.67');
    await page.getByRole('button', { name: 'Reset all 2 answers' }).waitFor();
    const [button, answer] = await Promise.all([
      page.getByRole('button', { name: 'Reset all 2 answers' }).boundingBox(),
      page.locator('.answer').first().boundingBox(),
    ]);
    expect(answer!.y - button!.y - button!.height).to.be.above(8);
    await page.evaluate("location.hash = '#/log'");
    const time = page.locator('table.log tr', { hasText: '203.0.113.67' }).locator('time');
    expect(await time.innerText()).to.match(/\d\d:\d\d:\d\d/);
  });

  it('has every minute of the denials as text', async () => {
    const { page } = await open('key/203.0.113.7');
    const hour = Math.floor(Date.now() / 60_000 - 30) * 60_000;
    const minutes = Array.from({ length: 9 }, (_, i) => ({
      minute: hour + i * 60_000,
      count: i + 1,
      policy: 'minute',
    }));
    const past = { name: 'api', key: '203.0.113.7', dimension: 'key', first: hour, last: hour, minutes };
    await page.route('**/api/past', (route) => route.fulfill({ json: { denials: [past], isCounted: true } }));
    await page.reload();
    const older = page.locator('details', { hasText: '4 older lines' });
    await older.locator('summary').click();
    expect(await older.locator('li').allInnerTexts()).to.have.length(4);
    expect(await older.locator('li').last().innerText()).to.match(/ 1 by minute$/);
  });

  it('lists the denied keys of all limiters with the cause', async () => {
    const { page, problems } = await open('now', { viewport: { width: 390, height: 844 }, bypassCSP: true });
    await limiter.ban('203.0.113.9', '1h');
    const traffic = setInterval(() => {
      for (const key of ['203.0.113.7', '203.0.113.9']) void limiter.consume(key);
    }, 100);
    try {
      const rows = page.locator('table.denied-keys tbody tr');
      await rows.filter({ hasText: /203\.0\.113\.9[^]*api[^]*banned/ }).waitFor();
      await rows.filter({ hasText: /203\.0\.113\.7[^]*api[^]*minute/ }).waitFor();
      expect(await isTooWide(page)).to.equal(false);
      expect(await violations(page)).to.deep.equal([]);
    } finally {
      clearInterval(traffic);
    }
    expect(problems).to.deep.equal([]);
  });

  it('names the first and the last denial of the chosen span only', async () => {
    const { page } = await open('key/203.0.113.7', { timezoneId: 'UTC' });
    const [old, late] = [300, 3].map((ago) => Math.floor(Date.now() / 60_000 - ago) * 60_000) as [
      number,
      number,
    ];
    const minutes = [old, late].map((minute) => ({ minute, count: 7, policy: 'minute' }));
    const past = {
      name: 'api',
      key: '203.0.113.7',
      dimension: 'key',
      first: old,
      last: late + 5000,
      minutes,
    };
    await page.route('**/api/past', (route) => route.fulfill({ json: { denials: [past], isCounted: true } }));
    await page.reload();
    const section = page.locator('section', { has: page.locator('#past') });
    await section.getByRole('button', { name: '15 min' }).click();
    const clock = new Date(late).toISOString().slice(11, 16);
    await section.getByText(`by minute, first ${clock}, last ${clock}`).waitFor();
    expect(await section.innerText())
      .to.contain('7 denials')
      .and.not.contain('14 denials');
  });

  it('What if has the part of the keys that the limit denies, and the denied requests', async () => {
    const { page } = await open('what-if/api');
    const verdict = page.locator('.verdict-line');
    await verdict.waitFor();
    expect(await verdict.innerText()).to.equal(
      'The configured limit of 2 denied 100 % of the keys in a window.',
    );
    const requests = await page.locator('.denials').innerText();
    expect(requests).to.match(/^Since \d\d:\d\d, api denied 7 of \d+ requests \(\d+ %\): 7 by this limit\.$/);
    await page.locator('input[type=range]').fill('1');
    expect(await verdict.innerText())
      .to.contain('would have denied 100 % of the keys')
      .and.match(/, and about \d+ of \d+ admitted units \(50 %\)\.$/);
  });

  it('shows the processes, and numbers under the pointer', async () => {
    const { page, problems } = await open('processes', {
      viewport: { width: 390, height: 844 },
      bypassCSP: true,
    });
    // A process without decisions sends no counts.
    const traffic = setInterval(() => void limiter.consume('203.0.113.8'), 100);
    const row = page.locator('.processes tbody tr');
    await row.waitFor();
    await page.waitForFunction('/ms late/.test(document.querySelector(".processes").innerText)');
    expect(await row.innerText())
      .to.contain(hostname())
      .and.contain(String(process.pid))
      .and.contain('1 limiter');
    expect(await isTooWide(page)).to.equal(false);
    expect(await violations(page)).to.deep.equal([]);
    await page.evaluate("location.hash = '#/now'");
    await page.locator('.spark .hit title').first().waitFor({ state: 'attached' });
    await page.getByRole('button', { name: '1 h', exact: true }).click();
    await page.locator('.spark.large .hit').nth(50).waitFor({ state: 'attached' });
    const texts = await page.locator('.spark.large .hit title').allTextContents();
    // The day is named if it is another one.
    const text = /^(\d+ \w+ )?\d\d:\d\d( [\w+-]+)?: \d+ admitted, \d+ denied$/;
    expect(texts[0]!.trim()).to.match(text);
    await page.getByRole('button', { name: '24 h', exact: true }).click();
    await page.locator('.spark.large .hit').nth(142).waitFor({ state: 'attached' });
    const label = (await page.locator('.spark.large').getAttribute('aria-label'))!;
    clearInterval(traffic);
    expect(label).to.match(/^since \d+ \w+ \d\d:\d\d .* in ten minutes$/);
    expect(await page.locator('.limiters td').first().getAttribute('data-label')).to.equal('Last 24 hours');
    expect(await isTooWide(page)).to.equal(false);
    expect(problems).to.deep.equal([]);
  });

  it('shows past outages: in the numbers under the pointer, and beside the store', async () => {
    const prefix = freshPrefix();
    const now = Math.floor(Date.now() / 60_000) * 60_000;
    const before = (minutes: number) => now - minutes * 60_000;
    await clients.redis.zadd(namesKey(prefix), Date.now(), 'api');
    await clients.redis.hset(minuteKey(prefix, 'api', before(9)), { a: 1200, d: 34, g: 1000, h: 990 });
    await clients.redis.hset(minuteKey(prefix, 'api', before(8)), { a: 1200, d: 34, g: 234, h: 200, o: 30 });
    await clients.redis.hset(minuteKey(prefix, 'api', before(5)), { a: 1200 });
    await clients.redis.hset(minuteKey(prefix, 'api', before(3)), { a: 1200, g: 7 });
    for (const key of await clients.redis.keys(`${prefix}:*`)) await clients.redis.pexpire(key, 3_600_000);
    const store = redisStore(clients.redis, { prefix });
    limiterOf(store, 'api', { policies: ['minute=2/1m'], ban: undefined, overrides: false });
    const { page, problems } = await openSite({ store }, 'now', { timezoneId: 'UTC' });
    const clock = (at: number) => new Date(at).toISOString().slice(11, 16);
    const line = `Was down in the minutes of ${clock(before(9))} and ${clock(before(8))}: it did not answer in time. 1,234 decisions without it`;
    for (const span of ['15 min', '1 h']) {
      await page.getByRole('button', { name: span, exact: true }).click();
      await page.getByText(line).waitFor();
      await page.getByText('7 late answers: decided without the store, which was up').waitFor();
      for (const text of [
        `${clock(before(8))}: 1,200 admitted, 34 denied, 234 decided without the store`,
        `${clock(before(5))}: 1,200 admitted, 0 denied`,
      ])
        await page
          .locator('.spark.large .hit title', { hasText: text })
          .first()
          .waitFor({ state: 'attached' });
    }
    expect(problems).to.deep.equal([]);
    await store.close?.();
  });

  it('switches all times to UTC, and keeps the choice', async () => {
    const { page } = await open('key/203.0.113.7', { timezoneId: 'Asia/Tokyo' });
    await limiter.ban('203.0.113.7', '1h', { by: 'ada' });
    const time = page.locator('.changes time').first();
    await time.waitFor({ timeout: 20_000 });
    expect(await time.getAttribute('title')).to.contain('GMT+9');
    await page.getByRole('button', { name: 'GMT+9' }).click();
    expect(await time.getAttribute('title')).to.contain('UTC');
    await page.reload();
    expect(await page.getByRole('button', { name: 'UTC' }).count()).to.equal(1);
  });
});
