// The answers of the dashboard in each framework.
import { createHash } from 'node:crypto';
import { expect } from 'chai';
import { createLimiter, memoryStore, type Limiter } from 'headgate';
import fastify from 'fastify';
import { dashboard } from 'headgate-dashboard';
import { dashboard as expressDashboard } from 'headgate-dashboard/express';
import { dashboardPlugin } from 'headgate-dashboard/fastify';
import { frameworks, startPage, tokenFields, type Site } from './servers.js';

const scriptsOf = (html: string) => [...html.matchAll(/<script>([^]*?)<\/script>/g)].map(([, text]) => text!);
const stylesOf = (html: string) => [...html.matchAll(/<style>([^]*?)<\/style>/g)].map(([, text]) => text!);
const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

for (const [name, start] of Object.entries(frameworks)) {
  describe(`dashboard on ${name}`, () => {
    let site: Site;
    let limiter: Limiter;
    before(async () => {
      const store = memoryStore();
      limiter = createLimiter({ store, name: 'api', policies: ['5/1m'], ban: {}, overrides: true });
      site = await start({ store });
    });
    after(async () => {
      await site.close();
      await limiter.close();
    });

    it('serves one page, whose policy admits its own scripts and style only', async () => {
      const response = await fetch(site.url);
      expect(response.status).to.equal(200);
      const html = await response.text();
      const policy = response.headers.get('content-security-policy')!;
      expect(policy).to.contain("default-src 'none'").and.to.contain("frame-ancestors 'none'");
      expect(policy).not.to.contain('unsafe');
      expect(scriptsOf(html)).to.have.length(2);
      for (const text of [...scriptsOf(html), ...stylesOf(html)]) expect(policy).to.contain(hashOf(text));
      expect(response.headers.get('cache-control')).to.contain('no-store');
      expect(response.headers.get('x-content-type-options')).to.equal('nosniff');
      expect(html).not.to.match(/src=|href="http/);
    });

    it('answers with the limiters, and streams them', async () => {
      const now = (await (await fetch(`${site.url}api/now`)).json()) as { set: Record<string, unknown> };
      expect(now.set['row api']).to.deep.include({ policies: ['5/1m'], bans: true, overridden: 0 });
      const stop = new AbortController();
      const stream = await fetch(`${site.url}api/stream`, { signal: stop.signal });
      expect(stream.headers.get('content-type')).to.match(/^text\/event-stream/);
      let text = '';
      for await (const chunk of stream.body!) {
        text += Buffer.from(chunk).toString();
        if (text.includes('"row api"')) break;
      }
      stop.abort();
      expect(text).to.contain('"full":true');
    });

    it('makes a change in the name of the operator of the session, whatever name the body has', async () => {
      const headers = await tokenFields(site.url, 'ada');
      const body = { action: 'ban', name: 'api', key: 'user:1', for: '1h', reason: 'test', by: 'mallory' };
      const response = await fetch(`${site.url}api/change`, {
        ...{ method: 'POST', headers, body: JSON.stringify(body) },
      });
      expect(response.status, await response.clone().text()).to.equal(200);
      expect((await limiter.peek('user:1')).reason).to.equal('banned');
      const { rows } = (await (await fetch(`${site.url}api/log?since=1h`)).json()) as { rows: object[] };
      expect(rows[0]).to.include({ action: 'ban', key: 'user:1', by: 'ada', reason: 'test' });
      await limiter.unban('user:1');
    });

    it('shows with a key the changes of the limits of all keys', async () => {
      await limiter.overrideAll('9/1m', { by: 'olga' });
      await limiter.override('user:9', '8/1m');
      await limiter.removeOverride('user:9');
      await limiter.removeOverride(undefined);
      const headers = await tokenFields(site.url, 'ada');
      const init = { method: 'POST', headers, body: JSON.stringify({ key: 'user:8' }) };
      const { changes } = (await (await fetch(`${site.url}api/key`, init)).json()) as { changes: object[] };
      const actions = changes.map((row) =>
        Object.entries(row).filter(([name]) => ['action', 'key'].includes(name)),
      );
      expect(actions).to.deep.equal([[['action', 'remove']], [['action', 'override']]]);
    });

    it('resets a key in several limiters, reports each, and refuses a list without names', async () => {
      const headers = await tokenFields(site.url, 'ada');
      const reset = async (places: unknown) => {
        const body = { action: 'reset', name: 'api', all: true, places, key: 'user:2', reason: 'test' };
        const sent = { method: 'POST', headers, body: JSON.stringify(body) };
        return fetch(`${site.url}api/change`, sent);
      };
      await limiter.consume('user:2', { cost: 5 });
      for (const places of [undefined, [], 'api', [5], [{}], [{ name: 'api', dimension: 5 }]])
        expect((await reset(places)).status).to.equal(400);
      expect((await limiter.peek('user:2')).remaining).to.equal(0);
      const answer = await reset([{ name: 'api' }, { name: 'api', dimension: 'other' }, { name: 'api' }]);
      const { places } = (await answer.json()) as { places: { error?: string }[] };
      expect(places[0]).to.deep.equal({ name: 'api', policies: ['default'] });
      expect(places[1]).to.include({ name: 'api', dimension: 'other' });
      expect(places[1]!.error).to.contain("no policy of this limiter is by 'other'");
      expect(places[2]).to.deep.equal({ name: 'api', policies: [], error: 'not tried' });
      expect((await limiter.peek('user:2')).remaining).to.equal(5);
    });

    it('answers 413 as JSON to a body that is too large, in bytes', async () => {
      const headers = await tokenFields(site.url, 'ada');
      for (const key of ['k'.repeat(64_000), 'é'.repeat(32_000), 'k'.repeat(2_000_000)]) {
        const body = JSON.stringify({ action: 'ban', name: 'api', key, for: '1h', reason: 'test' });
        const response = await fetch(`${site.url}api/change`, { method: 'POST', headers, body });
        expect(response.status, `${key.length}`).to.equal(413);
        expect(await response.json()).to.deep.equal({ error: 'The body is larger than 64000 bytes.' });
      }
    });

    it('answers 500 with the fix from the first reading if `actions` returns no valid operator', async () => {
      for (const operator of [{ by: '' }, { by: ' ' }, { by: 5 }, { by: 'a'.repeat(101) }, 'ada', true]) {
        const wrong = await start({ store: memoryStore(), operator });
        expect((await fetch(wrong.url)).status).to.equal(200);
        for (const path of ['api/now', 'api/stream']) {
          const response = await fetch(wrong.url + path);
          expect(response.status, JSON.stringify(operator)).to.equal(500);
          const { error } = (await response.json()) as { error: string };
          expect(error).to.match(/^actions: returned no valid operator\. Return \{ by: 'ada' \}/);
        }
        await wrong.close();
      }
      const none = await start({ store: memoryStore(), operator: false });
      const now = (await (await fetch(`${none.url}api/now`)).json()) as { me: unknown };
      expect(now.me).to.equal(null);
      await none.close();
    });

    it('answers 404 and 405 as JSON', async () => {
      expect((await fetch(`${site.url}api/nothing`)).status).to.equal(404);
      const put = await fetch(`${site.url}api/now`, { method: 'PUT' });
      expect(put.status).to.be.oneOf([404, 405]);
    });
  });
}

/** The error with which Fastify refuses to start. */
async function readyError(options: Parameters<typeof dashboardPlugin>[1]): Promise<unknown> {
  const app = fastify();
  void app.register(dashboardPlugin, options);
  return app.ready().then(
    () => undefined,
    (reason: unknown) => reason,
  );
}

describe('dashboard', () => {
  it('refuses unknown and wrong options with the fix', () => {
    const store = memoryStore();
    expect(() => dashboard({ store, refresh: 1 } as never)).to.throw(
      /unknown option 'refresh'. Known options: store/,
    );
    expect(() => dashboard({ store, actions: 'ada' } as never)).to.throw(/actions: pass a function/);
    expect(() => dashboard({ store, auth: true } as never)).to.throw(/auth: pass 'upstream' or 'none'/);
    expect(() => dashboard({ store, basePath: 'admin' })).to.throw(/basePath: pass a path/);
  });

  it('names the option `store` and a call of the same function', () => {
    // Each call knows its readers.
    const web =
      "dashboard({ store: redisStore(redis), basePath: '/admin/limits', actions: (request) => sessionOf(request)?.admin ?? null })";
    const middleware =
      "app.use('/admin/limits', requireAdmin, dashboard({ store: redisStore(redis), actions: (req) => ({ by: req.user.email }) }))";
    for (const [make, example] of [
      [dashboard, web],
      [expressDashboard, middleware],
    ] as const) {
      expect(() => make(undefined as never)).to.throw(
        `dashboard: pass an object with \`store\`: ${example}.`,
      );
      expect(() => make({} as never)).to.throw(`For example: ${example}.`);
      expect(() => make({} as never)).to.throw(/^store: missing\. Pass a redisStore/);
      expect(() => make({ store: 5 } as never)).to.throw(/^store: 5 is not valid\./);
      expect(() => make({ store: { decide() {} } } as never)).to.throw(/^store: a store that is not one/);
    }
  });

  it('refuses `basePath` where the framework passes the path, with the call to use', async () => {
    const options = { store: memoryStore(), basePath: '/admin' } as never;
    expect(() => expressDashboard(options)).to.throw(
      /^dashboard: unknown option 'basePath'.*For example: app\.use\('\/admin\/limits', requireAdmin, dashboard\(/,
    );
    const error = await readyError(options);
    expect(error).to.include({ code: 'HEADGATE_UNKNOWN_OPTION' });
    expect((error as Error).message).to.match(/^dashboardPlugin: unknown option 'basePath'.*prefix: /);
  });

  it('serves the plugin below a prefix with slashes at its end, and below a nested one', async () => {
    for (const prefix of ['/limits/', '/limits//']) {
      const app = fastify();
      void app.register(
        (scope, _, done) => {
          void scope.register(dashboardPlugin, { prefix, store: memoryStore() });
          done();
        },
        { prefix: '/admin' },
      );
      const url = await app.listen();
      for (const path of ['/admin/limits', '/admin/limits/', '/admin/limits/api/now'])
        expect((await fetch(url + path)).status, prefix + path).to.equal(200);
      expect((await fetch(`${url}/admin`)).status).to.equal(404);
      await app.close();
    }
  });

  it('reports wrong options of the plugin from `ready`', async () => {
    const error = await readyError({} as never);
    expect(error).to.include({ code: 'HEADGATE_INVALID_OPTION' });
    expect((error as Error).message).to.match(/^store: missing\..*fastify\.register\(dashboardPlugin, /);
  });

  it('shows hashes in place of keys with hideKeys', async () => {
    const store = memoryStore();
    const limiter = createLimiter({ store, name: 'api', policies: ['5/1m'], ban: {} });
    const site = await startPage({ store, hideKeys: true });
    await limiter.ban('ada@example.com', '1h', { by: 'ops', reason: 'test' });
    for (const path of ['api/now', 'api/log?since=1h', 'api/limiter?name=api']) {
      const text = await (await fetch(site.url + path)).text();
      expect(text, path).to.contain('"hash":').and.not.to.contain('ada@example.com');
    }
    await site.close();
    await limiter.close();
  });

  it('hides with hideKeys the key of a limit that a typed tenant shares', async () => {
    const store = memoryStore();
    const limiter = createLimiter({
      ...{ store, name: 'api', policies: ['tokens=100/1m by provider share tenant'], overrides: true },
    });
    const site = await startPage({ store, hideKeys: true });
    for (let i = 0; i < 12; i++) await limiter.consume({ provider: 'openai', tenant: 'acme' }, { cost: 10 });
    const headers = await tokenFields(site.url);
    for (const path of ['api/key', 'api/past']) {
      const init = { method: 'POST', headers, body: JSON.stringify({ key: 'acme' }) };
      const ask = async () => (await fetch(site.url + path, init)).text();
      let text = await ask();
      // Denials are recorded some seconds after they happened.
      for (let i = 0; i < 100 && !text.includes('"within":'); i++) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        text = await ask();
      }
      expect(text, path).to.contain('"within":{"hash":').and.to.contain('acme').and.not.to.contain('openai');
    }
    await site.close();
    await limiter.close();
  });
});
