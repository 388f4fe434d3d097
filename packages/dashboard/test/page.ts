// A browser for the tests of the page.
import { chromium, type Browser, type Page } from 'playwright-core';
import { findProgram, getPrograms } from '../../../scripts/programs.mjs';

/** Starts Chromium, and installs it first if it is missing, as the runner of the tests does. @throws Error with the fix */
export async function startBrowser(): Promise<Browser> {
  const problems = getPrograms('chromium');
  if (problems.length > 0) throw new Error(problems.join('\n'));
  return chromium.launch({ executablePath: findProgram('chromium'), args: ['--no-sandbox'] });
}

/** A tab with the operator's cookie, and all errors of the page. */
export async function openTab(
  browser: Browser,
  url: string,
  { user, ...options }: { user?: string } & Parameters<Browser['newPage']>[0] = {},
): Promise<{ page: Page; problems: string[] }> {
  const context = await browser.newContext(options);
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
