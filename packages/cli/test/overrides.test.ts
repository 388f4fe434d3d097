// Limits changed from the command line, in another process than the one that decides.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { redisStore } from 'headgate/redis';
import { serverKinds, servers } from '../../../test/support/shared-servers.js';
import { clients, freshPrefix, limiterOn } from '../../../test/support/stores.js';
import { headgate, json, jsonLines, TELLING, told } from './cli.js';

for (const kind of serverKinds) {
  describe(`overrides on the command line, on ${kind}`, () => {
    const open = async (options: object) => {
      const prefix = freshPrefix();
      const store = redisStore(clients[kind], { prefix, ...TELLING });
      const limiter = limiterOn(store, { name: 'api', overrides: true, ...options } as never);
      const where = ['--redis', servers[kind].url, '--prefix', prefix];
      await limiter.consume('ada');
      await told(where, 'api');
      const close = async () => {
        await limiter.close();
        await store.close?.();
      };
      return { limiter, where, of: ['--name', 'api', '--by', 'eve', ...where], close };
    };

    it('changes a key, lists it, logs it, and takes it back', async () => {
      const { limiter, where, of, close } = await open({ limit: 5, window: '1h' });
      const done = await json('override', 'ada', '1000/1h', '--for', '1d', '--reason', 'launch', ...of);
      expect(done).to.deep.include({
        name: 'api',
        key: 'ada',
        change: '1000/1h',
        by: 'eve',
        replaced: false,
      });
      expect(await limiter.consume('ada')).to.include({ limit: 1000, remaining: 998 });
      const [listed] = await jsonLines('overrides', '--name', 'api', ...where);
      expect(listed).to.deep.include({
        name: 'api',
        key: 'ada',
        change: '1000/1h',
        by: 'eve',
        reason: 'launch',
      });
      const text = (await headgate(['overrides', ...where])).stdout;
      expect(text).to.match(/^scope +key +limits .*\napi +ada +1000\/1h +\d{4}-.* eve +launch/);
      expect(await json('override', 'ada', '--remove', ...of)).to.deep.include({ removed: true });
      expect(await limiter.consume('ada')).to.include({ limit: 5, remaining: 2 });
      expect(await json('override', 'ada', '--remove', ...of)).to.deep.include({ removed: false });
      expect(await jsonLines('overrides', ...where)).to.deep.equal([]);
      expect((await headgate(['overrides', ...where])).stdout).to.equal('No key has limits of its own.\n');
      const log = await jsonLines('overrides', 'log', '--name', 'api', ...where);
      expect(log.map(({ action, by, key }) => [action, by, key])).to.deep.equal([
        ['remove', 'eve', 'ada'],
        ['override', 'eve', 'ada'],
      ]);
      expect(
        (await headgate(['overrides', 'log', '--limit', '1', ...where])).stdout.trim().split('\n'),
      ).to.have.length(2);
      await close();
    });

    it('peek, list and limits show the limits in force', async () => {
      const { limiter, where, of, close } = await open({
        policies: ['5/1h'],
        tiers: { pro: ['50/1h'] },
      });
      for (const key of ['bob', 'eva', 'kim']) await limiter.consume(key, { cost: 5 });
      await headgate(['override', 'bob', '20/1h', '--reason', 'launch', ...of]);
      await headgate(['override', 'eva', '--tier', 'pro', ...of]);
      const named = ['--name', 'api', ...where];
      const bob = await json('peek', 'bob', ...named);
      expect(bob).to.deep.nested.include({
        allowed: true,
        'override.change': '20/1h',
        'override.by': 'eve',
        'override.all': false,
        'policies[0].limit': 20,
        'policies[0].remaining': 15,
      });
      expect((await headgate(['peek', 'bob', ...named])).stdout).to.match(
        /limits of its own, .*: 20\/1h \(eve: launch\)/,
      );
      expect(await json('peek', 'eva', ...named)).to.deep.nested.include({ 'policies[0].limit': 50 });
      expect(await json('peek', 'kim', ...named)).to.deep.include({ allowed: false, override: null });
      const found = await jsonLines('list', '--all', ...named);
      const told = found.map(({ kind, key, overridden }) => [key, kind, overridden].join(' '));
      expect(told.sort()).to.deep.equal([
        'ada admitted false',
        'bob admitted true',
        'eva admitted true',
        'kim limited false',
      ]);
      const list = (await headgate(['list', '--all', ...named])).stdout;
      expect(list).to.match(/bob +admitted +default: 5 of 20 used \(25 %\) \(an override is in force\)/);
      expect((await headgate(['limits', ...where])).stdout).to.match(/ of 2 keys /);
      await headgate(['override', '--all', '9/1h', ...of]);
      expect((await headgate(['limits', ...where])).stdout).to.match(/ of 2 keys, of all: 9\/1h /);
      const [api] = ((await json('limits', ...where)) as { limiters: object[] }).limiters;
      expect(api).to.deep.include({ overridden: { keys: 2, all: '9/1h' } });
      expect(await json('peek', 'kim', ...named)).to.deep.nested.include({
        allowed: true,
        'override.all': true,
        'policies[0].remaining': 4,
      });
      await close();
    });

    it('an override of another window does not confuse the commands, and a reset leaves it', async () => {
      const { limiter, of, where, close } = await open({ limit: 5, window: '1m', ban: {} });
      const named = ['--name', 'api', ...where];
      const spend = async (key: string) => {
        for (let i = 0; i < 3; i++) await limiter.consume(key);
      };
      await limiter.override('eva', '2/1h');
      await spend('eva');
      // The limiter has published itself again.
      await new Promise((resolve) => setTimeout(resolve, 100));
      const [api] = ((await json('limits', ...where)) as { limiters: { configurations: object[] }[] })
        .limiters;
      expect(api!.configurations).to.have.length(1);
      expect(api!.configurations[0]).to.deep.include({ policies: ['5/1m'] });
      const eva = { key: 'eva', kind: 'limited', overridden: true };
      expect(await jsonLines('list', '--limited', ...named)).to.have.length(1);
      expect((await jsonLines('list', '--limited', ...named))[0]).to.deep.include(eva);
      expect(await json('peek', 'eva', ...named)).to.deep.include({ allowed: false, stored: true });
      expect(await json('reset', 'eva', ...named)).to.deep.include({ policies: ['default'] });
      expect(await json('peek', 'eva', ...named)).to.deep.include({ allowed: true });
      await spend('eva');
      expect(await json('reset', 'eva', '--scan', ...named)).to.deep.include({ policies: ['default'] });
      expect(await limiter.peek('eva')).to.include({ limit: 2, remaining: 2 });
      await json('override', '--all', '1/2h', ...of);
      await new Promise((resolve) => setTimeout(resolve, 1500));
      await spend('bob');
      const [bob] = await jsonLines('list', '--limited', ...named);
      expect(bob).to.deep.include({ key: 'bob', kind: 'limited', overridden: true });
      expect(await json('reset', 'bob', ...named)).to.deep.include({ policies: ['default'] });
      expect(await limiter.peek('bob')).to.include({ limit: 1, remaining: 1 });
      await close();
    });

    it('several policies, tiers, dimensions, all keys', async () => {
      const { limiter, of, where, close } = await open({
        policies: [
          { name: 'minute', limit: 5, window: '1m' },
          { name: 'org', algorithm: 'token-bucket', limit: 20, window: '1h', by: 'org' },
        ],
        tiers: { pro: ['minute=100/1m'] },
      });
      await json('override', 'ada', 'minute=70/1m', ...of);
      await json('override', 'acme', 'org=token-bucket', '200/1h', '--dimension', 'org', ...of);
      expect(
        (await limiter.peek({ key: 'ada', org: 'acme' })).policies.map(({ limit }) => limit),
      ).to.deep.equal([70, 200]);
      await json('override', 'ada', '--tier', 'pro', ...of);
      expect((await limiter.peek('ada')).limit).to.equal(100);
      await json('override', 'ada', 'minute=false', ...of);
      expect(
        (await limiter.peek({ key: 'ada', org: 'acme' })).policies.map(({ limit }) => limit),
      ).to.deep.equal([200]);
      expect(await json('override', '--all', 'minute=9/1m', ...of)).to.deep.include({ all: true });
      expect((await headgate(['overrides', ...where])).stdout).to.match(/all keys/);
      await new Promise((resolve) => setTimeout(resolve, 2000));
      expect((await limiter.peek('bob')).limit).to.equal(9);
      expect(await json('override', '--all', '--remove', ...of)).to.deep.include({
        all: true,
        removed: true,
      });
      await close();
    });

    it('many at once from a file, of which nothing is stored if a line is wrong', async () => {
      const { limiter, of, where, close } = await open({ limit: 5, window: '1h' });
      const directory = mkdtempSync(join(tmpdir(), 'headgate-'));
      const file = join(directory, 'customers.txt');
      writeFileSync(file, '# customers\nada 10/1h\n\nbob 0/1h\n');
      const wrong = await headgate(['override', '--file', file, ...of]);
      expect(wrong.code).to.equal(2);
      expect((await limiter.peek('ada')).limit).to.equal(5);
      writeFileSync(file, 'ada 10/1h\n{"key":"bob","change":{"limit":20}}\n');
      expect((await headgate(['override', '--file', file, '--for', '1h', ...of])).stdout).to.match(
        /2 keys are changed/,
      );
      expect((await limiter.peek('ada')).limit).to.equal(10);
      expect((await limiter.peek('bob')).limit).to.equal(20);
      await limiter.overrideAll({ limit: 7 });
      const lines = (await headgate(['overrides', '--json', ...where])).stdout;
      writeFileSync(file, `${lines}{"name":"login","key":"eva","change":"1/1h"}\n`);
      const other = await headgate(['override', '--file', file, ...of]);
      expect([other.code, /line 4: .* limiter "login"/.test(other.stderr)]).to.deep.equal([2, true]);
      // A line without a change would end the override.
      writeFileSync(file, 'ada 11/1h\n{"key":"bob"}\n');
      const missing = await headgate(['override', '--file', file, ...of]);
      expect([missing.code, /line 2: .* no "change"/.test(missing.stderr)]).to.deep.equal([2, true]);
      expect((await limiter.peek('bob')).limit).to.equal(20);
      writeFileSync(file, lines);
      expect((await headgate(['override', '--file', file, ...of])).code).to.equal(0);
      // A backup whose first override ended meanwhile.
      const backup = readFileSync(file, 'utf8');
      const old = { key: 'old', change: { limit: 3 }, until: '2026-01-01T00:00:00.000Z' };
      writeFileSync(file, `  # comment\n${JSON.stringify(old)}\n${backup}`);
      const rest = await headgate(['override', '--file', file, ...of]);
      expect(rest.code).to.equal(0);
      expect(rest.stderr).to.contain('1 override of the file ended meanwhile, and was left out');
      writeFileSync(file, backup);
      expect(await jsonLines('overrides', ...where)).to.have.length(3);
      writeFileSync(file, '{"key":"ada","change":"9/1h","by":"grace","reason":"INC-7"}\nbob 9/1h\n');
      await json('override', '--file', file, '--reason', 'a test', ...of);
      expect(await limiter.overrideOf('ada')).to.include({ by: 'grace', reason: 'INC-7' });
      expect(await limiter.overrideOf('bob')).to.include({ by: 'eve', reason: 'a test' });
      writeFileSync(file, '{"key":"ada","by":"grace"}\n');
      await json('override', '--file', file, '--remove', ...of);
      expect((await jsonLines('overrides', 'log', ...where))[0]).to.include({ key: 'ada', by: 'eve' });
      writeFileSync(file, lines);
      await json('override', '--file', file, '--remove', ...of);
      for (const key of ['bob', undefined]) expect(await limiter.overrideOf(key)).to.equal(undefined);
      // The file that began the overrides also ends them.
      writeFileSync(file, 'ada 9/1h\nbob 9/1h\n');
      await json('override', '--file', file, ...of);
      expect((await headgate(['override', '--file', file, '--remove', ...of])).code).to.equal(0);
      for (const key of ['ada', 'bob']) expect(await limiter.overrideOf(key)).to.equal(undefined);
      rmSync(directory, { recursive: true });
      await close();
    });

    const wrong: [args: string[], code: number, message: RegExp][] = [
      [['ada'], 2, /the policy is missing/],
      [[], 2, /the key is missing/],
      [['ada', '1000'], 2, /100\/1m/],
      [['ada', '10/1h', '--for', '10'], 2, /10 has no unit/],
      [['ada', '10/1h', '--for', '1h', '--until', '2030-01-01'], 2, /one of them/],
      [['ada', '10/1h', '--tier', 'pro'], 2, /--tier and a policy/],
      [['ada', '--tier', 'pro'], 2, /no tier/],
      [['ada', '10/1h', '--remove'], 2, /--remove/],
      [['ada', '{}'], 2, /Pass a policy \(1000\/1m or unlimited\), by name .*, or --tier\.\n/],
      [['ada', '{"tier":"pro","limit":3}'], 2, /Pass --tier alone\./],
      [['ada', '10/1h', '--for', '400d'], 2, /--for: "400d" .* Pass a number with a unit, up to 366d: /],
      [['ada', '10/1h', '--until', 'soon'], 2, /--until: "soon" .* such as 2030-01-31T12:00Z\.\n/],
      [['ada', '10/1h', '--until', '2020-01-01'], 2, /--until: .*2020-01-01.*2030-01-31T12:00Z/],
      [['ada', '10/1h', '--reason', ' '], 2, /--reason: /],
      [['ada', '10/1h', '--timeout', '0'], 2, /--timeout: "0" .*1ms to 1m/],
      [['ada', 'minute=10/1h'], 2, /no policy named "minute"/],
      [['ada', '10/1h', '--dimension', 'org'], 2, /no policy of this limiter is by 'org'/],
    ];
    it('a file of which a line does not fit the limiter tells which', async () => {
      const { of, close } = await open({ limit: 5, window: '1h' });
      const file = join(mkdtempSync(join(tmpdir(), 'headgate-')), 'customers.txt');
      writeFileSync(file, 'ada 9/1h\nbob 9/1h shadow\n');
      const { code, stderr } = await headgate(['override', '--file', file, ...of]);
      expect([code, /customers\.txt, line 2: .*shadow/.test(stderr)]).to.deep.equal([2, true]);
      const twice = await headgate(['override', 'ada', 'default=9/1h', 'default=8/1h', ...of]);
      expect(twice.stderr).to.contain('"default" appears twice');
      await close();
    });

    it('refuses what is typed wrongly', async () => {
      const { of, where, close } = await open({ limit: 5, window: '1h' });
      for (const [args, code, message] of wrong) {
        const outcome = await headgate(['override', ...args, ...of]);
        expect(outcome.code, args.join(' ')).to.equal(code);
        expect(outcome.stderr, args.join(' ')).to.match(message);
      }
      expect(await jsonLines('overrides', ...where)).to.deep.equal([]);
      expect(await headgate(['override', 'ada', '1/1h', ...where, '--name', 'nope'])).to.include({ code: 5 });
      await close();
    });

    it('--dry-run shows tiers with lower and higher limits and bans to expect, and changes nothing', async () => {
      const { limiter, of, where, close } = await open({
        policies: ['100/1m'],
        tiers: { pro: ['1000/1m'], trial: ['1/1m'] },
        ban: { after: 5, within: '5m', for: '10m' },
      });
      const run = (...args: string[]) => headgate(['override', ...args, '--dry-run', ...of]);
      const all = await run('--all', '30/1m');
      expect(all.code).to.equal(0);
      expect(all.stdout).to.equal('All keys would have 30/1m in api.\nNothing was changed (1 change).\n');
      expect(all.stderr)
        .to.match(
          /tier pro: default 1000\/1m -> 30\/1m \(lower\); tier trial: default 1\/1m -> 30\/1m \(HIGHER\)/,
        )
        .and.match(/bans a key after 5 denials in 5m/);
      await limiter.override('ada', '9/1m');
      expect((await run('ada', '8/1m')).stdout).to.match(
        /^ada would have 8\/1m in place of 9\/1m in api\.\n/,
      );
      expect((await run('ada', '--remove')).stdout).to.match(
        /^ada would have the configured limits again, in place of 9\/1m in api\.\n/,
      );
      expect((await run('bob', '--remove')).stdout).to.match(/^bob has no override in api\.\n/);
      expect(await json('override', 'ada', '9/1m', '--dry-run', ...of)).to.deep.equal({
        ...{ name: 'api', key: 'ada', change: '9/1m', effect: 'same', before: '9/1m', dryRun: true },
      });
      expect(await run('ada', 'hour=9/1h')).to.include({ code: 2 });
      expect(await jsonLines('overrides', ...where)).to.have.length(1);
      expect(await limiter.overrideOf('ada')).to.include({ change: '9/1m' });
      await close();
    });

    it('names the dimension of a policy, and proposes no dimension that would be refused', async () => {
      const policies = ['address=100/1m', 'account=100/1m by account'];
      const { limiter, of, where, close } = await open({ policies, ban: {} });
      for (const key of ['10.1.0.90', 'a90']) {
        const { code, stderr } = await headgate(['override', key, 'account=600/1m', ...of]);
        expect(stderr).to.contain(
          'the policy "account" counts by account, and not by key. Set --dimension account.',
        );
        expect(code).to.equal(2);
      }
      const other = await headgate(['override', 'a', 'address=9/1m', '--dimension', 'account', ...of]);
      expect(other.stderr).to.contain('counts by key, and not by account. Omit --dimension.');
      const refused = await limiter.override('a90', { account: '9/1m' }).catch((error: Error) => error);
      expect((refused as Error).message).to.contain("Pass a key of account: { account: 'ada' }.");
      const unknown = await headgate(['unban', 'a90', ...where, '--name', 'apii']);
      expect(unknown.code).to.equal(5);
      expect(unknown.stderr).to.contain('no limiter called "apii"');
      await close();
    });

    it('proposes the changes of several policies in the syntax of the command line', async () => {
      const { of, close } = await open({ policies: ['burst=5/1s', 'hour=100/1h'] });
      const { code, stderr } = await headgate(['override', 'ada', '10/1h', ...of]);
      expect(code).to.equal(2);
      expect(stderr).to.contain('burst=5/1s hour=100/1h').and.not.contain('{');
      const done = await headgate(['override', 'ada', 'burst=10/1s', 'hour=200/1h', ...of]);
      expect(done.stdout).to.contain('ada has burst=10/1s hour=200/1h in api,');
      await close();
    });

    it('announces bans that a lower limit may cause, and names and ends those that it caused', async () => {
      const ban = { after: 2, within: '5m', for: '10m' };
      const { limiter, where, of, close } = await open({ limit: 100, window: '1m', ban });
      const higher = await headgate(['override', '--all', '200/1m', ...of]);
      expect(higher.stderr).to.equal('');
      const lower = await headgate(['override', '--all', '1/1m', ...of]);
      expect(lower.stderr).to.contain('"api" bans a key after 2 denials in 5m, for 10m');
      await limiter.ban('mallory', '1h', { by: 'eve' });
      await new Promise((resolve) => setTimeout(resolve, 1500));
      for (let i = 0; i < 5; i++) await limiter.consume('trudy');
      const removed = await headgate(['override', '--all', '--remove', ...of]);
      expect(removed.stdout).to.match(
        /configured limits again in api\.\nStill banned: trudy \([\w. ]+ left\)\.\n/,
      );
      expect(removed.stderr).to.contain(
        'a key is still banned by denials since the override began. Set --unban',
      );
      // The override has ended, and its bans can still be ended.
      expect(await json('override', '--all', '--remove', '--unban', ...of)).to.nested.include({
        ...{ removed: false, 'unbanned.length': 1, 'unbanned[0].key': 'trudy' },
      });
      expect((await limiter.peek('trudy')).reason).not.to.equal('banned');
      expect((await limiter.peek('mallory')).reason).to.equal('banned');
      const [logged] = await jsonLines('log', '--action', 'unban', ...where);
      expect(logged).to.include({ key: 'trudy', by: 'eve' });
      expect((await headgate(['override', 'ada', '5/1m', '--unban', ...of])).code).to.equal(2);
      await close();
    });

    it('names only the bans of the key whose override ends', async () => {
      const ban = { after: 2, within: '5m', for: '10m' };
      const { limiter, of, close } = await open({ limit: 1, window: '1m', ban });
      for (let i = 0; i < 5; i++) await limiter.consume('earlier');
      await json('override', 'ada', 'sliding-window', '1/1h', ...of);
      for (const key of ['ada', 'bob']) for (let i = 0; i < 5; i++) await limiter.consume(key);
      const { stdout } = await headgate(['override', 'ada', '--remove', ...of]);
      expect(stdout).to.contain('Still banned: ada (').and.not.contain('bob').and.not.contain('earlier');
      await close();
    });

    it('refuses a limiter that reads none', async () => {
      const { of, close } = await open({ limit: 5, window: '1h', overrides: false });
      const { code, stderr } = await headgate(['override', 'ada', '1/1h', ...of]);
      expect(code).to.equal(5);
      expect(stderr).to.match(/overrides: true/);
      await close();
    });
  });
}
