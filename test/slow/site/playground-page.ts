// The page of the playground in Chromium, for the test of the site.
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import type { Browser, Page } from 'playwright-core';
import { readAccessLog } from '../../../scripts/docs/playground/access-log.js';
import { DEFAULTS } from '../../../scripts/docs/playground/settings.js';
import { traceOf } from '../../../scripts/docs/playground/trace.js';
import { decisionsOf } from './decisions.js';

const root = new URL('../../../', import.meta.url).pathname;
export const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

/** What axe finds in a page, by rule, with the first elements of each kind. */
export const VIOLATIONS = `axe.run().then(({ violations }) => violations.map(({ id, nodes }) =>
  [id, ...new Set(nodes.map(({ html }) => html.slice(0, 90)))].slice(0, 9).join(' ')))`;

export interface SiteUnderTest {
  readonly url: string;
  readonly browser: Browser;
  /** The files that were sent, except for those that pages fetch ahead. */
  readonly files: Map<string, Buffer>;
}

/** @param site the site that the file built, its browser, and the files that it sent */
export function playgroundPage(site: () => SiteUnderTest): void {
  describe('the playground', () => {
    const problems: string[] = [];

    async function open(fragment = '', options: Parameters<Browser['newPage']>[0] = {}): Promise<Page> {
      const page = await site().browser.newPage(options);
      page.on('pageerror', ({ message }) => problems.push(message));
      page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
      await page.goto(`${site().url}/docs/playground.html${fragment}`);
      await page.waitForSelector('.playground[data-state="shown"]');
      return page;
    }

    const laneTexts = (page: Page): Promise<string[]> => page.locator('.lane p').allTextContents();

    it('shows the numbers of the limiter, and marks the worst window', async () => {
      const page = await open();
      const settings = DEFAULTS;
      const trace = traceOf(settings, 10_000, []);
      const decisions = await decisionsOf(['fixed-window 10/10s'], trace);
      const denied = decisions.filter(({ allowed }) => !allowed).length;
      const [own, fixed] = await laneTexts(page);
      expect(own).to.include('At most 10 in any window of 10 s (worst case 10).');
      expect(fixed).to.include(`${trace.length - denied} admitted at once, 0 delayed, ${denied} denied.`);
      expect(fixed).to.match(/At most (1[1-9]|20) in any window of 10 s \(worst case 20\)/);
      await page.close();
    });

    it('shows the response under the clock, by keyboard and by pointer', async () => {
      const page = await open('#compare=&pattern=bursts&rate=3');
      const response = page.getByRole('region', { name: 'Response to the request' });
      expect(await response.textContent()).to.match(
        /^HTTP\/1\.1 429 Too Many Requests\n[^]*Retry-After: \d+\n/,
      );
      await page.getByLabel('Clock').focus();
      await page.keyboard.press('Home');
      expect(await response.textContent()).to.match(/^HTTP\/1\.1 200 OK\n[^]*RateLimit: "playground";r=9/);
      await page.keyboard.press('ArrowRight');
      expect(await response.textContent()).to.include('r=8');
      expect(await page.getByLabel('Clock').getAttribute('aria-valuetext')).to.include('8 remaining');
      const box = (await page.locator('canvas').boundingBox())!;
      await page.mouse.move(box.x + box.width - 2, box.y + 20);
      expect(await response.textContent()).to.include('429');
      await page.close();
    });

    it('follows the form: examples, links, errors, and the code', async () => {
      const page = await open();
      await page.getByLabel('Example').selectOption('A ban after five denials');
      await page.waitForFunction("location.hash.includes('ban=5')");
      // The link is there before the new drawing.
      await page.getByText('90 requests, decided once').waitFor();
      await page.getByLabel('Clock').press('End');
      await page.getByText('(banned)').waitFor();
      const link = page.url();
      expect(await page.getByRole('region', { name: 'Code' }).textContent()).to.include(
        "ban: { after: 5, within: '1m'",
      );
      const texts = await laneTexts(page);
      await page.getByLabel('Policies, one a line').fill('10/1x');
      await page.waitForSelector('.playground[data-state="failed"]');
      expect(await page.getByRole('alert').textContent())
        .to.include('"10/1x"')
        .and.include('Write');
      const other = await open(new URL(link).hash);
      expect(await laneTexts(other)).to.deep.equal(texts);
      await other.close();
      await page.close();
    });

    it('reads an access log that is dropped onto it', async () => {
      const page = await open('#compare=&policies=5%2F10s');
      const { stdout } = spawnSync('node', ['scripts/access-log.mjs', '2000'], {
        cwd: root,
        encoding: 'utf8',
      });
      await page.evaluate(`(() => {
        const data = new DataTransfer();
        data.items.add(new File([${JSON.stringify(stdout)}], 'access.log'));
        document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
      })()`);
      await page.getByText('2,000 requests, decided once').waitFor();
      const log = readAccessLog('access.log', stdout);
      const decisions = await decisionsOf(['5/10s'], log.requests);
      const denied = decisions.filter(({ allowed }) => !allowed).length;
      expect((await laneTexts(page))[0]).to.include(`${denied.toLocaleString('en-US')} denied`);
      await page.close();
    });

    it('draws 10,000 requests with a bar for each column only', async () => {
      const page = await open('#compare=&rate=200&seconds=50&pattern=steady');
      expect(await page.locator('.status').textContent()).to.include('10,000 requests');
      const [bars, width] = await page.evaluate<[number, number]>(
        '(({ dataset, clientWidth }) => [Number(dataset.bars), clientWidth])(document.querySelector("canvas"))',
      );
      expect(bars).to.be.within(100, 1.5 * width);
      console.log(`      ${await page.locator('.status').textContent()}`);
      await page.close();
    });

    it('loads less than 130 kB gzipped beside the core', async () => {
      site().files.clear();
      const page = await open();
      await page.waitForLoadState('networkidle');
      const files = [...site().files].filter(([file]) => !file.endsWith('/core.js'));
      const kB = files.map(([, bytes]) => gzipSync(bytes).length / 1000);
      expect(files.map(([file]) => file).join())
        .to.include('page.js')
        .and.not.include('log.js');
      const sum = kB.reduce((a, b) => a + b, 0);
      console.log(`      ${Math.round(sum)} kB in ${files.length} files`);
      expect(sum).to.be.within(10, 130);
      await page.close();
    });

    for (const scheme of ['light', 'dark'] as const)
      it(`is accessible at 390 pixels, ${scheme}`, async () => {
        const page = await open('', { colorScheme: scheme, viewport: { width: 390, height: 800 } });
        expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).to.be.at.most(0);
        const ink = await page.evaluate(
          'getComputedStyle(document.querySelector("canvas")).getPropertyValue("--pg-admitted")',
        );
        expect(ink).to.equal(scheme === 'dark' ? '#3fb950' : '#1a7f37');
        await page.addScriptTag({ path: axe });
        expect(await page.evaluate(VIOLATIONS)).to.deep.equal([]);
        await page.close();
      });

    it('has reported no error', () => {
      expect(problems).to.deep.equal([]);
    });
  });
}
