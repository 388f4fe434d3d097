// The page in a browser, for tests. What a test opens here ends with the test.
import { setTimeout as sleep } from 'node:timers/promises';
import { chromium, type Browser, type Page } from 'playwright-core';
import { createLimiter, type Limiter, type Store } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { findProgram, getPrograms } from '../../../scripts/programs.mjs';
import { startPage, type Given, type Site } from './servers.js';

let shared: Promise<Browser> | undefined;
const ends: (() => Promise<unknown>)[] = [];

// Hooks of the whole run: its files share one browser.
afterEach(async function () {
  // The last one first: a site's streams end with its tabs.
  for (const end of ends.splice(0).reverse()) await end();
});
after(async () => (await shared)?.close());

/** The browser of the run: Chromium, which is installed first if it is missing, as the runner of the tests does. @throws Error with the fix */
export function startBrowser(): Promise<Browser> {
  return (shared ??= launch());
}

async function launch(): Promise<Browser> {
  const problems = getPrograms('chromium');
  if (problems.length > 0) throw new Error(problems.join('\n'));
  return chromium.launch({ executablePath: findProgram('chromium'), args: ['--no-sandbox'] });
}

/** Closes a limiter or a site at the end of the test. */
export function endWith<T extends { close(): Promise<unknown> }>(opened: T): T {
  ends.push(() => opened.close());
  return opened;
}

/** A limiter of the test, with everything that the page can change. Its decisions need an answer, however busy the machine is. */
export const limiterOf = (store: Store, name: string, options: object = {}): Limiter =>
  endWith(
    createLimiter({
      ...{ store, name, policies: ['5/1h'], ban: {}, overrides: true },
      ...{ timeout: '30s', connectTimeout: '30s', ...options },
    }),
  );

export type TabOptions = { user?: string } & Parameters<Browser['newPage']>[0];

/** A tab with the operator's cookie, and all errors of the page. */
export async function openTab(
  url: string,
  { user, ...options }: TabOptions = {},
): Promise<{ page: Page; problems: string[] }> {
  const context = endWith(await (await startBrowser()).newContext(options));
  if (user !== undefined) await context.addCookies([{ name: 'user', value: user, url }]);
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('pageerror', ({ message }) => problems.push(message));
  page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
  page.on('dialog', (dialog) => {
    problems.push(dialog.message());
    void dialog.dismiss();
  });
  await page.goto(url);
  return { page, problems };
}

/**
 * Waits until the store has the counts of a limiter's decisions, which a process sends each second. A page that asks before has no figures
 * for up to 30 seconds.
 */
export async function counted(store: Store, name: string, decisions: number): Promise<void> {
  const admin = createAdmin(store);
  const count = async () => {
    const { limiters } = await admin.history({ minutes: 60, name });
    const counts = limiters.flatMap(({ admitted, denied }) => [...admitted, ...denied]);
    return counts.reduce((sum, each) => sum + each, 0);
  };
  while ((await count()) < decisions) await sleep(50);
}

/** A screen of a new site, such as `key/ada`, in a tab of the operator ada. */
export async function openSite(
  given: Given,
  screen = '',
  options: TabOptions = {},
): Promise<{ site: Site; page: Page; problems: string[] }> {
  const site = endWith(await startPage(given));
  const hash = screen === '' ? '' : `#/${screen}`;
  return { site, ...(await openTab(site.url + hash, { user: 'ada', ...options })) };
}
