// Keys of other dimensions on the command line.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { expect } from 'chai';
import fc from 'fast-check';
import { memoryStore, type Policy } from 'headgate';
import { redisStore } from 'headgate/redis';
import { serverKinds, servers } from '../../../test/support/shared-servers.js';
import { runs } from '../../../test/support/random.js';
import { until } from '../../../test/admin/stores.js';
import { clients, freshPrefix, limiterOn, TestClock } from '../../../test/support/stores.js';
import { headgate, json, jsonLines, TELLING, told } from './cli.js';

const POLICIES: readonly Policy[] = [
  { name: 'ip', limit: 3, window: '1h' },
  { name: 'account', limit: 2, window: '1h', by: 'account' },
];

for (const kind of serverKinds) {
  describe(`policies by several keys on the command line, on ${kind}`, () => {
    const open = async (options = {}) => {
      const prefix = freshPrefix();
      const store = redisStore(clients[kind], { prefix, ...TELLING });
      const limiter = limiterOn(store, {
        name: 'api',
        policies: POLICIES,
        ban: { by: 'account' },
        ...options,
      });
      const where = ['--redis', servers[kind].url, '--prefix', prefix];
      await limiter.consume({ key: '203.0.113.7', account: '203.0.113.7', org: 'x' }, { cost: 2 });
      await told(where, 'api');
      return { limiter, where, of: ['--name', 'api', ...where], store };
    };
    const byAccount = { policies: [...POLICIES, { name: 'org', limit: 9, window: '1h', by: 'org' }] };

    it('peek and reset are of one dimension', async () => {
      const { limiter, of, store } = await open(byAccount);
      const account = ['203.0.113.7', '--dimension', 'account', ...of];
      expect(await json('peek', ...account)).to.deep.include({ allowed: false, dimension: 'account' });
      const address = (await json('peek', '203.0.113.7', ...of)) as { policies: object[] };
      expect(address).to.include({ allowed: true }).and.not.have.property('dimension');
      expect(address.policies).to.have.length(1);
      expect(await json('reset', ...account)).to.deep.include({
        policies: ['account'],
        dimension: 'account',
      });
      expect((await limiter.peek({ key: '203.0.113.7' })).remaining).to.equal(1);
      expect((await limiter.peek({ account: '203.0.113.7' })).remaining).to.equal(2);
      expect((await headgate(['peek', 'x', '--dimension', 'user', ...of])).stderr).to.match(
        /one of: key, account, org/,
      );
      expect((await headgate(['peek', 'x', '--dimension', 'a b', ...of])).stderr).to.match(/--dimension/);
      await limiter.close();
      await store.close?.();
    });

    it('key names the limit of another key that denies the requests of a key', async () => {
      const { limiter, where, store } = await open(byAccount);
      for (let i = 0; i < 4; i++) await limiter.consume({ key: `10.0.0.${i}`, account: 'eve' });
      const ask = () => json('key', '10.0.0.3', '--name', 'api', ...where);
      type View = { allowed: boolean; deniedLately?: object };
      await until(async () => ((await ask()) as View[])[0]?.deniedLately !== undefined);
      const [view] = (await ask()) as View[];
      expect(view).to.deep.include({
        allowed: true,
        deniedLately: { policy: 'account', dimension: 'account' },
      });
      const { stdout, code } = await headgate(['key', '10.0.0.3', '--name', 'api', ...where]);
      expect(stdout).to.match(/its requests are denied by `account`, a limit of another key \(by account\)/);
      expect(code).to.equal(0);
      await until(async () => !(await past()).includes('No denial'));
      expect(await past()).to.match(/10\.0\.0\.3 +account +1/);
      await limiter.close();
      await store.close?.();

      async function past(): Promise<string> {
        return (await headgate(['key', '10.0.0.3', '--at', '1s', '--name', 'api', ...where])).stdout;
      }
    });

    it('override says that another limit denies the requests of the key', async () => {
      const { limiter, where, store } = await open({ ...byAccount, overrides: true });
      for (let i = 0; i < 4; i++) await limiter.consume({ key: `10.0.0.${i}`, account: 'eve' });
      const change = async (key: string) =>
        (await headgate(['override', key, 'ip=9/1h', '--name', 'api', ...where])).stderr;
      await until(async () => (await change('10.0.0.3')) !== '');
      expect(await change('10.0.0.3')).to.match(
        /Requests of 10\.0\.0\.3 were denied by "account" .* \(by account\), .* with --dimension account\.$/m,
      );
      expect(await change('10.0.0.9')).to.equal('');
      await limiter.close();
      await store.close?.();
    });

    it('top and list name the other key for which a key was denied', async () => {
      const { limiter, where, store } = await open(byAccount);
      for (const key of ['10.0.0.1', '10.0.0.2', '10.0.0.3']) await limiter.consume({ key, account: 'acme' });
      const shown = async (...args: string[]) => (await headgate([...args, ...where])).stdout;
      await until(async () =>
        /^ {2}account acme .* account$/m.test(await shown('top', '--once', '--seconds', '60')),
      );
      expect(await shown('top', '--once', '--seconds', '60')).to.match(
        /^ {2}10\.0\.0\.3 +0 +\S+ +\S+ +account, of another key \(its account\)$/m,
      );
      expect(await shown('list')).to.match(
        /^api +10\.0\.0\.3 +\S.* account, of another key \(its account\)$/m,
      );
      await limiter.close();
      await store.close?.();
    });

    it('reset of a network in all limiters names the other dimensions', async () => {
      const { limiter, where, store } = await open(byAccount);
      const network = ['reset', '203.0.113.0/24', '--all-limiters', ...where];
      expect((await headgate(network)).stderr).to.match(
        /charges by other dimensions stay.*--dimension account/,
      );
      await limiter.consume({ key: '203.0.113.7', account: '203.0.113.7' });
      expect(await json(...network, '--dimension', 'account')).to.include({ name: 'api', charged: 1 });
      await limiter.close();
      await store.close?.();
    });

    it('reset names the charges of other dimensions and tenants, which stay', async () => {
      const { limiter, where, store } = await open(byAccount);
      const policies = ['pool=10/1h by provider share tenant'];
      const shared = limiterOn(store, { name: 'chat', policies });
      await shared.consume({ provider: 'openai', tenant: '203.0.113.7' });
      await told(where, 'chat');
      const { stdout, stderr } = await headgate(['reset', '203.0.113.7', '--all-limiters', ...where]);
      expect(stdout).to.equal('The charges of 203.0.113.7 in api are forgotten: ip.\n');
      expect(stderr).to.contain(
        'still charged as account in api (account: 2 of 2). To reset it: headgate reset 203.0.113.7 --dimension account --name api.',
      );
      expect(stderr)
        .to.contain('still charged as tenant within provider openai in chat (pool: 1 of ')
        .and.contain('To reset the whole limit: headgate reset openai --dimension provider --name chat.');
      const account = ['reset', '203.0.113.7', '--dimension', 'account', '--name', 'api', ...where];
      expect((await headgate(account)).stderr).to.equal('');
      await limiter.consume({ key: '203.0.113.8', account: 'eve' });
      // Only another dimension has charges, so that nothing was reset.
      expect((await headgate(['reset', 'eve', '--name', 'api', ...where])).code).to.equal(5);
      await shared.close();
      await limiter.close();
      await store.close?.();
    });

    it('a limiter with a shared limit, published or passed, breaks no view of the others', async () => {
      const prefix = freshPrefix();
      const where = ['--redis', servers[kind].url, '--prefix', prefix];
      const store = redisStore(clients[kind], { prefix, ...TELLING });
      const limiter = limiterOn(store, { name: 'api', policies: ['all=2/1h share tenant'] });
      const other = limiterOn(store, { name: 'login', limit: 1, window: '1h', ban: {} });
      await told(where, 'api', 'login');
      await limiter.consume({ key: 'partner', tenant: 'acme' }, { cost: 2 });
      await other.consume('ada');
      await other.ban('eve', '1h');
      const found = (lines: readonly Record<string, unknown>[]) =>
        lines.map(({ kind: fact, name, key }) => `${String(fact)} ${String(name)} ${String(key)}`).sort();
      const all = ['banned login eve', 'limited api acme', 'limited api partner', 'limited login ada'];
      expect(found(await jsonLines('list', ...where))).to.deep.equal(all);
      expect(found(await jsonLines('list', '--limited', ...where))).to.deep.equal(all.slice(1));
      expect(found(await jsonLines('list', '--banned', ...where))).to.deep.equal(all.slice(0, 1));
      const passed = ['--name', 'api', '--policy', 'all=2/1h share tenant', ...where];
      expect(found(await jsonLines('list', ...passed))).to.deep.equal([
        'limited api acme',
        'limited api partner',
      ]);
      const answers = async (key: string) => {
        const views = (await json('key', key, '--all', ...where)) as { name: string; allowed: boolean }[];
        return views.map(({ name, allowed }) => `${name} ${allowed}`).sort();
      };
      expect(await answers('ada')).to.include.members(['api true', 'login false']);
      expect(await answers('acme')).to.include.members(['api false', 'api true', 'login true']);
      expect(await answers('partner')).to.include.members(['api false', 'login true']);
      expect(await json('peek', 'partner', '--name', 'api', ...where)).to.include({ allowed: false });
      expect(await json('reset', 'partner', '--name', 'api', ...where)).to.deep.include({
        policies: ['all'],
      });
      await Promise.all([limiter.close(), other.close()]);
      await store.close?.();
    });

    it('bans are of the dimension that the limiter bans by', async () => {
      const { limiter, of, where, store } = await open(byAccount);
      expect((await headgate(['ban', 'ada', '1h', ...of])).stderr).to.match(/--dimension account/);
      const stdin = () => Readable.from(['ada\n']);
      const imported = ['bans', 'import', '-', '--for', '1h', '--dry-run', ...of];
      const { code, stderr } = await headgate(imported, { stdin: stdin() });
      expect([code, /--dimension account/.test(stderr)]).to.deep.equal([5, true]);
      const right = await headgate([...imported, '--dimension', 'account'], { stdin: stdin() });
      expect(right.code).to.equal(0);
      await json('ban', 'ada', '1h', '--dimension', 'account', '--reason', 'spam', ...of);
      expect(await limiter.peek({ key: 'x', account: 'ada' })).to.include({ reason: 'banned' });
      const [ban] = await jsonLines('list', '--banned', ...of);
      expect(ban).to.include({ key: 'ada', dimension: 'account', reason: 'spam' });
      expect((await headgate(['list', ...of])).stdout).to.match(/^account ada +banned/m);
      expect((await jsonLines('bans', 'log', ...of))[0]).to.include({ key: 'ada', dimension: 'account' });
      const exported = (await headgate(['bans', 'export', ...of])).stdout;
      const unnamed = await headgate(['unban', 'ada', ...of]);
      expect([unnamed.code, unnamed.stdout]).to.deep.equal([5, '']);
      expect(unnamed.stderr).to.contain('bans by account, and not by key. Set --dimension account.');
      const fresh = await headgate(['unban', 'ada', '--fresh', ...of]);
      expect([fresh.code, /--dimension account/.test(fresh.stderr)]).to.deep.equal([0, true]);
      await json('unban', 'ada', '--dimension', 'account', ...of);
      expect(await limiter.peek({ account: 'ada' })).to.include({ allowed: true });
      await headgate(['bans', 'import', '-', ...where], { stdin: Readable.from([exported]) });
      expect(await limiter.peek({ account: 'ada' })).to.include({ reason: 'banned' });
      await limiter.close();
      await store.close?.();
    });

    it('list shows each key with its dimension, by its own policies', async () => {
      const { limiter, of, store } = await open(byAccount);
      const finds = await jsonLines('list', '--limited', ...of);
      expect(finds).to.have.length(1);
      expect(finds[0]).to.include({
        kind: 'limited',
        dimension: 'account',
        key: '203.0.113.7',
        policy: 'account',
      });
      const { stdout } = await headgate(['limits', ...of]);
      expect(stdout).to.contain('by hand, by account');
      await limiter.close();
      await store.close?.();
    });

    it('keys within others are shown, and not guessed', async () => {
      const { limiter, of, store } = await open({ ...byAccount, slotBy: 'org' });
      expect((await headgate(['reset', 'ada', '--dimension', 'account', ...of])).stderr).to.match(
        /slotBy: 'org'/,
      );
      const [find] = await jsonLines('list', '--limited', ...of);
      expect(find).to.include({ dimension: 'account', key: '203.0.113.7', within: 'org x' });
      const long = 'o'.repeat(80);
      await limiter.ban({ account: 'ada', org: long }, '1h');
      const within = `org ${long}`;
      for (const command of [
        ['list', '--banned', '--scan'],
        ['bans', 'log'],
      ])
        expect((await jsonLines(...command, ...of))[0]).to.include({ key: 'ada', within });
      expect((await headgate(['bans', 'log', ...of])).stdout).to.match(/account ada in org oooo/);
      await limiter.close();
      await store.close?.();
    });
  });
}

