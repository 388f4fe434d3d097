// Export and import of bans and overrides: the answers of the server.
import { expect } from 'chai';
import { createLimiter, memoryStore, type Limiter } from 'headgate';
import { frameworks, startPage, tokenFields, type Site } from './servers.js';

interface Row {
  line: number;
  effect?: string;
  error?: string;
  key?: string;
}

for (const [framework, start] of Object.entries(frameworks)) {
  describe(`export and import on ${framework}`, () => {
    let site: Site;
    let api: Limiter;
    let login: Limiter;
    beforeEach(async () => {
      const store = memoryStore();
      const limiterOf = (name: string, policies: string[]) =>
        createLimiter({ store, name, policies, ban: {}, overrides: true });
      api = limiterOf('api', ['5/1m']);
      login = limiterOf('login', ['address=5/1m', 'account=9/1h by account']);
      site = await start({ store });
    });
    afterEach(async () => {
      await site.close();
      await api.close();
      await login.close();
    });

    const post = async (path: string, body: object, user?: string) => {
      const headers = await tokenFields(site.url, user);
      const response = await fetch(site.url + path, { method: 'POST', headers, body: JSON.stringify(body) });
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    };
    const exported = async (query: string, user = 'ada') => {
      const headers = await tokenFields(site.url, user);
      const response = await fetch(`${site.url}api/export?${query}`, { headers });
      return { status: response.status, text: await response.text() };
    };
    const preview = async (body: object) => {
      const { status, body: found } = await post('api/preview', body, 'ada');
      expect(status, JSON.stringify(found)).to.equal(200);
      return (found['rows'] as Row[]).map(({ line, effect, error }) => [line, effect ?? error]);
    };
    const isBanned = async (key: string) => (await api.peek(key)).reason === 'banned';

    it('exports bans and overrides as lines, and imports them again', async () => {
      await api.ban('ada\u202E"', '2h', { by: 'grace', reason: 'INC-7' });
      await login.ban('bob', '2h');
      await api.override('eve', '9/1m', { for: '1d', by: 'grace' });
      await login.override({ account: 'acme' }, { account: '99/1h' });
      const bans = await exported('kind=bans');
      expect(bans.status).to.equal(200);
      expect(bans.text.split('\n')).to.have.length(3);
      expect(bans.text).to.contain('"key":"ada\\u202e\\""').and.to.contain('"by":"grace"');
      const overrides = await exported('kind=overrides&name=login');
      expect(overrides.text).to.match(/^\{"name":"login","key":"acme","dimension":"account",.*\}\n$/);
      expect((await exported('kind=bans&name=login')).text.split('\n')).to.have.length(2);

      await api.unban('ada\u202E"');
      await login.removeOverride({ account: 'acme' });
      const ofBans = { kind: 'bans', text: bans.text, reason: 'back again' };
      expect(await preview(ofBans)).to.deep.equal([
        [1, 'new'],
        [2, 'same'],
      ]);
      expect(await isBanned('ada\u202E"')).to.equal(false);
      const done = await post('api/import', ofBans, 'ada');
      expect(done.status, JSON.stringify(done.body)).to.equal(200);
      expect(await isBanned('ada\u202E"')).to.equal(true);
      const ofOverrides = { kind: 'overrides', name: 'login', text: overrides.text, reason: 'back again' };
      expect(await preview(ofOverrides)).to.deep.equal([[1, 'new']]);
      expect((await post('api/import', ofOverrides, 'ada')).status).to.equal(200);
      expect(await preview(ofOverrides)).to.deep.equal([[1, 'same']]);
      expect((await login.overrideOf({ account: 'acme' }))?.change).to.deep.equal({ account: '99/1h' });

      const log = (await (await fetch(`${site.url}api/log?since=1h`)).json()) as { rows: object[] };
      expect(log.rows[0]).to.include({ action: 'override', by: 'ada', reason: 'back again' });
      expect(log.rows[1]).to.include({ action: 'import', by: 'ada', reason: 'back again', keys: 1 });
      expect(log.rows[1]).not.to.have.property('after');
      const undone = await post('api/undo', { ids: done.body['entries'], reason: 'wrong file' }, 'ada');
      expect(undone.status, JSON.stringify(undone.body)).to.equal(200);
      expect(await isBanned('ada\u202E"')).to.equal(false);
    });

    it('names each refused line with its reason, and then changes nothing', async () => {
      await api.ban('a', '2h');
      const text = ['# a comment', 'a', '', 'b', '10.0.0.1, evil', '{"key":', '10.0.0.0/40'].join('\r\n');
      const body = { kind: 'bans', name: 'api', for: '3h', text, reason: 'INC-7' };
      const rows = await preview(body);
      expect(rows.slice(0, 2)).to.deep.equal([
        [2, 'longer'],
        [4, 'new'],
      ]);
      expect(rows[2]).to.deep.equal([5, '"10.0.0.1, evil" has more than an address. Remove the line.']);
      expect(rows[3]![1]).to.match(/JSON/);
      expect(rows[4]![1])
        .to.match(/^key: "10\.0\.0\.0\/40" is not valid/)
        .and.not.to.contain('raw');
      const { status, body: answer } = await post('api/import', body, 'ada');
      expect(status).to.equal(400);
      expect(answer['error']).to.match(/^Line 5: .* Nothing was changed\.$/);
      expect(await isBanned('b')).to.equal(false);
      expect(await preview({ ...body, for: undefined, text: 'a' })).to.deep.equal([
        [1, 'the line has no duration. Choose for how long.'],
      ]);
      expect(await preview({ kind: 'bans', for: '3h', text: 'a' })).to.deep.equal([
        [1, 'the line has no "name". Choose the limiter of lines without one.'],
      ]);
      expect(await preview({ kind: 'bans', text: 'a' })).to.deep.equal([
        [1, 'the line has no "name". Choose the limiter of lines without one.'],
      ]);
      const overrides = ['x 9/1m', 'y minute=9/1m', 'z', '{"key":"q"}', '{"name":"login","key":"q"}'].join(
        '\n',
      );
      const found = await preview({ kind: 'overrides', name: 'api', text: overrides });
      expect(found[0]).to.deep.equal([1, 'new']);
      expect(found.slice(1).map(([line, why]) => [line, String(why).slice(0, 30)])).to.deep.equal([
        [2, found[1]![1]!.toString().slice(0, 30)],
        [3, 'the policy is missing. Pass a '],
        [4, 'the line has no "change", such'],
        [5, 'the line is of the limiter "lo'],
      ]);
      expect(found[1]![1]).to.match(/minute/);
    });

    it('takes no lines without rights, a reason or a change, and not too many of them', async () => {
      const body = { kind: 'bans', name: 'api', for: '1h', text: 'victim', reason: 'INC-7' };
      for (const path of ['api/import', 'api/preview']) {
        const { status, body: answer } = await post(path, body);
        expect(status, path).to.equal(403);
        expect(answer['error']).to.match(/^You may read this page/);
      }
      expect((await exported('kind=bans', '')).status).to.equal(403);
      expect((await exported('kind=limits')).status).to.equal(400);
      for (const wrong of [{ reason: ' ' }, { text: '' }, { text: '# only a comment' }, { kind: 'keys' }])
        expect(
          (await post('api/import', { ...body, ...wrong }, 'ada')).status,
          JSON.stringify(wrong),
        ).to.equal(400);
      const lines = await post('api/preview', { ...body, text: 'k\n'.repeat(1001) }, 'ada');
      expect(lines.status).to.equal(413);
      expect(lines.body['error']).to.match(/at most 1000 lines/);
      const large = await post('api/import', { ...body, text: 'k'.repeat(300_000) }, 'ada');
      expect(large).to.deep.equal({ status: 413, body: { error: 'The body is larger than 256000 bytes.' } });
      expect(await isBanned('victim')).to.equal(false);
    });
  });
}

describe('export with hideKeys', () => {
  it('is refused, because lines have whole keys', async () => {
    const site = await startPage({ store: memoryStore(), hideKeys: true });
    const response = await fetch(`${site.url}api/export?kind=bans`, { headers: { cookie: 'user=ada' } });
    expect(response.status).to.equal(403);
    expect(await response.json()).to.deep.equal({
      error: 'The page hides keys, so it exports none. Use the command line.',
    });
    await site.close();
  });
});
