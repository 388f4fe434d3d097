// A key that limiters count in several dimensions, on the page.
import { expect } from 'chai';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { told } from '../../../cli/test/cli.js';
import { servers } from '../../../../test/support/shared-servers.js';
import { clients, freshPrefix } from '../../../../test/support/stores.js';
import { endWith, limiterOf, openSite } from '../page.js';

describe('a key of several dimensions on the page', function () {
  this.timeout(60_000);
  it('has charges that a reset leaves and names', async () => {
    const prefix = freshPrefix();
    const store = redisStore(clients.redis, { prefix, publish: '50ms' });
    const api = createLimiter({ store, name: 'api', limit: 5, window: '1h' });
    const login = createLimiter({ store, name: 'login', policies: ['account=5/1h by account'] });
    const chat = createLimiter({ store, name: 'chat', policies: ['pool=9/1h by provider share tenant'] });
    // A bucket that nobody used, with room for fewer units than its limit.
    const idle = createLimiter({ store, name: 'idle', policies: ['token-bucket 100/1h burst 10 by org'] });
    for (const limiter of [api, login, chat, idle]) endWith(limiter);
    await api.consume('multi');
    await login.consume({ account: 'multi' });
    await chat.consume({ provider: 'openai', tenant: 'multi' });
    await told(['--redis', servers.redis.url, '--prefix', prefix], 'api', 'login', 'chat', 'idle');
    const { page, problems } = await openSite({ store }, 'key/multi');
    const answer = page.locator('.answer', { has: page.getByRole('heading', { name: 'api' }) });
    await answer.getByRole('button', { name: 'Reset' }).click();
    const dialog = page.getByRole('dialog');
    expect(await dialog.innerText())
      .to.contain('Stays charged:')
      .and.contain('account in login')
      .and.contain('tenant within provider openai in chat')
      .and.not.contain('org in idle');
    await dialog.getByLabel('Reason').fill('test');
    await dialog.getByRole('button', { name: 'Reset' }).click();
    await page.locator('.note', { hasText: 'Reset multi in api' }).waitFor();
    const tenant = page.locator('.answer', { hasText: 'within provider openai' });
    await tenant.getByRole('link', { name: 'openai' }).click();
    await page.waitForURL(/#\/key\/openai\?by=provider$/);
    expect(problems).to.deep.equal([]);
  });

  it('has a log in plain words, in which an undone change is not undone twice', async () => {
    const store = redisStore(clients.redis, { prefix: freshPrefix(), publish: '50ms' });
    const api = limiterOf(store, 'api', { ban: undefined });
    await api.override('multi', '9/1h', { by: 'olga' });
    const { page } = await openSite({ store }, 'key/multi');
    const changes = page.locator('.changes li');
    await changes.getByRole('button', { name: 'Undo' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Reason').fill('undo');
    await dialog.getByRole('button', { name: 'Undo' }).click();
    await changes.filter({ hasText: 'undone' }).waitFor();
    const texts = (await changes.allInnerTexts()).map((text) => text.replace(/\s+/g, ' '));
    expect(texts[0]).to.match(/^ada ended the override of it in api \(an undo\) 9\/1h/);
    expect(texts[1]).to.contain('olga changed the limits of it in api').and.contain('undone');
    expect(await changes.nth(1).getByRole('button').count()).to.equal(0);
  });
});
