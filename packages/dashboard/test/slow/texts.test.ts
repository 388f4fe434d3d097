// Texts of the page for what is seldom there: a lost connection, silent processes, no new key near a limit.
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { memoryStore, type Limiter } from 'headgate';
import { endWith, limiterOf, openTab } from '../page.js';
import { startPage, type Site } from '../servers.js';

/** The state of the page, as its server sends it. */
interface Sent {
  readonly set: Record<string, Record<string, unknown> & { readonly rates: Record<string, number> }>;
}

describe('seldom texts of the page', function () {
  this.timeout(90_000);
  let site: Site;
  let limiter: Limiter;
  const start = async (policies: string[]) => {
    const store = memoryStore({ counts: true });
    limiter = limiterOf(store, 'api', { policies });
    site = endWith(await startPage({ store }));
  };
  /** Opens the page, with another state than the server's. */
  const openWith = async (change: (sent: Sent) => void): Promise<Page> => {
    const { page } = await openTab('about:blank');
    await page.route('**/api/stream', (route) => route.fulfill({ status: 502, body: 'bad gateway' }));
    await page.route('**/api/now', async (route) => {
      const response = await route.fetch();
      const sent = (await response.json()) as Sent;
      change(sent);
      await route.fulfill({ response, json: sent });
    });
    await page.goto(site.url);
    return page;
  };
  const cell = (page: Page, label: string) => page.locator(`.limiters td[data-label="${label}"]`);

  it('name the cause and the age after the server is gone, and end when it is back', async () => {
    await start(['5/1m']);
    const { page } = await openTab(site.url, { user: 'ada' });
    await page.locator('.link.live').waitFor();
    const { port } = new URL(site.url);
    site.server.close();
    site.server.closeAllConnections();
    const alert = page
      .getByRole('alert')
      .filter({ hasText: 'No data arrives from the server of this page.' });
    await alert.getByText('The server cannot be reached.').waitFor({ timeout: 30_000 });
    const text = await alert.innerText();
    expect(text)
      .to.contain('No data arrives from the server of this page.')
      .and.to.match(/The figures below are from \d\d:\d\d .*, and may not be true now\./)
      .and.to.contain('The page tries again by itself.');
    expect(await page.locator('.link').innerText()).to.match(/^No data for \d+ s$/);
    expect(await page.locator('main.old .limiters').count()).to.equal(1);
    site.server.listen(Number(port), '127.0.0.1');
    await alert.waitFor({ state: 'detached', timeout: 30_000 });
    expect(await page.locator('main.old').count()).to.equal(0);
  });

  it('count the processes whose publication is late', async () => {
    await start(['5/1m']);
    const page = await openWith(({ set }) => Object.assign(set['row api']!, { processes: 3, silent: 2 }));
    await cell(page, 'Processes').getByText('2 silent').waitFor();
    expect(await cell(page, 'Processes').innerText()).to.match(/^3\s+2 silent$/);
    expect(await cell(page, 'Processes').locator('div').getAttribute('title')).to.equal(
      'Their publication is late, so they may have ended, or cannot reach the store',
    );
  });

  it('show unknown processes as such, if all are silent', async () => {
    await start(['5/1m']);
    const page = await openWith(({ set }) => Object.assign(set['row api']!, { processes: 0, silent: 2 }));
    await cell(page, 'Processes').getByText('2 silent').waitFor();
    expect(await cell(page, 'Processes').innerText()).to.match(/^\?\s+2 silent$/);
  });

  it('say that no key is newly near a limit of a long window, and where the others are', async () => {
    await start(['5/1h']);
    await limiter.consume('ada');
    const { page } = await openTab(site.url, { user: 'ada' });
    await cell(page, 'Near limit').getByText('none new').waitFor();
    expect(await cell(page, 'Near limit').locator('[title]').getAttribute('title')).to.equal(
      'No key has risen to 70 % in the last 5 minutes. Keys that rose before are in the list above 80 %',
    );
  });

  it('show none near a limit of a short window', async () => {
    await start(['5/1m']);
    await limiter.consume('ada');
    const { page } = await openTab(site.url, { user: 'ada' });
    await page.locator('.limiters').getByText('none counted').waitFor();
    expect(await cell(page, 'Near limit').innerText()).to.match(/^–\s*none$/);
  });
});
