// peek, reset, ban and unban change a limiter's state like the methods of the limiter.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Limiter, Policy } from 'headgate';
import { redisStore } from 'headgate/redis';
import { serverKinds, servers } from '../../../test/support/shared-servers.js';
import { clients, freshPrefix, limiterOn } from '../../../test/support/stores.js';
import { headgate, json, TELLING, told } from './cli.js';

const POLICIES: readonly Policy[] = [
  { name: 'burst', algorithm: 'token-bucket', limit: 2, window: '1h', burst: 3 },
  { name: 'day', algorithm: 'fixed-window', limit: 10, window: '1d' },
];
const AS_TEXT = ['--policy', 'burst=token-bucket 2/1h burst 3', '--policy', 'day=fixed-window 10/1d'];

const KEYS = [
  'user:42',
  '',
  '*',
  'a*b?[c]\\',
  '{a}:{b}',
  ' spaced out ',
  '-v',
  'new\nline',
  '日本',
  'k'.repeat(10_000),
];

for (const kind of serverKinds) {
  describe(`headgate on ${kind}`, () => {
    const client = clients[kind];
    let where: string[];
    let limiter: Limiter;
    /** Of the same store, with the limits of the first and another name. */
    let other: Limiter;

    beforeEach(async () => {
      const prefix = freshPrefix();
      where = ['--redis', servers[kind].url, '--prefix', prefix, '--name', 'the api'];
      const store = redisStore(client, { prefix, ...TELLING });
      const options = { ban: { after: 2, for: '1h' }, policies: POLICIES };
      limiter = limiterOn(store, { ...options, name: 'the api' });
      other = limiterOn(store, { ...options, name: 'other' });
      await told(where.slice(0, 4), 'the api', 'other');
    });

    afterEach(() => Promise.all([limiter.close(), other.close()]));

    const peek = async (key: string, ...more: string[]) =>
      (await json('peek', ...where, ...AS_TEXT, ...more, '--', key)) as Record<string, unknown>;

    for (const key of KEYS) {
      const name = JSON.stringify(key.length > 20 ? `${key.slice(0, 20)}…` : key);
      // An operator who means the empty key must confirm it.
      const typed = [...(key.trim() === '' ? ['--raw'] : []), '--', key];

      it(`peek answers for ${name} what the limiter answers`, async () => {
        for (const cost of [1, 1, 2]) await limiter.consume(key, { cost });
        const expected = await limiter.peek(key);
        const found = (await json('peek', ...where, ...AS_TEXT, ...typed)) as Record<string, unknown>;
        expect(found).to.include({ name: 'the api', key, cost: 1, allowed: true, bannedForMs: 0 });
        const verdicts = found.policies as Record<string, unknown>[];
        for (const [i, verdict] of expected.policies.entries()) {
          const { name, allowed, limit, remaining } = verdict;
          expect(verdicts[i]).to.include({ name, allowed, limit, remaining });
          expect(verdicts[i]?.resetAfterMs).to.be.within(verdict.resetAfterMs - 2000, verdict.resetAfterMs);
        }
      });

      it(`reset, ban and unban change ${name} and no other key`, async () => {
        const neighbours = [`${key}x`, 'abc', key.slice(0, -1)];
        const all = [key, ...neighbours].flatMap((who) => [[limiter, who] as const, [other, who] as const]);
        for (const [each, who] of all) await each.consume(who);
        const others = all.filter(([each, who]) => each !== limiter || who !== key);
        const spent = async () =>
          (await Promise.all(others.map(([each, who]) => each.peek(who)))).map(({ remaining }) => remaining);
        const before = await spent();

        for (const policies of [AS_TEXT, []]) {
          expect((await limiter.consume(key)).remaining).to.be.below(3);
          const reset = (await json('reset', ...where, ...policies, ...typed)) as { policies: string[] };
          expect(reset.policies).to.have.members(['burst', 'day']);
          expect((await limiter.peek(key)).remaining).to.equal(3);
          expect((await limiter.peek(key)).policies[1]?.remaining).to.equal(10);
        }

        await json('ban', ...where, ...typed, '2h');
        const banned = await limiter.consume(key);
        expect(banned.reason).to.equal('banned');
        expect(banned.retryAfterMs).to.be.within(7_100_000, 7_200_000);
        const unbanned = (await json('unban', ...where, ...typed)) as Record<string, unknown>;
        expect(unbanned).to.include({ name: 'the api', key, given: key, wasBanned: true });
        expect((await limiter.consume(key)).allowed).to.equal(true);
        expect(await spent()).to.deep.equal(before);
      });
    }

    it('peek exits with 3 if the request would be denied, and says when to come back', async () => {
      await limiter.consume('a', { cost: 3 });
      const denied = await headgate(['peek', 'a', ...where, ...AS_TEXT]);
      expect(denied).to.include({ code: 3, stderr: '' });
      expect(denied.stdout).to.match(/^a in the api, a request of cost 1: denied \(quota-exceeded\)\n/);
      expect(denied.stdout).to.match(/^burst +token-bucket +2 per 1h +0 +(30m|29m 59s) +1h 30m$/m);
      expect(denied.stdout).to.match(/^day +fixed-window +10 per 1d +7 +- +1d$/m);
      expect((await headgate(['peek', 'a', ...where, ...AS_TEXT, '--cost', '0'])).code).to.equal(0);
      const never = await peek('a', '--cost', '4');
      expect(never).to.include({ allowed: false, reason: 'cost-exceeds-capacity', retryAfterMs: null });
    });

    it('peek shows the ban, and what the policies would say without it', async () => {
      await limiter.consume('a', { cost: 2 });
      await limiter.ban('a', '1h');
      const found = await peek('a');
      expect(found).to.include({ allowed: false, reason: 'banned' });
      expect(found.bannedForMs).to.be.within(3_500_000, 3_600_000);
      expect(found.policies).to.have.nested.property('[0].remaining', 1);
      const { code, stdout } = await headgate(['peek', 'a', ...where, ...AS_TEXT]);
      expect(code).to.equal(3);
      expect(stdout).to.contain('\nbanned for ');
    });

    it('peek writes nothing', async () => {
      await limiter.consume('a');
      const dump = async () =>
        Promise.all(
          (await client.keys(`${where[3]}:*`))
            .filter((key) => !key.includes('{limiters}'))
            .sort()
            .map((key) => client.dump(key)),
        );
      const before = await dump();
      await peek('a');
      await peek('nobody');
      expect(await dump()).to.deep.equal(before);
    });

    it('a shadow denies nobody', async () => {
      await limiter.consume('a', { cost: 3 });
      const shadowed = AS_TEXT.map((text) => (text.startsWith('burst') ? `${text} shadow` : text));
      const { code, stdout } = await headgate(['peek', 'a', ...where, ...shadowed]);
      expect(code).to.equal(0);
      expect(stdout).to.match(/^burst \(shadow\) +token-bucket/m);
    });

    it('a ban by hand cuts nothing short of what the limiter remembers', async () => {
      const strict = limiterOn(redisStore(client, { prefix: where[3]!, ...TELLING }), {
        name: 'strict',
        policies: POLICIES,
        ban: { after: 1, within: '30d', for: '1h', factor: 3, max: '60d' },
      });
      await strict.consume('a', { cost: 4 });
      expect((await strict.peek('a')).retryAfterMs).to.be.within(3_500_000, 3_600_000);
      const strictly = where.with(-1, 'strict');
      await told(where.slice(0, 4), 'strict');
      await json('ban', 'a', '1ms', ...strictly);
      while ((await strict.peek('a')).reason === 'banned');
      // The next ban by denials grows from the one before, which was not made by hand.
      const next = await strict.consume('a', { cost: 4 });
      expect((await strict.peek('a')).retryAfterMs).to.be.within(10_700_000, 10_800_000);
      expect(next.allowed).to.equal(false);
      await strict.close();
    });

    it('unban forgets the denials that were counted', async () => {
      await limiter.consume('a', { cost: 4 });
      expect(await json('unban', 'a', ...where)).to.include({ wasBanned: false, denials: 1 });
      await limiter.consume('a', { cost: 4 });
      expect((await limiter.peek('a')).allowed).to.equal(true);
    });

    it('unban keeps the charges, and forgets them with --fresh', async () => {
      await limiter.consume('a', { cost: 2 });
      const { remaining } = await limiter.peek('a');
      await limiter.ban('a', '1h');
      await json('unban', 'a', ...where);
      expect((await limiter.peek('a')).remaining).to.equal(remaining);
      await limiter.ban('a', '1h');
      const fresh = (await json('unban', 'a', '--fresh', ...where)) as { policies: string[] };
      expect(fresh).to.include({ wasBanned: true });
      expect(fresh.policies).to.have.members(['burst', 'day']);
      expect((await limiter.peek('a')).remaining).to.equal(remaining + 2);
    });

    it('tells people in a line what was done', async () => {
      await limiter.consume('a');
      const said = async (...args: string[]) => (await headgate([...args, ...where])).stdout;
      expect(await said('ban', 'a', '90m')).to.match(
        /^a is banned in the api for 1h 30m, until 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC\.\n$/,
      );
      expect(await said('unban', 'a')).to.match(
        /^a is no longer banned in the api; (1h 30m|1h 29m|90m) of the ban were left\. Its charges stay, so the next request may be denied; --fresh forgets them, too\.\n$/,
      );
      expect(await said('reset', 'a')).to.match(
        /^The charges of a in the api are forgotten: (burst, day|day, burst)\.\n$/,
      );
      expect(await said('reset', 'a')).to.equal('a had no charges in the api.\n');
      await limiter.consume('a');
      expect(await said('unban', 'a', '--fresh')).to.match(
        /^There was no ban of a in the api\. The charges of a in the api are forgotten: (burst, day|day, burst)\.\n$/,
      );
      expect(await said('unban', 'a', '--fresh')).to.equal(
        'There was no ban of a in the api. a had no charges in the api.\n',
      );
      expect(await said('unban', '10.0.0.0/30')).to.equal(
        "Of 4 keys of 10.0.0.0/30, 0 were banned in the api. The keys' charges stay, so the next request may be denied; --fresh forgets them, too.\n",
      );
    });

    it('refuses a key that is empty or blank, and notes that are', async () => {
      for (const key of ['', ' ', '\t']) {
        for (const args of [
          ['ban', key, '1h'],
          ['unban', key],
          ['peek', key],
          ['reset', key],
        ]) {
          const { code, stderr } = await headgate([...args, ...where]);
          expect(code, args[0]).to.equal(2);
          expect(stderr).to.match(/^headgate: key: .* is empty\. .*--raw/);
        }
      }
      for (const note of [
        ['--by', ''],
        ['--by', ' '],
        ['--reason', ''],
      ]) {
        const { code, stderr } = await headgate(['ban', 'a', '1h', ...where, ...note]);
        expect(code).to.equal(2);
        expect(stderr).to.match(/(by|reason): " ?" is not valid/);
      }
      const blank = await headgate(['ban', 'a', '1h', ...where], { env: { HEADGATE_BY: ' ', USER: 'ada' } });
      expect(blank).to.include({ code: 2 });
      // An empty variable counts as unset.
      const env = { HEADGATE_BY: '', USER: 'ada' };
      const { stdout } = await headgate(['ban', 'a', '1h', '--json', ...where], { env });
      expect(JSON.parse(stdout)).to.include({ by: 'ada' });
    });

    it('a ban for less than is left is done, and said', async () => {
      await json('ban', 'a', '2h', ...where);
      const shorter = await headgate(['ban', 'a', '2s', ...where]);
      expect(shorter).to.include({ code: 0 });
      expect(shorter.stderr).to.match(/warning: .*"the api", for up to (2h|1h 59m \d+s|1h 60m) more/);
      expect((await headgate(['ban', 'a', '2h', ...where])).stderr).to.equal('');
    });

    it('an unban that ended nothing is not logged', async () => {
      const log = async () => (await headgate(['bans', 'log', ...where])).stdout;
      await json('unban', 'a', ...where);
      await json('unban', '10.0.0.0/30', ...where);
      expect(await log()).to.equal('There are no changes of bans by hand lately.\n');
      await limiter.consume('a', { cost: 4 });
      await json('unban', 'a', ...where);
      expect(await log()).to.match(/unban/);
    });

    it('reset takes several limiters, or all with a record of the key', async () => {
      const server = where.slice(0, 4);
      const charged = async () => [(await limiter.peek('a')).remaining, (await other.peek('a')).remaining];
      for (const names of [['--all-limiters'], ['--name', 'the api', '--name', 'other']]) {
        await limiter.consume('a');
        await other.consume('a');
        const found = (await json('reset', 'a', ...server, ...names)) as { name: string }[];
        expect(found.map(({ name }) => name)).to.have.members(['the api', 'other']);
        expect(await charged()).to.deep.equal([3, 3]);
      }
      await other.consume('b');
      expect(await json('reset', 'b', ...server, '--all-limiters')).to.include({ name: 'other' });
      const { stdout } = await headgate(['reset', 'c', ...server, '--all-limiters']);
      expect(stdout).to.equal('No limiter has a record of c.\n');
    });

    it('reset of a network takes every key in it, in all limiters, and names what stays', async () => {
      const server = where.slice(0, 4);
      for (const key of ['10.9.0.1', '10.9.0.2', '10.8.0.1']) await limiter.consume(key);
      await other.consume('10.9.0.1');
      const network = ['reset', '10.9.0.0/24', ...server, '--all-limiters'];
      const found = (await json(...network)) as Record<string, unknown>[];
      expect(
        found.map(({ name, network: of, keys, charged }) => [name, of, keys, charged]),
      ).to.have.deep.members([
        ['the api', '10.9.0.0/24', 256, 2],
        ['other', '10.9.0.0/24', 256, 1],
      ]);
      expect((await limiter.peek('10.9.0.2')).remaining).to.equal(3);
      expect((await other.peek('10.9.0.1')).remaining).to.equal(3);
      expect((await limiter.peek('10.8.0.1')).remaining).to.equal(2);
      const nothing = 'No limiter has a record of a key of 10.9.0.0/24 by key.\n';
      expect((await headgate(network)).stdout).to.equal(nothing);
      await limiter.consume('10.9.0.7');
      expect((await headgate(network)).stdout).to.match(
        /^The charges of 1 of 256 keys of 10\.9\.0\.0\/24 in the api are forgotten: .*\n$/,
      );
    });

    it('reset leaves a ban alone, and says so', async () => {
      await limiter.consume('a');
      await limiter.ban('a', '1h');
      for (const policies of [[], AS_TEXT]) {
        const { stdout } = await headgate(['reset', 'a', ...where, ...policies]);
        expect(stdout).to.match(/still banned, for (1h|59m \d+s)\. .*headgate unban a --name 'the api'\.\n$/);
        const found = (await json('reset', 'a', ...where, ...policies)) as { bannedForMs: number };
        expect(found.bannedForMs).to.be.within(3_500_000, 3_600_000);
      }
      expect((await limiter.peek('a')).reason).to.equal('banned');
    });

    it('unban says what was there: the ban, the denials, the ban before', async () => {
      await limiter.consume('a', { cost: 4 });
      const { stdout } = await headgate(['unban', 'a', ...where]);
      expect(stdout).to.match(/ a .* the api\. .* 1 denial /);
      for (let i = 0; i < 2; i++) await limiter.consume('a', { cost: 4 });
      const ended = (await json('unban', 'a', ...where)) as Record<string, unknown>;
      expect(ended).to.include({ wasBanned: true, denials: 0, lastBanMs: 3_600_000 });
      expect(ended.bannedForMs).to.be.within(3_500_000, 3_600_000);
      expect(await json('unban', 'a', ...where)).to.include({ wasBanned: false, denials: 0, lastBanMs: 0 });
    });

    describe('addresses are the keys that servers make of them', () => {
      const key = '2001:db8:1::/56';
      const forms = [
        '2001:db8:1:2::5',
        '2001:DB8:0001:0002:0:0:0:5',
        '2001:db8:1:2::5%eth0',
        key,
        '2001:db8:1:3::/56',
      ];

      it('of IPv6 the network; any notation is one key, which is printed', async () => {
        for (const form of forms) {
          await limiter.consume(key, { cost: 2 });
          const banned = await headgate(['ban', form, '1h', ...where]);
          expect(banned.stdout, form).to.contain(
            form === key ? `${key} is banned` : `${key} (the key of ${form}) is`,
          );
          expect((await limiter.peek(key)).reason).to.equal('banned');
          expect(await peek(form)).to.include({ key, given: form, allowed: false, stored: true });
          expect(await json('unban', form, ...where)).to.include({ key, given: form, wasBanned: true });
          for (const policies of [[], AS_TEXT]) {
            await limiter.consume(key);
            expect(await json('reset', form, ...where, ...policies)).to.include({ key, given: form });
            expect((await limiter.peek(key)).remaining).to.equal(3);
          }
        }
      });

      it('--ipv6-subnet as in the limiter, --raw for the literal key', async () => {
        const keyOf = async (...args: string[]) =>
          ((await json('ban', '2001:db8:1:2::5', '1h', ...where, ...args)) as { key: string }).key;
        expect(await keyOf('--ipv6-subnet', '64')).to.equal('2001:db8:1:2::/64');
        expect(await keyOf('--ipv6-subnet', '128')).to.equal('2001:db8:1:2::5');
        expect(await keyOf('--raw')).to.equal('2001:db8:1:2::5');
        expect(await json('ban', '::ffff:10.0.0.1', '1h', ...where)).to.include({ key: '10.0.0.1' });
        expect(await json('ban', '10.0.0.0/33', '1h', ...where, '--raw')).to.include({ key: '10.0.0.0/33' });
      });

      it('a network is all keys in it', async () => {
        const args = ['10.7.3.9/24', ...where];
        const banned = await json('ban', '10.7.3.9/24', '1h', ...where);
        expect(banned).to.deep.equal({
          name: 'the api',
          network: '10.7.3.9/24',
          keys: 256,
          bannedForMs: 3_600_000,
          by: null,
          reason: null,
        });
        for (const [key, reason] of [
          ['10.7.3.0', 'banned'],
          ['10.7.3.255', 'banned'],
          ['10.7.4.0', undefined],
        ]) {
          await limiter.consume(key!, { cost: 1 });
          expect((await limiter.peek(key!)).reason, key).to.equal(reason);
        }
        expect((await headgate(['reset', ...args])).stdout).to.match(
          / 256 of them are still banned, for up to /,
        );
        expect((await headgate(['unban', ...args])).stdout).to.equal(
          'Of 256 keys of 10.7.3.9/24, 256 were banned in the api. These bans have ended. ' +
            "The keys' charges stay, so the next request may be denied; --fresh forgets them, too.\n",
        );
        for (const policies of [[], AS_TEXT]) {
          for (const key of ['10.7.3.7', '10.7.3.8', '10.7.4.0']) await limiter.consume(key);
          await json('reset', ...args, ...policies);
          expect((await limiter.peek('10.7.3.8')).remaining).to.equal(3);
          expect((await limiter.peek('10.7.4.0')).remaining).to.be.below(3);
        }
        const wide = (await headgate(['ban', '2001:db8::/52', '1h', ...where])).stdout;
        expect(wide).to.match(/^16 keys of 2001:db8::\/52 are banned/);
        expect((await limiter.peek('2001:db8:0:f00::/56')).reason).to.equal('banned');
      });

      it('what is no key of the servers is refused', async () => {
        const refused: [string, RegExp][] = [
          ['10.0.0.0/33', /key: "10\.0\.0\.0\/33" is not valid.*--raw/],
          ['300.1.1.1', /"300\.1\.1\.1" is not valid/],
          ['2001:db8:1:2::/64', /is a part of the key 2001:db8:1::\/56\. .*--ipv6-subnet/],
          ['10.0.0.0/8', /has 16,777,216 keys, and more than 65,536 are refused/],
          ['::/0', /are refused/],
        ];
        for (const [key, says] of refused) {
          const { code, stdout, stderr } = await headgate(['ban', key, '1h', ...where]);
          expect({ code, stdout }).to.deep.equal({ code: 2, stdout: '' });
          expect(stderr).to.match(says);
        }
        const { code, stderr } = await headgate(['peek', '10.0.0.0/24', ...where, ...AS_TEXT]);
        expect(code).to.equal(2);
        expect(stderr).to.match(/has 256 keys\. Pass an address/);
      });
    });

    it('peek says whether anything is stored', async () => {
      expect(await peek('a')).to.include({ allowed: true, stored: false });
      const { stdout } = await headgate(['peek', 'a', ...where, ...AS_TEXT]);
      expect(stdout).to.match(/allowed\nNothing is stored: .* their charge was given back: /);
      await limiter.consume('a');
      expect(await peek('a')).to.include({ stored: true });
      expect((await headgate(['peek', 'a', ...where, ...AS_TEXT])).stdout).to.not.contain('Nothing');
      const mistyped = where.with(-1, 'the-api');
      const unknown = await headgate(['peek', 'a', ...mistyped, ...AS_TEXT, '--json']);
      expect(unknown.code).to.equal(5);
      expect(JSON.parse(unknown.stdout)).to.include({ allowed: true, stored: false });
      await limiter.ban('b', '1h');
      expect(await peek('b')).to.include({ stored: true });
    });

    it('takes policies from a file: an array, or limiters by name', async () => {
      const directory = mkdtempSync(join(tmpdir(), 'headgate-cli-'));
      try {
        await limiter.consume('a', { cost: 2 });
        const contents = [
          POLICIES,
          { 'the api': POLICIES, login: { limit: 5, window: '1m', ban: { after: 3 } } },
        ];
        for (const content of contents) {
          writeFileSync(join(directory, 'limits.json'), JSON.stringify(content));
          const args = ['peek', 'a', ...where, '--policies', 'limits.json', '--json'];
          const { code, stdout } = await headgate(args, { cwd: directory, env: {} });
          expect(code, stdout).to.equal(0);
          expect(JSON.parse(stdout)).to.have.nested.property('policies[0].remaining', 1);
        }
      } finally {
        rmSync(directory, { recursive: true });
      }
    });
  });
}
