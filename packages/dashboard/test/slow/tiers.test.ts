// Limiters with tiers on the page: their limits change, and What if shows them.
import { expect } from 'chai';
import { createLimiter, memoryStore, type Limiter, type Store } from 'headgate';
import { redisStore } from 'headgate/redis';
import { clients, freshPrefix } from '../../../../test/support/stores.js';
import { counted, endWith, limiterOf, openSite, openTab } from '../page.js';
import { startPage } from '../servers.js';

const TIERS = { free: ['day=10/1d'], pro: ['minute=100/1m', 'day=1000/1d'] };

/** A store with a command line. */
const onRedis = (): Store => redisStore(clients.redis, { prefix: freshPrefix(), publish: '50ms' });

describe('limiters with tiers on the page', function () {
  this.timeout(60_000);
  let limiter: Limiter;

  const open = async (screen: string, ban = {}, store: Store = memoryStore()) => {
    limiter = limiterOf(store, 'api', { policies: undefined, tiers: TIERS, ban });
    return { store, ...(await openSite({ store }, screen)) };
  };
  const limitOf = async (key: string, tier: string) => {
    const { policies } = await limiter.usage(key, { tier });
    return Object.fromEntries(policies.map(({ name, limit }) => [name, limit]));
  };

  it('changes the limits of a key by its tier', async () => {
    const { page, problems } = await open('key/ada');
    await limiter.consume('ada', { tier: 'pro' });
    const pro = page.locator('.answer', { hasText: 'tier pro' });
    await pro.getByRole('button', { name: '× ½' }).click();
    const dialog = page.getByRole('dialog');
    expect(await dialog.getByLabel('Limit of minute').inputValue()).to.equal('50/1m');
    await dialog.getByRole('button', { name: '× 2' }).click();
    expect(await dialog.getByLabel('Limit of day').inputValue()).to.equal('2000/1d');
    expect(await dialog.innerText()).to.contain('in tier free: day 10/1d');
    await dialog.getByLabel('Reason').fill('launch');
    await dialog.getByRole('button', { name: 'Change limits' }).click();
    await page.locator('.note', { hasText: 'ada' }).waitFor();
    expect(await limitOf('ada', 'pro')).to.deep.equal({ minute: 200, day: 2000 });
    expect(problems).to.deep.equal([]);
  });

  it('gives a key another tier', async () => {
    const { page } = await open('key/ada', {}, onRedis());
    await limiter.consume('ada', { tier: 'free' });
    const free = page.locator('.answer', { hasText: 'tier free' });
    await free.getByRole('button', { name: 'Limits × 2' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Change').selectOption('to the tier pro');
    expect(await dialog.locator('pre').innerText()).to.contain('--tier pro');
    await dialog.getByLabel('Reason').fill('launch');
    await dialog.getByRole('button', { name: 'Change limits' }).click();
    await page.locator('.note', { hasText: 'ada' }).waitFor();
    expect(await limitOf('ada', 'free')).to.deep.equal({ minute: 100, day: 1000 });
  });

  it('changes the limits of all keys in a tier that the operator chooses', async () => {
    const { page } = await open('now');
    await page.getByRole('button', { name: 'api', exact: true }).click();
    await page.getByRole('button', { name: 'Change the limits of all keys' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Reason').fill('incident');
    // A day has other limits in each tier, so no change is right for both.
    expect(await dialog.getByRole('button', { name: 'Change limits' }).isDisabled()).to.equal(true);
    await dialog.getByLabel('Change').selectOption('the limits in tier free');
    await dialog.getByRole('button', { name: '× ½' }).click();
    expect(await dialog.innerText()).to.contain('in tier pro: day 1000/1d → 5/1d, lower');
    await dialog.getByRole('button', { name: 'Change limits' }).click();
    await page.locator('.note', { hasText: 'all keys' }).waitFor();
    await limiter.consume('eve', { tier: 'free' });
    expect(await limitOf('eve', 'free')).to.deep.equal({ day: 5 });
  });

  it('names no number under What if that is not known, of slots and shares', async () => {
    const store = memoryStore({ counts: true });
    const reports = endWith(createLimiter({ store, name: 'reports', policies: ['slots=concurrency 2/1m'] }));
    limiter = endWith(
      createLimiter({ store, name: 'chat', policies: ['tokens=9/1h by provider share tenant'] }),
    );
    const site = endWith(await startPage({ store }));
    for (let i = 0; i < 12; i++) {
      await reports.consume('pdf');
      await limiter.consume({ provider: 'openai', tenant: 'globex' });
    }
    for (const name of ['reports', 'chat']) await counted(store, name, 12);
    const { page, problems } = await openTab(`${site.url}#/what-if/reports`, { user: 'ada' });
    await page.getByText('A slot is taken until its request ends').waitFor();
    await page.getByText('reports denied 10 of 12 requests (83 %): 10 by this limit').waitFor();
    expect(await page.locator('.distribution, .verdict-line, .over').count()).to.equal(0);
    await page.evaluate("location.hash = '#/what-if/chat'");
    await page.getByText('Tenants share this limit.').waitFor();
    await page.getByText('chat denied 3 of 12 requests').waitFor();
    expect(await page.locator('.distribution, .verdict-line, .over').count()).to.equal(0);
    expect(await page.locator('main').innerText()).not.to.match(/\buses\b|square root/);
    expect(problems).to.deep.equal([]);
  });

  it('names no end of a denial by slots, and the slots and waiting requests of each process', async () => {
    const store = memoryStore({ counts: true });
    limiter = endWith(createLimiter({ store, name: 'reports', policies: ['slots=concurrency 2/1m'] }));
    await limiter.consume('pdf');
    await limiter.consume('pdf');
    const stop = new AbortController();
    const waiting = limiter.wait('pdf', { timeout: '1m', signal: stop.signal }).catch(() => {});
    const denials = setInterval(() => void limiter.consume('pdf'), 100);
    const { page, problems } = await openSite({ store });
    await page.getByRole('button', { name: 'reports', exact: true }).click();
    const end = /until a slot is returned, in (\d+ s|1 min) at the latest if its process died/;
    await page.locator('.detail').getByText(end).waitFor();
    await page.getByText(/: 2 slots in use, 1 of at most [\d,]+ waiting/).waitFor();
    await page.evaluate("location.hash = '#/key/pdf'");
    await page.locator('.answer.denied').getByText(end).waitFor();
    expect(await page.locator('.answer.denied').innerText()).not.to.contain('full again');
    expect(problems).to.deep.equal([]);
    clearInterval(denials);
    stop.abort();
    await waiting;
  });

  it('shows that a lower limit is higher for another tier, and that it may ban', async () => {
    const { page } = await open('now', { after: 2, within: '5m', for: '10m' });
    await page.getByRole('button', { name: 'api', exact: true }).click();
    await page.getByRole('button', { name: 'Change the limits of all keys' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Change').selectOption('the limits in tier pro');
    await dialog.getByRole('button', { name: '× ½' }).click();
    expect(await dialog.innerText()).to.contain('in tier free: day 10/1d → 500/1d, HIGHER');
    expect(await dialog.innerText()).to.contain('A key is banned after 2 denials in 5m, for 10m.');
    await dialog.getByLabel('Change').selectOption('to the tier free');
    expect(await dialog.innerText())
      .to.contain('in tier pro: minute 100/1m → no limit, HIGHER')
      .and.contain('in tier pro: day 1000/1d → 10/1d, lower');
  });

  it('ends the bans by denials with the override that caused them', async () => {
    const { page } = await open('now', { after: 2, within: '5m', for: '10m' }, onRedis());
    await limiter.overrideAll({ day: '1/1d' });
    for (let i = 0; i < 5; i++) await limiter.consume('trudy', { tier: 'free' });
    expect((await limiter.peek('trudy', { tier: 'free' })).reason).to.equal('banned');
    await page.getByRole('button', { name: 'api', exact: true }).click();
    await page.getByRole('button', { name: 'End', exact: true }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('also end the bans by denials since the override began').check();
    expect(await dialog.locator('pre').innerText()).to.contain('--remove --unban');
    await dialog.getByLabel('Reason').fill('over');
    await dialog.getByRole('button', { name: 'End override' }).click();
    await page.locator('.note', { hasText: 'Ended the override' }).waitFor();
    expect((await limiter.peek('trudy', { tier: 'free' })).reason).not.to.equal('banned');
  });

  it('judges What if by the chosen tier, and names it', async () => {
    const { page, problems } = await open('what-if/api');
    await limiter.consume('big', { tier: 'pro', cost: 90 });
    await limiter.consume('small', { tier: 'pro', cost: 4 });
    await limiter.consume('open', { tier: 'free', cost: 8 });
    await page.reload();
    await page.getByRole('button', { name: 'day in tier pro' }).click();
    await page.getByText('Judged in tier pro: the use now of 3 keys that may be in tier pro').waitFor();
    const slider = page.locator('input[type=range]');
    await slider.fill('50');
    await page.locator('.verdict-line', { hasText: /A limit of 50 in tier pro would deny now/ }).waitFor();
    expect(await page.locator('.verdict-line').innerText()).to.contain('(1 of 3)');
    expect(await page.locator('ul.over').innerText()).to.equal('big 90');
    await page.getByRole('button', { name: 'day in tier free' }).click();
    await page.getByText('Judged in tier free: the use now of 1 key that may be in tier free').waitFor();
    expect(await page.locator('main').innerText()).to.contain(
      '2 keys are left out, because the use shows another tier.',
    );
    expect(problems).to.deep.equal([]);
  });

  it('shows the policies of each tier under What if, and never another limiter', async () => {
    const { page, store, problems } = await open('what-if/api');
    endWith(createLimiter({ store, name: 'other', limit: 1, window: '1m' }));
    await page.getByRole('button', { name: 'day in tier pro' }).click();
    expect(await page.locator('.slider').innerText()).to.contain('1,000');
    await page.getByText('No key has a record in this tier.').waitFor();
    expect(await page.locator('.distribution, .verdict-line').count()).to.equal(0);
    await page.getByText("tiers: { pro: ['day=1000/1d shadow'] }").waitFor();
    await page.getByRole('button', { name: 'Override all keys for 1 h' }).click();
    expect(await page.getByRole('dialog').innerText()).to.contain('in tier free: day 10/1d');
    await page.keyboard.press('Escape');
    await page.evaluate("location.hash = '#/what-if/missing'");
    await page.getByRole('alert').waitFor();
    expect(await page.getByRole('alert').innerText()).to.contain('No limiter of this name');
    expect(await page.locator('.slider').count()).to.equal(0);
    expect(problems).to.deep.equal([]);
  });
});
