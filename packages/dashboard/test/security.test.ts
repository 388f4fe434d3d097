// Requests that are refused: of other sites, of other machines, without a session, without a token.
import { request } from 'node:http';
import { expect } from 'chai';
import fastify, { type preHandlerHookHandler } from 'fastify';
import { createLimiter, memoryStore, type Limiter } from 'headgate';
import { dashboard, type WebDashboardOptions } from 'headgate-dashboard';
import { dashboardPlugin } from 'headgate-dashboard/fastify';
import { frameworks, tokenFields, type Site } from './servers.js';

const BAN = JSON.stringify({ action: 'ban', name: 'api', key: 'victim', for: '1h', reason: 'forged' });

/** Sends a request with fields that `fetch` does not let a program set. */
function send(url: string, method: string, headers: Record<string, string>, body?: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers }, (response) => {
      response.resume();
      resolve(response.statusCode!);
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

for (const [name, start] of Object.entries(frameworks)) {
  describe(`dashboard on ${name} refuses`, () => {
    let site: Site;
    let limiter: Limiter;
    let good: Record<string, string>;
    before(async () => {
      const store = memoryStore();
      limiter = createLimiter({ store, name: 'api', policies: ['5/1m'], ban: {} });
      site = await start({ store });
      good = await tokenFields(site.url, 'ada');
    });
    afterEach(async () => expect((await limiter.peek('victim')).allowed).to.equal(true));
    after(async () => {
      await site.close();
      await limiter.close();
    });

    const change = (fields: Record<string, string | undefined>, body = BAN) => {
      const headers = Object.entries({ ...good, ...fields }).filter(
        (entry): entry is [string, string] => entry[1] !== undefined,
      );
      return send(`${site.url}api/change`, 'POST', Object.fromEntries(headers), body);
    };

    it('changes that a form can send', async () => {
      for (const type of [
        'text/plain',
        'application/x-www-form-urlencoded',
        'multipart/form-data; boundary=x',
        undefined,
      ])
        expect(await change({ 'content-type': type }), type).to.be.oneOf([400, 415]);
    });

    it('changes from another site, also of the same domain', async () => {
      for (const from of ['cross-site', 'same-site', 'none'])
        expect(await change({ 'sec-fetch-site': from }), from).to.equal(403);
      const old = { 'sec-fetch-site': undefined };
      expect(await change(old)).to.equal(403);
      expect(await change({ ...old, origin: 'https://evil.example' })).to.equal(403);
    });

    it('changes without the token of the cookie', async () => {
      const [cookie] = good['cookie']!.split('; ');
      for (const fields of [
        { 'x-headgate-token': undefined },
        { 'x-headgate-token': 'x'.repeat(24) },
        { cookie: 'user=ada' },
        { cookie: 'user=ada; headgate-dashboard-token=', 'x-headgate-token': '' },
        { cookie: `user=ada; ${cookie}x` },
      ])
        expect(await change(fields), JSON.stringify(fields)).to.equal(403);
    });

    it('changes by visitors that are not operators', async () => {
      const visitor = await tokenFields(site.url);
      expect(await change(visitor)).to.equal(403);
      expect(await send(`${site.url}api/undo`, 'POST', visitor, '{"ids":["x"],"reason":"r"}')).to.equal(403);
    });

    it('changes by GET, and bodies that are not JSON, too large, or without a reason', async () => {
      const query = new URLSearchParams({
        action: 'ban',
        name: 'api',
        key: 'victim',
        for: '1h',
        reason: 'r',
      });
      expect(await send(`${site.url}api/change?${query.toString()}`, 'GET', good)).to.equal(404);
      for (const body of ['', 'null', '[]', '{', JSON.stringify({ ...JSON.parse(BAN), reason: ' ' })])
        expect(await change({}, body), body).to.equal(400);
      expect(await change({}, JSON.stringify({ ...JSON.parse(BAN), key: 'k'.repeat(80_000) }))).to.equal(413);
    });

    it('reads of its data by other sites, and admits links to the page', async () => {
      const foreign = { 'sec-fetch-site': 'cross-site' };
      for (const path of ['api/now', 'api/stream', 'api/log'])
        expect(await send(site.url + path, 'GET', foreign), path).to.equal(403);
      expect(await send(site.url, 'GET', foreign)).to.equal(200);
    });
  });

  describe(`dashboard on ${name} without actions and auth`, () => {
    it('serves this machine only, and nobody behind a proxy', async () => {
      const store = memoryStore();
      const site = await start({ store, isReadOnly: true });
      expect(await send(site.url, 'GET', {})).to.equal(200);
      expect(await send(site.url, 'GET', { host: 'limits.example.com' })).to.equal(403);
      for (const field of ['forwarded', 'via', 'x-real-ip'])
        expect(await send(site.url, 'GET', { [field]: 'x' }), field).to.equal(403);
      for (const field of ['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto'])
        expect(await send(site.url, 'GET', { [field]: 'x' }), field).to.equal(403);
      expect(await send(`${site.url}api/now`, 'GET', { host: 'rebound.example:80' })).to.equal(403);
      await site.close();
      const open = await start({ store, isReadOnly: true, auth: 'none' });
      expect(await send(open.url, 'GET', { host: 'limits.example.com' })).to.equal(200);
      await open.close();
    });
  });
}

describe('dashboardPlugin without actions and auth', () => {
  it('serves readers of other machines only after a hook', async () => {
    const hook: preHandlerHookHandler = (_request, _reply, done) => done();
    const hooks = [undefined, [], hook, [hook]] as const;
    for (const [i, status] of [403, 403, 200, 200].entries()) {
      const app = fastify();
      await app.register(dashboardPlugin, { store: memoryStore(), preHandler: hooks[i] as typeof hook });
      const headers = { 'x-forwarded-for': '203.0.113.9' };
      expect((await app.inject({ url: '/api/now', headers })).statusCode, `${i}`).to.equal(status);
      await app.close();
    }
  });
});

describe('dashboard for Request handlers without actions and auth', () => {
  const ask = async (options: Partial<WebDashboardOptions>, ip?: string) => {
    const page = dashboard({ store: memoryStore(), ...options });
    const response = await page(new Request('http://localhost/'), { ip });
    return [response.status, await response.text()] as const;
  };

  it('needs the address of the client, which must be of this machine', async () => {
    expect((await ask({}))[0]).to.equal(403);
    expect((await ask({}, '203.0.113.9'))[0]).to.equal(403);
    for (const ip of ['127.0.0.1', '::1', '::ffff:127.0.0.1'])
      expect((await ask({}, ip))[0], ip).to.equal(200);
    expect((await ask({ auth: 'upstream' }))[0]).to.equal(200);
  });

  it('serves a remote operator, and no other remote reader unless `auth` says who they are', async () => {
    const actions = (request: Request) =>
      request.headers.get('cookie') === 'user=ada' ? { by: 'ada' } : null;
    const from = async (cookie: string, options: Partial<WebDashboardOptions> = {}) => {
      const page = dashboard({ store: memoryStore(), actions, ...options });
      const request = (path: string) =>
        new Request(`https://limits.example.com/${path}`, { headers: { cookie } });
      const statuses = ['', 'api/now', 'api/log'].map(
        async (path) => (await page(request(path), { ip: '203.0.113.9' })).status,
      );
      return new Set(await Promise.all(statuses));
    };
    expect(await from('user=ada')).to.deep.equal(new Set([200]));
    expect(await from('user=eve')).to.deep.equal(new Set([403]));
    expect(await from('user=eve', { auth: 'upstream' })).to.deep.equal(new Set([200]));
    expect(await from('user=eve', { actions: () => ({ by: '' }) })).to.deep.equal(new Set([500]));
    const [, text] = await ask({ actions: () => null }, '203.0.113.9');
    expect(text).to.contain("`auth: 'upstream'`");
  });

  it('names the fix', async () => {
    expect((await ask({}))[1])
      .to.contain("`auth: 'upstream'`")
      .and.to.contain('actions');
  });
});
