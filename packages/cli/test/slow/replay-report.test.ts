import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { expect } from 'chai';
import { chromium, type Browser } from 'playwright-core';
import { findProgram } from '../../../../scripts/programs.mjs';
import { headgate } from '../cli.js';
import { jsonLine, LogDirectory, trace } from '../logs.js';
import { START } from '../../../../test/support/stores.js';

describe('headgate replay --report', () => {
  let logs: LogDirectory;
  beforeEach(() => (logs = new LogDirectory()));
  afterEach(() => logs.remove());

  const replay = (args: readonly string[]) =>
    headgate(['replay', ...args], { cwd: logs.path, stdin: Readable.from([]) });

  let browser: Browser;
  before(async function () {
    this.timeout(60_000);
    browser = await chromium.launch({ executablePath: findProgram('chromium'), args: ['--no-sandbox'] });
  });
  after(() => browser?.close());

  for (const colorScheme of ['light', 'dark'] as const) {
    it(`is one page that draws, needs no network and runs nothing of the log, ${colorScheme}`, async () => {
      const evil = '</script><script>document.title="evil"</script><img src=x onerror=alert(1)>&amp;"\'';
      const requests = trace(3, 600).map(({ time, ip }) =>
        JSON.stringify({ time, user: ip.endsWith('.1') ? evil : ip }),
      );
      const file = logs.write(`${'<b>'}.log`, [...requests, `<script>alert(2)</script>`]);
      const args = [
        file,
        '--key',
        'user',
        '--policy',
        '<i>=5/10s',
        '--policy',
        'second=3/1s',
        '--report',
        'r.html',
      ];
      const { code, stdout, stderr } = await replay(args);
      expect(code, stderr).to.equal(0);
      expect(stdout).to.contain('r.html');

      const page = await browser.newPage({ colorScheme });
      const problems: string[] = [];
      const requested: string[] = [];
      page.on('pageerror', ({ message }) => problems.push(message));
      page.on('console', (message) => problems.push(message.text()));
      page.on('dialog', (dialog) => problems.push(dialog.message()));
      page.on('request', (request) => requested.push(request.url()));
      const url = `file://${logs.path}/r.html`;
      await page.goto(url);
      expect(await page.title()).to.equal('Headgate replay: <b>.log');
      const content = await page.locator('body').innerText();
      expect(content).to.contain(evil).and.to.contain('<script>alert(2)</script>').and.to.contain('<i>');
      expect(await page.locator('.uplot canvas').count()).to.equal(3);
      expect(await page.locator('img').count()).to.equal(0);
      const drawn = await page.evaluate<number>(`(() => {
        const canvas = document.querySelector('#requests canvas');
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return data.filter((_, i) => i % 4 === 3 && data[i] > 0).length;
      })()`);
      expect(drawn).to.be.greaterThan(500);
      await page.setViewportSize({ width: 400, height: 700 });
      expect(problems).to.deep.equal([]);
      expect(requested.filter((each) => each !== url && !each.startsWith('data:'))).to.deep.equal([]);
      await page.close();
    });
  }

  it('distinguishes denied, admitted and partial intervals, also on a phone and without sight', async () => {
    const requests = Array.from({ length: 2005 }, (_, i) => ({
      time: START + 500 * i,
      ip: `10.0.0.${i % 2}`,
    }));
    const file = logs.write('access.log', requests.map(jsonLine));
    const { code } = await replay([file, '--policy', '20/1m', '--report', 'r.html']);
    expect(code).to.equal(0);
    const page = await browser.newPage({ viewport: { width: 390, height: 800 }, hasTouch: true });
    await page.goto(`file://${logs.path}/r.html`);
    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).to.equal(390);

    const bar = await page.evaluate<string>(
      `getComputedStyle(document.querySelector('.bar.bad i')).backgroundColor`,
    );
    expect(bar).to.equal('rgb(207, 34, 46)');
    const stacked = await page.evaluate<{ denied: number; admitted: number }>(`(() => {
      const canvas = document.querySelector('#requests canvas');
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      const count = (r, g, b) => {
        let n = 0;
        for (let i = 0; i < data.length; i += 4) if (data[i] === r && data[i + 1] === g && data[i + 2] === b) n += 1;
        return n;
      };
      return { denied: count(207, 34, 46), admitted: count(43, 144, 135) };
    })()`);
    // The heights of stacked areas are sums. Areas drawn behind each other would show single values.
    const { stdout } = await replay(['--json', file, '--policy', '20/1m']);
    const { denied, admitted } = JSON.parse(stdout) as Record<'denied' | 'admitted', number>;
    expect(stacked.denied / stacked.admitted).to.be.within(
      (0.7 * denied) / admitted,
      (1.4 * denied) / admitted,
    );

    await page.locator('#requests .u-over').tap({ position: { x: 150, y: 60 } });
    const legend = () => page.locator('#requests .u-legend').innerText();
    expect(await legend()).to.match(/2\d{3}-\d\d-\d\d[^]*denied[^\d]*\d+[^]*admitted[^\d]*\d+/);
    const shown = () =>
      page.evaluate<number>(
        `uPlot.sync('report').plots.reduce((n, { scales: { x } }) => n + x.max - x.min, 0)`,
      );
    const whole = await shown();
    await page.locator('#in').tap();
    expect(await shown()).to.be.closeTo(whole / 2, whole / 10);
    await page.locator('#all').tap();
    expect(await shown()).to.equal(whole);

    const content = await page.locator('body').innerText();
    expect(content).to.contain('Shaded: the log covers a part of that interval only');
    const label = await page.locator('#requests').getAttribute('aria-label');
    expect(label).to.match(/^Per \d+s: requests at most [\d,]+, from 20.*; denied at most [\d,]+, from 20/);
    expect(await page.locator('details tr').count()).to.be.greaterThan(10);
    await page.close();
  });

  it('has tables that can be sorted and saved, a scale by logarithms, and prints on white', async () => {
    const requests = Array.from({ length: 400 }, (_, i) => ({
      time: START + 5000 * i,
      ip: `10.0.0.${[2, 3, 3, 3, 4, 4, 4, 4, 4, 4][i % 10]}`,
    }));
    const file = logs.write('access.log', [
      ...requests.map(jsonLine),
      jsonLine({ time: START + 3e6, ip: '10.0.0.2' }),
    ]);
    const { code } = await replay([
      file,
      '--key',
      'ip',
      '--policy',
      '{"name":"=x","limit":5,"window":"1h"}',
      '--policy',
      '20/10m',
      '--report',
      'r.html',
    ]);
    expect(code).to.equal(0);
    const page = await browser.newPage({ colorScheme: 'dark', acceptDownloads: true });
    await page.goto(`file://${logs.path}/r.html`);
    const clients = () =>
      page.locator('table[data-name="clients denied"] tbody td:first-child').allTextContents();
    const order = ['10.0.0.4', '10.0.0.3', '10.0.0.2'];
    expect(await clients()).to.deep.equal(order);
    const denied = page.locator('table[data-name="clients denied"] th', { hasText: /^denied$/ });
    await denied.locator('button').click();
    expect([await clients(), await denied.getAttribute('aria-sort')]).to.deep.equal([order, 'descending']);
    await denied.locator('button').click();
    expect([await clients(), await denied.getAttribute('aria-sort')]).to.deep.equal([
      order.toReversed(),
      'ascending',
    ]);

    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Save the table "policies" as CSV' }).click(),
    ]);
    const path = join(logs.path, 'table.csv');
    await download.saveAs(path);
    const lines = readFileSync(path, 'utf8').split('\r\n');
    expect(download.suggestedFilename()).to.equal('policies.csv');
    expect(lines[0]).to.equal(
      '\ufeffpolicy,limit,denied,of requests,clients,of clients,first (UTC),last (UTC)',
    );
    expect(lines[1]).to.match(/^'=x,5\/1h,\d+,/);

    const log = page.locator('#log');
    await log.click();
    expect(await log.getAttribute('aria-pressed')).to.equal('true');
    expect(
      await page.evaluate<number[]>(`uPlot.sync('report').plots.map(({ scales }) => scales.y.distr)`),
    ).to.deep.equal([4, 4, 4]);
    await page.evaluate(`dispatchEvent(new Event('beforeprint'))`);
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
    expect(await page.evaluate<string>('getComputedStyle(document.body).backgroundColor')).to.equal(
      'rgb(255, 255, 255)',
    );
    expect(await page.locator('#log').isVisible()).to.equal(false);
    await page.close();
  });
});