describe('replay of policies by several keys', () => {
  /** A request a second: of an address, an account and an organisation, `-` for none. */
  const log = (rows: readonly string[]) =>
    rows
      .map((row, i) => {
        const [ip, account, org] = row.split(' ').map((word) => (word === '-' ? undefined : word));
        return JSON.stringify({ time: Date.UTC(2026, 9, 5) + 1000 * i, ip, account, org });
      })
      .join('\n');
  const run = (command: string, rows: readonly string[], ...args: string[]) =>
    headgate(['--json', command, '-', ...args], { stdin: Readable.from([log(rows)]) });
  const replay = async (rows: readonly string[], ...args: string[]) => {
    const { code, stdout, stderr } = await run('replay', rows, ...args);
    expect(code, stderr).to.equal(0);
    return JSON.parse(stdout) as {
      denied: number;
      clients: number;
      deniedClients: number;
      policies: { name: string; denied: number; clients: number; of: number; use: number[] }[];
      top: { key: string; requests: number; denied: number; policies: string[] }[];
      compared?: { denied: number };
    };
  };
  const TWO = ['--policy', 'ip=3/1h', '--policy', 'account=2/1h by account'];
  const KEYS = ['--key', 'ip', '--key', 'account=account'];
  const ROWS = [
    '192.0.2.1 ada',
    '192.0.2.1 ada',
    '192.0.2.2 ada',
    '192.0.2.1 bob',
    '192.0.2.1 -',
    '- bob',
    '- -',
  ];

  it('decides them together, as the limiter does', async () => {
    const { policies, top, ...counts } = await replay(ROWS, ...TWO, ...KEYS);
    expect(counts).to.deep.include({ requests: 6, admitted: 4, denied: 2, clients: 4, deniedClients: 2 });
    expect(policies.map(({ name, denied, clients, of }) => ({ name, denied, clients, of }))).to.deep.equal([
      { name: 'ip', denied: 1, clients: 1, of: 2 },
      { name: 'account', denied: 1, clients: 1, of: 2 },
    ]);
    expect(
      top.map(({ key, requests, denied, policies: by }) => [key, requests, denied, ...by]),
    ).to.have.deep.members([
      ['account ada', 3, 1, 'account'],
      ['192.0.2.1', 4, 1, 'ip'],
    ]);
    for (const { use } of policies) expect(use.reduce((a, b) => a + b)).to.equal(2);
  });

  it('gives the verdicts of a limiter on random logs', async () => {
    const some = (of: readonly string[]) => fc.constantFrom(...of);
    const row = fc.tuple(
      some(['192.0.2.1', '192.0.2.2', '-']),
      some(['ada', 'bob', '-']),
      some(['acme', '-']),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 60 }), async (tuples) => {
        fc.pre(tuples.some((tuple) => tuple.some((word) => word !== '-')));
        const texts = ['ip=3/10s', 'account=token-bucket 2/5s by account', 'org=7/1m by org'];
        const clock = new TestClock();
        const limiter = limiterOn(memoryStore({ clock: clock.read }), { policies: texts });
        let denied = 0;
        for (const [key, account, org] of tuples.map((tuple) =>
          tuple.map((word) => (word === '-' ? undefined : word)),
        )) {
          if (key ?? account ?? org)
            denied += Number(!(await limiter.consume({ key, account, org })).allowed);
          clock.now += 1000;
        }
        const result = await replay(
          tuples.map((tuple) => tuple.join(' ')),
          ...texts.flatMap((text) => ['--policy', text]),
          ...[...KEYS, '--key', 'org=org'],
        );
        expect(result.denied).to.equal(denied);
      }),
      runs('replay', 30, 30),
    );
  });

  it('compares two sets, of which one is by fewer of the keys, and writes a report', async () => {
    const { compared } = await replay(ROWS, ...TWO, ...KEYS, '--compare', '1/1h by account');
    expect(compared).to.include({ denied: 3 });
    const folder = mkdtempSync(join(tmpdir(), 'headgate-'));
    try {
      writeFileSync(join(folder, 'access.log'), log(ROWS));
      const args = ['replay', 'access.log', ...TWO, ...KEYS, '--report', 'report.html'];
      const { code, stdout, stderr } = await headgate(args, { cwd: folder });
      expect([code, stderr]).to.deep.equal([0, '']);
      expect(stdout).to.match(/account ada +3 +1 /);
      const written = () => readFileSync(join(folder, 'report.html'), 'utf8');
      expect(written()).to.include('account ada');
      const alone = ['--policy', '2/1h by account', '--key', 'account=account', '--report', 'report.html'];
      expect((await headgate(['replay', 'access.log', ...alone], { cwd: folder })).code).to.equal(0);
      expect(written()).to.include('ada: 2 admitted, 1 denied');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('says which key is missing or useless; a single dimension takes the only key', async () => {
    const refused = async (...args: string[]) => (await run('replay', ROWS, ...args)).stderr;
    expect(await refused(...TWO)).to.match(/key, account\..*--key account=user/);
    expect(await refused(...TWO, '--key', 'account=account')).to.match(/field of the key.*--key ip/);
    expect(await refused(...TWO, ...KEYS, '--key', 'org=org')).to.match(/--key org=/);
    expect(await refused(...TWO, '--key', 'ip', '--key', 'path')).to.match(/twice for key/);
    expect(await refused(...TWO, '--key', 'account=')).to.match(/--key: empty/);
    for (const key of ['account', 'account=account'])
      expect((await replay(ROWS, '--policy', '2/1h by account', '--key', key)).denied).to.equal(1);
  });

  it('suggest proposes policies by the dimension of its key', async () => {
    const { stdout } = await run(
      'suggest',
      ROWS,
      '--key',
      'account=account',
      '--window',
      '1h',
      '--keep',
      '100',
    );
    const { together } = JSON.parse(stdout) as { together: { policies: Policy[] } };
    expect(together.policies[0]).to.include({ limit: 3, by: 'account' });
    const text = await headgate(['suggest', '-', '--key', 'account=account', '--window', '1h'], {
      stdin: Readable.from([log(ROWS)]),
    });
    expect(text.stdout).to.match(/--key '?account=account'? --policy '(1h=)?3\/1h by account'/);
    expect((await run('suggest', ROWS, ...KEYS)).stderr).to.match(/one kind of clients/);
  });
});
