// The tenants of a shared limit: on the page, in `top`, and in `tenants`.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { createLimiter } from 'headgate';
import { createAdmin, type TenantView, type Traffic } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { headgate, json, told } from '../../../cli/test/cli.js';
import { servers } from '../../../../test/support/shared-servers.js';
import { clients, freshPrefix } from '../../../../test/support/stores.js';
import { endWith, openTab } from '../page.js';
import { startPage } from '../servers.js';

describe('the tenants of a shared limit', function () {
  this.timeout(60_000);
  it('are denied by the policy that denies them, in one row, on the page and the command line', async () => {
    const prefix = freshPrefix();
    const store = redisStore(clients.redis, { prefix, counts: true, publish: '50ms' });
    const where = ['--redis', servers.redis.url, '--prefix', prefix];
    const policies = ['tokens=300/1h by provider share tenant', 'pace=5/1h by tenant'];
    const chat = endWith(createLimiter({ store, name: 'chat', policies, timeout: '30s' }));
    const site = endWith(await startPage({ store }));
    await told(where, 'chat');
    for (let i = 0; i < 60; i++) await chat.consume({ provider: 'openai', tenant: 'globex' });
    const admin = createAdmin(store);
    while ((await admin.traffic()).limiters.length === 0) await sleep(50);
    const lines = (await headgate(['tenants', '--name', 'chat', ...where])).stdout;
    expect(lines).to.match(
      /tenant globex in provider openai +tokens .* pace [\d.]+\/s +denied \(pace: quota-/,
    );
    // The key stays in the list only while it is asked for.
    const traffic = setInterval(() => void chat.consume({ provider: 'openai', tenant: 'globex' }), 200);
    endWith({ close: async () => clearInterval(traffic) });
    const { page, problems } = await openTab(site.url, { user: 'ada' });
    await page.getByRole('button', { name: 'chat', exact: true }).click();
    const row = page.locator('.keys tr', { hasText: 'tokens, within provider openai' });
    await row.getByText('by pace', { exact: true }).waitFor();
    expect(await row.innerText()).to.contain('denied by pace');
    expect(problems).to.deep.equal([]);
  });

  it('are shown with share, use and denials by the page and the command line', async () => {
    const prefix = freshPrefix();
    const store = redisStore(clients.redis, { prefix, counts: true, publish: '50ms' });
    const where = ['--redis', servers.redis.url, '--prefix', prefix];
    const make = (name: string, policy: string) =>
      endWith(createLimiter({ store, name, policies: [policy], overrides: true, timeout: '30s' }));
    const llm = make('llm', 'p=100/1h by provider share tenant');
    const jobs = make('jobs', 'slots=concurrency 2/1m by pool share team');
    const site = endWith(await startPage({ store }));
    await told(where, 'llm');
    await told(where, 'jobs');
    await llm.consume({ provider: 'openai', tenant: 'globex' }, { cost: 5 });
    for (let i = 0; i < 150; i++) await llm.consume({ provider: 'openai', tenant: 'acme' });
    for (let i = 0; i < 3; i++) await jobs.consume({ pool: 'a', team: 'blue' });
    const admin = createAdmin(store);
    while ((await admin.traffic()).limiters.length < 2) await sleep(50);

    const { limiters: rates } = (await json('top', '--once', ...where)) as Traffic;
    const keys = rates.find(({ name }) => name === 'llm')!.keys;
    expect(keys.map(({ key, within }) => [key, within])).to.deep.equal([
      ['acme', 'provider openai'],
      ['globex', 'provider openai'],
    ]);
    expect((await headgate(['top', '--once', ...where])).stdout).to.contain('tenant acme in provider openai');

    const tenants = (await json('tenants', ...where)) as TenantView[];
    expect(tenants.map(({ name, key, isHeavy }) => [name, key, isHeavy])).to.have.deep.members([
      ['llm', 'acme', true],
      ['llm', 'globex', false],
      // Slots of tenants have no state, so the counts name them.
      ['jobs', 'blue', null],
    ]);
    const blue = tenants.find(({ key }) => key === 'blue')!;
    expect(blue).to.include({ allowed: false, denying: 'slots', lacksSlots: true });
    expect((await headgate(['tenants', '--name', 'jobs', ...where])).stdout).to.contain(
      'until a slot is returned',
    );
    const acme = tenants.find(({ key }) => key === 'acme')!;
    expect(acme.lacksSlots).to.equal(false);
    expect(acme.denied).to.be.greaterThan(0);
    expect((await headgate(['tenants', '--name', 'llm', ...where])).stdout).to.match(
      new RegExp(`llm +tenant acme in provider openai +p +heavy +1 +${acme.share} of 100 +${acme.used} `),
    );

    const { page, problems } = await openTab(site.url, { user: 'ada' });
    await page.getByRole('button', { name: 'llm', exact: true }).click();
    const row = page.locator('.keys tr', { hasText: 'acme' }).first();
    await row.waitFor();
    expect((await row.innerText()).replaceAll(/\s+/g, ' ')).to.contain(
      `acme tenant p, within provider openai ${acme.used} of its ${acme.share} used the limit is 100 1 heavy`,
    );
    expect(await row.innerText()).to.contain('its share is used up');
    // A light tenant has the weight of its override, a heavy one that of its requests.
    await llm.override({ provider: 'openai', tenant: 'globex' }, { weight: 3 });
    const { stdout } = await headgate(['tenants', '--name', 'llm', ...where]);
    expect(stdout).to.match(/tenant globex in provider openai +p +light +3 /);
    const globex = page.locator('.keys tr', { hasText: 'globex' }).first();
    await globex.getByText('3', { exact: true }).waitFor();
    expect((await globex.innerText()).replaceAll(/\s+/g, ' ')).to.contain(' used the limit is 100 3 light');
    // As the light tenant's demand ages, the share grows by a unit in some seconds.
    for (let i = 0; i < 10; i++) await llm.consume({ provider: 'openai', tenant: 'acme' });
    await row.getByRole('link').click();
    await page.locator('.answer.denied', { hasText: 'within provider openai' }).waitFor();
    expect(await page.locator('.verdict').innerText()).to.contain('Denied by llm');
    expect(problems).to.deep.equal([]);
  });
});
