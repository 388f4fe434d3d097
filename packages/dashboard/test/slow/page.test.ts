// The page in Chromium.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import type { Page } from 'playwright-core';
import { memoryStore } from 'headgate';
import { redisStore } from 'headgate/redis';
import { startServer } from '../../../../test/support/servers.js';
import { servers } from '../../../../test/support/shared-servers.js';
import { clients, freshPrefix } from '../../../../test/support/stores.js';
import { limiterOf, openSite, type TabOptions } from '../page.js';
import type { Given } from '../servers.js';

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

describe('the page', function () {
  this.timeout(120_000);
  const open = (given: Given, options?: TabOptions) => openSite(given, '', options);
  const row = (page: Page, name: string) =>
    page.locator('.limiters tbody', { has: page.getByRole('button', { name, exact: true }) });

  it('shows known rates: an attacker among ordinary clients', async () => {
    const store = redisStore(clients.redis, { prefix: freshPrefix(), counts: true, publish: '50ms' });
    const limiter = limiterOf(store, 'api', { policies: ['minute=60/1m'] });
    const { page, problems } = await open({ store });
    let isRunning = true;
    const startedAt = Date.now();
    const load = (async () => {
      for (let sent = 0; isRunning; await sleep(10))
        for (const due = ((Date.now() - startedAt) / 1000) * 80; sent < due; sent++)
          await limiter.consume(sent % 4 === 0 ? '203.0.113.86' : `10.0.${sent % 7}.${sent % 250}`);
    })();
    await row(page, 'api').getByRole('button').first().click();
    await sleep(14_000);
    const cells = row(page, 'api').locator('.keys').first().locator('tbody tr').first().locator('td');
    let [key, denied, admitted, policy] = await cells.allInnerTexts();
    const rate = () => Number(denied) + Number(admitted);
    // A busy machine delays the load, and with it the rates of the last seconds.
    for (
      const end = Date.now() + 45_000;
      Date.now() < end && !(rate() >= 18 && rate() <= 22);
      await sleep(500)
    )
      [key, denied, admitted, policy] = await cells.allInnerTexts();
    isRunning = false;
    await load;
    expect(key).to.contain('203.0.113.86');
    expect(rate()).to.be.within(18, 22);
    expect(policy).to.contain('minute');
    expect(problems).to.deep.equal([]);
  });

  const HOSTILE = [
    '<img src=x onerror=alert(1)>',
    '</script><script>alert(1)</script>',
    '\u202Etxt.exe',
    'nul\0byte',
    'javascript:alert(1)',
    '{{constructor.constructor("alert(1)")()}}',
    'k'.repeat(2000),
    '\ud800lone',
    "' OR 1=1 --",
  ];

  it('shows hostile keys, names and reasons as text, on all screens', async () => {
    const store = memoryStore();
    const name = '<b onmouseover=alert(2)>api</b>';
    const limiter = limiterOf(store, name);
    const { page, problems } = await open({ store });
    for (const key of HOSTILE)
      await limiter.ban(key, '1h', {
        by: '<i>ops</i>',
        reason: `<script>alert(3)</script>${key.slice(0, 20)}`.toWellFormed(),
      });
    await row(page, name).getByRole('button').first().click();
    await page
      .locator('.list li')
      .nth(HOSTILE.length - 1)
      .waitFor();
    const shown = await page.locator('.details').innerText();
    expect(shown)
      .to.contain('<img src=x onerror=alert(1)>')
      .and.to.contain('\\u{202e}txt.exe')
      .and.to.contain('nul\\u{0}byte');
    expect(shown).not.to.contain('\u202E');
    for (const screen of ['log', 'what-if', `key/${encodeURIComponent(HOSTILE[0]!)}`]) {
      await page.evaluate(`location.hash = '#/${screen}'`);
      await sleep(700);
    }
    await page.locator('.verdict').waitFor();
    expect(await page.locator('.verdict').innerText()).to.contain('Denied');
    expect(
      await page.locator('img, i:not([aria-hidden]):not(.bar i), script:not([src]):nth-of-type(3)').count(),
    ).to.equal(0);
    expect(problems).to.deep.equal([]);
  });

  it('bans a hostile key by its button', async () => {
    const store = redisStore(clients.redis, { prefix: freshPrefix(), publish: '50ms' });
    const limiter = limiterOf(store, 'api');
    const { page } = await open({ store });
    await limiter.ban(HOSTILE[2]!, '1h');
    await limiter.ban(HOSTILE[3]!, '1h');
    await row(page, 'api').getByRole('button').first().click();
    for (const key of [HOSTILE[2]!, HOSTILE[3]!]) {
      const text = key.includes('\0') ? 'nul\\u{0}byte' : '\\u{202e}txt.exe';
      await page.locator('.list li', { hasText: text }).getByRole('button', { name: 'Unban' }).click();
      await page.getByLabel('Reason').fill('test');
      if (key.includes('\0'))
        await page.getByRole('dialog').getByText('A shell cannot pass this key').waitFor();
      await page.getByRole('button', { name: 'Unban', exact: true }).last().click();
      await page.locator('.note', { hasText: text }).waitFor();
      expect((await limiter.peek(key)).allowed).to.equal(true);
    }
  });

  it('resets a key in all limiters that have a record of it', async () => {
    const prefix = freshPrefix();
    const store = redisStore(clients.redis, { prefix, publish: '50ms' });
    const [api, login, search] = ['api', 'login', 'search'].map((name) => limiterOf(store, name));
    const { page, site } = await open({ store });
    for (const limiter of [api!, login!]) await limiter.consume('ada', { cost: 5 });
    await search!.consume('bob');
    await page.goto(`${site.url}#/key/ada`);
    await page.locator('.answer').first().getByRole('button', { name: 'Reset' }).click();
    await page.getByText('in all limiters with a record: api, login').click();
    await page.getByLabel('Reason').fill('INC-7');
    const commands = ['api', 'login'].map(
      (name) => `headgate reset ada --name ${name} --by ada --reason INC-7 --prefix ${prefix}`,
    );
    expect(await page.getByRole('dialog').locator('pre').innerText()).to.equal(commands.join(' &&\n'));
    await page.getByRole('dialog').getByRole('button', { name: 'Reset' }).click();
    await page.locator('.note', { hasText: /Reset ada in api, login/ }).waitFor();
    for (const limiter of [api!, login!]) expect((await limiter.peek('ada')).remaining).to.equal(5);
  });

  it('takes no change from a page of another site', async () => {
    const store = memoryStore();
    const limiter = limiterOf(store, 'api');
    const { site, page } = await open({ store });
    const target = `${site.url}api/change`;
    const body = JSON.stringify({ action: 'ban', name: 'api', key: 'victim', for: '1h', reason: 'x' });
    const evil = createServer((_req, res) => {
      res.setHeader('content-type', 'text/html');
      res.end(
        `<iframe src="${site.url}"></iframe><form id="f" method="post" action="${target}" enctype="text/plain"><input name='${body.slice(0, -1)},"a":"' value='"}'></form>`,
      );
    });
    evil.listen(0, '127.0.0.1');
    await once(evil, 'listening');
    const origin = `http://localhost:${(evil.address() as AddressInfo).port}/`;
    const other = await page.context().newPage();
    await other.goto(origin);
    const statuses = await other.evaluate(
      async ([url = '', json = '']) => {
        const attempts: RequestInit[] = [
          { mode: 'no-cors', body: json },
          { mode: 'no-cors', body: json, headers: { 'content-type': 'text/plain' } },
          { body: json, headers: { 'content-type': 'application/json', 'x-headgate-token': 'x'.repeat(24) } },
        ];
        return Promise.all(
          attempts.map((each) =>
            fetch(url, { method: 'POST', credentials: 'include', ...each }).then(
              (r) => r.type,
              () => 'refused',
            ),
          ),
        );
      },
      [target, body],
    );
    expect(statuses).to.deep.equal(['refused', 'refused', 'refused']);
    expect(await other.locator('iframe').count()).to.equal(1);
    expect(await other.frames()[1]!.locator('#app').count()).to.equal(0);
    await Promise.all([other.waitForURL(target), other.evaluate("document.getElementById('f').submit()")]);
    expect(await other.content()).to.contain('content-type: application/json');
    expect((await limiter.peek('victim')).allowed).to.equal(true);
    evil.close();
    evil.closeAllConnections();
  });

  it('asks a visitor whose session has ended to load the page again', async () => {
    const store = memoryStore();
    limiterOf(store, 'api');
    const { page, site } = await open({ store, needsSession: true });
    const denied = await fetch(site.url);
    expect(denied.status).to.equal(401);
    await row(page, 'api').waitFor();
    await page.context().clearCookies({ name: 'user' });
    await page.evaluate("location.hash = '#/key/ada'");
    await page.getByRole('alert').waitFor();
    expect(await page.getByRole('alert').innerText()).to.contain('session has ended');
  });

  /** The buttons that open the dialog of a change. */
  const CHANGING =
    /^(Ban|Unban|Undo|Reset( all .*)?|Limits( × 2)?|× ½|× 10|End( override)?|Change the limits .*|Override all .*)$/;

  it('has no buttons that change anything for a visitor who is not an operator', async () => {
    const store = memoryStore();
    const limiter = limiterOf(store, 'api');
    const { page } = await open({ store, isReadOnly: true });
    await limiter.override('ada', '9/1h', { by: 'ops' });
    await limiter.ban('ada', '1h', { by: 'ops' });
    await row(page, 'api').getByRole('button').first().click();
    await page.locator('.list li').first().waitFor();
    await page.locator('.me').getByText('read-only', { exact: true }).waitFor();
    for (const screen of ['now', 'key/ada', 'what-if', 'log']) {
      await page.evaluate(`location.hash = '#/${screen}'`);
      await sleep(500);
      expect(await page.getByRole('button', { name: CHANGING }).count(), screen).to.equal(0);
    }
  });

  it('connects again after its stream was cut, and polls if streams do not arrive', async () => {
    const store = memoryStore();
    limiterOf(store, 'api');
    const { page, site } = await open({ store });
    await page.locator('.link.live').waitFor();
    site.server.closeAllConnections();
    await page.locator('.link.lost').waitFor();
    limiterOf(store, 'later');
    await page.locator('.link.live').waitFor();
    await row(page, 'later').waitFor();
    await page.route('**/api/stream', (route) => route.fulfill({ status: 502, body: 'bad gateway' }));
    site.server.closeAllConnections();
    await page.locator('.link.polling').waitFor();
    limiterOf(store, 'polled');
    await row(page, 'polled').waitFor();
  });

  it('turns grey and names the age, the cause and the next step while the store does not answer', async () => {
    const server = await startServer('redis');
    const client = new Redis(server.url);
    client.on('error', () => {});
    const store = redisStore(client, { counts: true, publish: '50ms' });
    const api = limiterOf(store, 'api', { timeout: '1s' });
    await api.consume('ada');
    const { page, problems } = await open({ store, timeout: '500ms' });
    await row(page, 'api').waitFor();
    await page.locator('.link.live').waitFor();
    process.kill(server.pid, 'SIGSTOP');
    try {
      await page.getByRole('alert').waitFor();
      const text = await page.getByRole('alert').innerText();
      expect(text).to.contain('are from').and.to.contain('headgate check');
      // A longer time limit does not mend a store that does not answer.
      expect(text).to.match(/Cause: The server has not answered within 500 ms\.\n/);
      expect(await page.locator('.link').innerText()).to.equal('Store down');
      expect(await page.locator('.now.old .limiters').count()).to.equal(1);
      // A page that is opened later does not take old figures for new ones.
      await page.reload();
      await page.getByRole('alert').waitFor();
    } finally {
      process.kill(server.pid, 'SIGCONT');
    }
    await page.getByRole('alert').waitFor({ state: 'detached' });
    expect(await page.locator('.link').innerText()).to.equal('Live');
    // The browser notes each question that the page happened to ask meanwhile: how many depends on the time.
    expect(problems.filter((problem) => !problem.includes('status of 503'))).to.deep.equal([]);
    client.disconnect();
    await server.stop();
  });

  it('handles 1,000 limiters', async () => {
    const prefix = freshPrefix();
    const stores = Array.from({ length: 10 }, () =>
      redisStore(clients.redis, { prefix, counts: true, publish: '1s' }),
    );
    for (let i = 0; i < 1000; i++)
      await limiterOf(stores[i % 10]!, `limiter-${String(i).padStart(4, '0')}`, { ban: {} }).consume('k');
    const { page, problems } = await open({ store: stores[0]! });
    await page.locator('h2#limiters', { hasText: '1,000' }).waitFor();
    expect(await page.locator('.limiters tbody').count()).to.equal(100);
    await page.getByRole('button', { name: /Show 100 more of 900/ }).click();
    expect(await page.locator('.limiters tbody').count()).to.equal(200);
    await page.getByLabel('Filter limiters').fill('0777');
    await row(page, 'limiter-0777').waitFor();
    expect(await page.locator('.limiters tbody').count()).to.equal(1);
    await page.getByLabel('Filter limiters').fill('');
    await page.locator('.limiters tbody').nth(150).waitFor();
    expect(problems).to.deep.equal([]);
  });

  /** A store with something on every screen. */
  const busyStore = async () => {
    const store = redisStore(clients.redis, { prefix: freshPrefix(), counts: true, publish: '50ms' });
    const api = limiterOf(store, 'api', {
      policies: ['second=token-bucket 20/1s burst 40', 'a-policy-with-a-long-name=5/1h'],
    });
    limiterOf(store, 'a-limiter-with-a-name-that-is-rather-long-for-a-phone');
    for (let i = 0; i < 30; i++) await api.consume(i % 2 === 0 ? '2001:db8:aaaa:bbbb::/56' : `customer:${i}`);
    await api.ban('203.0.113.7', '2h', {
      by: 'ops',
      reason: 'a reason that somebody wrote with care and at length, INC-7',
    });
    await api.override('customer:1', { second: '40/1s' }, { for: '1d', by: 'grace', reason: 'launch' });
    return store;
  };
  const SCREENS = ['now', 'key/203.0.113.7', 'what-if/api', 'log'];

  it('fits into 360 pixels, on all screens', async () => {
    const { page, problems } = await open(
      { store: await busyStore(), title: 'production' },
      { viewport: { width: 360, height: 740 }, hasTouch: true },
    );
    await row(page, 'api').getByRole('button').first().click();
    await page.locator('.details .keys').first().waitFor();
    for (const screen of SCREENS) {
      if (screen !== 'now') await page.evaluate(`location.hash = '#/${screen}'`);
      await sleep(800);
      expect(await page.evaluate<number>('document.documentElement.scrollWidth'), screen).to.equal(360);
    }
    await page.evaluate("location.hash = '#/key/203.0.113.7'");
    await page.getByRole('button', { name: 'Unban' }).first().click();
    const box = (await page.getByRole('dialog').boundingBox())!;
    expect(box.x).to.be.at.least(0);
    expect(box.x + box.width).to.be.at.most(360);
    expect(problems).to.deep.equal([]);
  });

  it('folds long lists on a phone, and unfolds them', async () => {
    const store = redisStore(clients.redis, { prefix: freshPrefix(), counts: true, publish: '50ms' });
    const api = limiterOf(store, 'api');
    for (let i = 0; i < 22; i++)
      await api.ban(`customer:${i}`, '2h', { by: 'ops', reason: `INC-${i}, a scraper` });
    let sent = 0;
    const load = setInterval(() => void api.consume(`user:${sent++ % 30}`), 20);
    const { page, problems } = await open(
      { store },
      { viewport: { width: 360, height: 740 }, hasTouch: true },
    );
    const height = () => page.evaluate<number>('document.documentElement.scrollHeight');
    await row(page, 'api').getByRole('button').first().click();
    await page.locator('.details .keys tbody tr').first().waitFor();
    await page.locator('.changes li').first().waitFor();
    clearInterval(load);
    expect(await page.locator('.changes li').count()).to.equal(4);
    expect(await height()).to.be.lessThan(4500);
    await page.evaluate("location.hash = '#/log'");
    await page.locator('.log tbody tr').first().waitFor();
    expect(await height()).to.be.lessThan(1900);
    await page.getByRole('button', { name: 'Show 14 more' }).click();
    expect(await page.locator('.log tbody tr').count()).to.equal(22);
    expect(await height()).to.be.lessThan(3200);
    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).to.equal(360);
    expect(problems).to.deep.equal([]);
  });

  it('writes words with spaces, names each link, and refers to the details of any name', async () => {
    const store = memoryStore();
    const limiter = limiterOf(store, 'the api');
    await limiter.consume('ada');
    const { page, problems } = await open({ store });
    await limiter.ban('ada', '1h', { by: 'ops' });
    await limiter.ban(' ', '1h', { by: 'ops' });
    const name = row(page, 'the api').getByRole('button').first();
    await name.click();
    await page.locator('.list li').nth(1).waitFor();
    const id = (await name.getAttribute('aria-controls'))!;
    expect(await page.evaluate<boolean>(`document.getElementById(${JSON.stringify(id)}) !== null`)).to.equal(
      true,
    );
    expect(id).not.to.contain(' ');
    expect(await page.locator('.list').getByRole('link', { name: '(blank)' }).count()).to.equal(1);
    await page.evaluate("location.hash = '#/key/ada'");
    await page.locator('.answer').waitFor();
    expect(await page.locator('.answer').innerText())
      .to.contain('Banned by ops')
      .and.to.match(/left full again/);
    expect(problems).to.deep.equal([]);
  });

  it('can be used with the keyboard alone', async () => {
    const store = await busyStore();
    const { page } = await open({ store });
    await row(page, 'api').waitFor();
    const focusOn = async (name: RegExp) => {
      for (let i = 0; i < 60; i++) {
        await page.keyboard.press('Tab');
        const text = await page.evaluate<string>(
          "document.activeElement.innerText || document.activeElement.getAttribute('aria-label') || ''",
        );
        if (name.test(text)) return;
      }
      throw new Error(`The key Tab does not lead to ${String(name)}.`);
    };
    await page.keyboard.press('/');
    expect(await page.evaluate<string>('document.activeElement.id')).to.equal('find');
    await page.keyboard.type('203.0.113.7');
    await page.keyboard.press('Enter');
    await page.locator('.verdict').waitFor();
    await focusOn(/^Unban$/);
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    expect(await page.evaluate<string>('document.activeElement.name')).to.equal('reason');
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await focusOn(/^Unban$/);
    await page.keyboard.press('Enter');
    await page.keyboard.type('wrong address');
    await page.keyboard.press('Enter');
    await page.locator('.note', { hasText: 'Unbanned 203.0.113.7' }).waitFor();
    await focusOn(/^Undo$/);
  });

  for (const colorScheme of ['light', 'dark'] as const)
    it(`has no violation that axe finds, ${colorScheme}`, async () => {
      const { page } = await open(
        { store: await busyStore(), title: 'production' },
        { colorScheme, bypassCSP: true },
      );
      await page.addScriptTag({ path: axe });
      const check = async (where: string) => {
        const source =
          "({ violations }) => violations.map(({ id, nodes }) => `${id}: ${nodes.map((n) => n.html + ' ' + (n.any[0]?.message ?? '')).join(' | ')}`)";
        const found = await page.evaluate<string[]>(`axe.run().then(${source})`);
        expect(found, where).to.deep.equal([]);
      };
      await row(page, 'api').getByRole('button').first().click();
      await page.locator('.details .keys').first().waitFor();
      for (const screen of SCREENS) {
        if (screen !== 'now') await page.evaluate(`location.hash = '#/${screen}'`);
        await sleep(800);
        await check(screen);
      }
      await page.evaluate("location.hash = '#/key/203.0.113.7'");
      await page.getByRole('button', { name: 'Unban' }).first().click();
      await page.getByRole('dialog').waitFor();
      await check('the dialog');
      await page.getByLabel('Reason').fill('test');
      await page.getByRole('button', { name: 'Unban', exact: true }).last().click();
      await page.locator('.note').waitFor();
      await check('the note');
    });

  it('does not grow while it is open', async () => {
    expect(servers.redis.url).to.be.a('string');
    const { page } = await open({ store: await busyStore() });
    await row(page, 'api').waitFor();
    const session = await page.context().newCDPSession(page);
    const size = async () => {
      await session.send('HeapProfiler.collectGarbage');
      return page.evaluate<number>('performance.memory.usedJSHeapSize');
    };
    // As many updates as ten minutes bring.
    const updates = (n: number) =>
      page.evaluate<void>(
        `(async () => { for (let i = 0; i < ${n}; i++) { document.querySelector('select').dispatchEvent(new Event('change', { bubbles: true })); await new Promise((done) => setTimeout(done)); } })()`,
      );
    await updates(50);
    const before = await size();
    await updates(300);
    expect((await size()) - before).to.be.lessThan(2_000_000);
  });
});
