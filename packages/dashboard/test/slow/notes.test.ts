// The notes about changes: an undo, and warnings, that cover no button.
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { memoryStore } from 'headgate';
import { limiterOf, openSite } from '../page.js';

describe('notes of the page', function () {
  this.timeout(90_000);
  const open = async (): Promise<Page> => {
    const store = memoryStore();
    const limiter = limiterOf(store, 'api');
    const { page } = await openSite({ store }, '', { viewport: { width: 1280, height: 500 } });
    for (const key of ['k1', 'k2', 'k3']) await limiter.ban(key, '1h');
    await page.locator('.limiters tbody').getByRole('button', { name: 'api' }).click();
    await page.locator('.list li').nth(2).waitFor();
    return page;
  };
  const unban = async (page: Page, key: string) => {
    const item = page.locator('.list li', { hasText: key });
    await item.getByRole('button', { name: 'Unban' }).click();
    await page.getByLabel('Reason').fill('INC-7');
    await page.getByRole('dialog').getByRole('button', { name: 'Unban' }).click();
    await page.locator('.note', { hasText: key }).waitFor();
  };
  const notes = (page: Page) => page.locator('.bar-top').getByRole('button', { name: /notes?$/ });

  it('are shown one at a time, above free space, and with a warning stay in the header', async () => {
    const page = await open();
    await page.route('**/api/change', (route) =>
      route.fulfill({ json: { warnings: [{ message: 'The key is not known.' }], entries: [] } }),
    );
    await unban(page, 'k1');
    await unban(page, 'k2');
    expect(await page.locator('.note').count()).to.equal(1);
    expect(await page.locator('.note').innerText())
      .to.contain('k2')
      .and.to.contain('The key is not known.');
    await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)');
    const [last, note] = await Promise.all([
      page.getByRole('button', { name: 'Change the limits of all keys' }).boundingBox(),
      page.locator('.note').boundingBox(),
    ]);
    expect(last!.y + last!.height).to.be.below(note!.y);
    expect(await notes(page).innerText()).to.equal('2 notes');
    await page.locator('.note').waitFor({ state: 'detached', timeout: 25_000 });
    await notes(page).click();
    expect(await page.locator('.note').count()).to.equal(2);
    for (let left = 2; left > 0; left--)
      await page.getByRole('button', { name: 'Close this note' }).first().click();
    expect(await notes(page).count()).to.equal(0);
  });

  it('offer no undo of a change that is undone, also by another way', async () => {
    const page = await open();
    await unban(page, 'k1');
    await unban(page, 'k2');
    await page.locator('.note').getByRole('button', { name: 'Undo' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Undo' }).click();
    await page.locator('.note', { hasText: 'Undid: Unbanned k2' }).waitFor();
    await page.locator('.changes').getByRole('button', { name: 'Undo' }).nth(1).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Undo' }).click();
    await page.locator('.note', { hasText: 'Undid: unbanned k1' }).waitFor();
    await notes(page).click();
    expect(await page.locator('.note').allInnerTexts()).to.have.length(2);
    expect(await page.locator('.note').getByRole('button', { name: 'Undo' }).count()).to.equal(0);
  });
});
