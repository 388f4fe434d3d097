// Export and import of bans and overrides in Chromium.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { expect } from 'chai';
import express from 'express';
import type { Page } from 'playwright-core';
import type { Limiter } from 'headgate';
import { rateLimit } from 'headgate/express';
import { redisStore } from 'headgate/redis';
import { headgate, told } from '../../../cli/test/cli.js';
import { servers } from '../../../../test/support/shared-servers.js';
import { clients, freshPrefix } from '../../../../test/support/stores.js';
import { endWith, limiterOf, openTab, type TabOptions } from '../page.js';
import { startPage, type Site } from '../servers.js';

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

describe('export and import on the page', function () {
  this.timeout(60_000);
  let site: Site;
  let api: Limiter;
  let prefix: string;
  let where: string[];
  let store: ReturnType<typeof redisStore>;
  beforeEach(async () => {
    prefix = freshPrefix();
    store = redisStore(clients.redis, { prefix, counts: true, publish: '50ms', localDenials: false });
    where = ['--redis', servers.redis.url, '--prefix', prefix];
    api = limiterOf(store, 'api', { policies: ['minute=5/1m'] });
    await told(where, 'api');
    site = endWith(await startPage({ store }));
  });

  const openRow = async (options: TabOptions = {}) => {
    const tab = await openTab(site.url, { user: 'ada', ...options });
    await tab.page.getByRole('button', { name: 'api', exact: true }).click();
    await tab.page.locator('.details .transfer').first().waitFor();
    return tab;
  };
  const row = (page: Page) => page.locator('.details');
  const dialog = (page: Page) => page.getByRole('dialog');

  /** A line without the times of a ban, and the end of the ban. */
  const timeless = (line: string) => {
    const end = /"bannedUntil":"([^"]+)"/.exec(line)?.[1];
    const text = line.replace(/"bannedForMs":[\d.]+/, '').replace(/"bannedUntil":"[^"]+"/, '"bannedUntil"');
    return { line: text, end: end === undefined ? 0 : Date.parse(end) };
  };

  it('saves the lines that the command line writes', async () => {
    await api.ban('eve', '2h', { by: 'grace', reason: 'INC-7' });
    await api.override('bob', '9/1m', { by: 'grace' });
    const { page, problems } = await openRow();
    for (const [kind, words] of [
      ['bans', ['bans', 'export']],
      ['overrides', ['overrides', '--json']],
    ] as const) {
      const [file] = await Promise.all([
        page.waitForEvent('download'),
        row(page)
          .getByRole('button', { name: `Export ${kind}` })
          .click(),
      ]);
      expect(file.suggestedFilename()).to.equal(`${kind}.jsonl`);
      const { stdout } = await headgate([...words, '--name', 'api', ...where]);
      const saved = readFileSync(await file.path(), 'utf8');
      const [ours, theirs] = [timeless(saved), timeless(stdout)];
      expect(ours.line).to.equal(theirs.line);
      // The end is the time that is left, added to the clock of the process that asks.
      expect(ours.end).to.be.closeTo(theirs.end, 1000);
      const note = page.locator('.note', { hasText: `Exported 1 line to ${kind}.jsonl` });
      expect(await note.locator('pre').innerText()).to.equal(
        `headgate ${words.join(' ')} --name api --prefix ${prefix} > ${kind}.jsonl`,
      );
    }
    expect(problems).to.deep.equal([]);
  });

  it('warns of a key that cannot occur, before the import', async () => {
    const web = rateLimit({ store, name: 'web', limit: 5, window: '1m', ban: {} });
    expect(express().use(web)).to.be.a('function');
    await told(where, 'web');
    const { page, problems } = await openTab(site.url, { user: 'ada' });
    await page.getByRole('button', { name: 'web', exact: true }).click();
    await row(page).getByRole('button', { name: 'Import bans' }).click();
    await dialog(page).getByLabel('or its lines').fill('customer:42\n203.0.113.7\ncustomer:43');
    await dialog(page).getByText('2h', { exact: true }).click();
    await dialog(page).getByText('3 new', { exact: true }).waitFor();
    const doubts = await dialog(page).locator('.warn', { hasText: 'cannot occur' }).allInnerTexts();
    expect(doubts.map((text) => text.split(', unless')[0])).to.deep.equal([
      'The keys of "web" are addresses of clients, so "customer:42" cannot occur',
      'The keys of "web" are addresses of clients, so "customer:43" cannot occur',
    ]);
    expect(problems).to.deep.equal([]);
  });

  it('shows the overrides of an import as one change, with one undo', async () => {
    const { page, problems } = await openRow();
    await row(page).getByRole('button', { name: 'Import overrides' }).click();
    const lines = Array.from({ length: 30 }, (_, i) => `customer:${i} 9/1m`);
    await dialog(page).getByLabel('or its lines').fill(lines.join('\n'));
    await dialog(page).getByText('30 new', { exact: true }).waitFor();
    await dialog(page).getByLabel('Reason').fill('INC-8');
    await dialog(page).getByRole('button', { name: 'Import', exact: true }).click();
    const change = page.locator('.changes li', { hasText: 'INC-8' });
    await change.getByText('30 keys').waitFor();
    expect(await change.count()).to.equal(1);
    await change.getByRole('button', { name: 'and 27 more' }).click();
    expect(await change.locator('code').count()).to.equal(30);
    await change.getByRole('button', { name: 'Undo' }).click();
    await dialog(page).getByText('and 25 more').waitFor();
    await dialog(page).getByRole('button', { name: 'Undo', exact: true }).click();
    await change.getByText('undone').waitFor();
    expect(await api.overrideOf('customer:7')).to.equal(undefined);
    expect(problems).to.deep.equal([]);
  });

  it('shows the effect of each line of a file, imports the lines, and undoes the import', async () => {
    await api.ban('eve', '1h', { by: 'grace', reason: 'first' });
    const { page, problems } = await openRow();
    await row(page).getByRole('button', { name: 'Import bans' }).click();
    const content = ['eve', 'mallory', '10.0.0.0/30', '10.0.0.1, evil'].join('\n');
    await dialog(page)
      .getByLabel('A file')
      .setInputFiles({
        ...{ name: 'list of INC-7.txt', mimeType: 'text/plain', buffer: Buffer.from(content) },
      });
    await dialog(page).getByText('2h', { exact: true }).click();
    await dialog(page).getByText('1 refused, 1 longer, 2 new').waitFor();
    expect(await dialog(page).locator('.effects li').allInnerTexts()).to.deep.equal([
      '10.0.0.1, evil\nline 4: "10.0.0.1, evil" has more than an address. Remove the line.\nrefused',
      'eve\n59 min left → 2 h\nlonger',
      'mallory\n2 h\nnew',
      '10.0.0.0/30\n4 keys, 2 h\nnew',
    ]);
    await dialog(page).getByLabel('Reason').fill("it's INC-7");
    const submit = dialog(page).getByRole('button', { name: 'Import', exact: true });
    expect(await submit.isDisabled()).to.equal(true);
    expect((await api.peek('mallory')).allowed).to.equal(true);
    await dialog(page).getByRole('button', { name: 'Leave out the refused lines' }).click();
    await dialog(page).getByText('1 longer, 2 new').waitFor();
    expect(await dialog(page).locator('pre').innerText()).to.equal(
      // The lines are no longer those of the file.
      `headgate bans import bans.jsonl --name api --for 2h --by ada --reason 'it'\\''s INC-7' --prefix ${prefix}`,
    );
    await submit.click();
    await page.locator('.note', { hasText: 'Imported 3 bans of 6 keys' }).waitFor();
    for (const key of ['mallory', '10.0.0.3']) expect((await api.peek(key)).reason, key).to.equal('banned');
    const { stdout } = await headgate(['log', '--json', '--action', 'import', ...where]);
    expect(JSON.parse(stdout)).to.include({ action: 'import', keys: 6, by: 'ada', reason: "it's INC-7" });

    await page.evaluate("location.hash = '#/log'");
    const logged = page.locator('.log tr', { hasText: 'imported bans' });
    await logged.getByRole('button', { name: 'Undo' }).click();
    await dialog(page).getByRole('button', { name: 'Undo' }).click();
    await page.locator('.note', { hasText: 'Undid: imported bans of 6 keys' }).waitFor();
    expect((await api.peek('mallory')).allowed).to.equal(true);
    expect((await api.peek('eve')).retryAfterMs).to.be.within(3_500_000, 3_600_000);
    await logged.getByText('undone').waitFor();
    expect(problems).to.deep.equal([]);
  });

  it('imports overrides that are typed, by the keyboard, and undoes them together', async () => {
    await api.override('bob', '9/1m', { by: 'grace' });
    const { page, problems } = await openRow();
    await row(page).getByRole('button', { name: 'Import overrides' }).focus();
    await page.keyboard.press('Enter');
    await dialog(page).waitFor();
    for (let i = 0; i < 5; i++) {
      if ((await page.evaluate<string>('document.activeElement.name')) === 'lines') break;
      await page.keyboard.press('Tab');
    }
    await page.keyboard.type('bob minute=8/1m\ncarl 7/1m');
    await dialog(page).getByText('1 changed, 1 new').waitFor();
    expect(await dialog(page).locator('.effects li').first().innerText()).to.contain('9/1m → minute 8/1m');
    await dialog(page).getByLabel('Reason').focus();
    await page.keyboard.type('launch');
    await page.keyboard.press('Enter');
    await page.locator('.note', { hasText: 'Imported 2 overrides' }).waitFor();
    expect(await api.overrideOf('carl')).to.include({ change: '7/1m', by: 'ada', reason: 'launch' });
    await page.locator('.note').getByRole('button', { name: 'Undo' }).click();
    await dialog(page).getByRole('button', { name: 'Undo' }).click();
    await page.locator('.note', { hasText: 'Undid' }).waitFor();
    expect(await api.overrideOf('carl')).to.equal(undefined);
    expect((await api.overrideOf('bob'))?.change).to.equal('9/1m');
    expect(problems).to.deep.equal([]);
  });

  it('explains an error in words, fits into 390 pixels, and has no violation that axe finds', async () => {
    const { page } = await openRow({
      ...{ viewport: { width: 390, height: 780 }, hasTouch: true, bypassCSP: true },
    });
    await row(page).getByRole('button', { name: 'Import bans' }).click();
    await dialog(page)
      .getByLabel('or its lines')
      .fill(`${'k'.repeat(300)}\n10.0.0.1, evil\n${'x\n'.repeat(1000)}`);
    await dialog(page).getByText('The page imports at most 1000 lines at a time.').waitFor();
    await dialog(page)
      .getByLabel('or its lines')
      .fill(`${'k'.repeat(300)}\n10.0.0.1, evil\nx`);
    await dialog(page).getByText('3 refused', { exact: true }).waitFor();
    expect(await dialog(page).innerText()).to.contain('the line has no duration. Choose for how long.');
    await dialog(page).getByText('1d', { exact: true }).click();
    await dialog(page).getByText('1 refused, 2 new').waitFor();
    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).to.equal(390);
    const box = (await dialog(page).boundingBox())!;
    expect(box.x + box.width).to.be.at.most(390);
    expect(await page.evaluate<number>('document.querySelector("dialog").scrollWidth')).to.be.at.most(
      box.width,
    );
    await page.addScriptTag({ path: axe });
    const source =
      '({ violations }) => violations.map(({ id, nodes }) => id + nodes.map((n) => n.html).join())';
    expect(await page.evaluate<string[]>(`axe.run().then(${source})`)).to.deep.equal([]);
  });

  it('offers neither to a visitor who is not an operator', async () => {
    const { page } = await openTab(site.url);
    await page.getByRole('button', { name: 'api', exact: true }).click();
    await page.locator('.detail h3', { hasText: 'Overrides' }).waitFor();
    expect(await page.getByRole('button', { name: /Import|Export/ }).count()).to.equal(0);
  });
});
