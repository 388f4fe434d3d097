// Bans are written as lines, and read back, from files and from standard input.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { expect } from 'chai';
import type { Limiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { serverKinds, servers } from '../../../test/support/shared-servers.js';
import { clients, freshPrefix, limiterOn } from '../../../test/support/stores.js';
import { headgate, TELLING, told } from './cli.js';

const HOUR = 3_600_000;
const KEYS = ['a', '', ' b ', '{c}:*', '日本', '-d', '#e', '2001:db8::/56', 'k'.repeat(10_000)];
const NAMES = ['api', 'POST /login: *', 'n'.repeat(200)];

for (const kind of serverKinds) {
  describe(`headgate bans on ${kind}`, () => {
    const client = clients[kind];
    let prefix: string;
    let limiters: Limiter[];

    const on = (name: string): Limiter =>
      limiterOn(redisStore(client, { prefix, ...TELLING }), {
        name,
        limit: 9,
        window: '1h',
        ban: {},
      });
    const bans = (args: readonly string[], stdin = '') =>
      headgate(['bans', ...args, '--redis', servers[kind].url, '--prefix', prefix], {
        stdin: Readable.from([Buffer.from(stdin)]),
      });
    const imported = async (stdin: string, ...args: string[]) => {
      const { code, stdout, stderr } = await bans(['import', '-', '--json', ...args], stdin);
      expect(code, stderr).to.equal(0);
      return JSON.parse(stdout) as Record<string, unknown>;
    };
    const isBanned = async (limiter: Limiter, key: string) => (await limiter.peek(key)).reason === 'banned';

    const stateKeys = async () => {
      const keys = await client.keys(`${prefix}:*`);
      return keys.filter((key) => !key.includes('{limiters}') && !key.includes(':options:'));
    };
    const start = async () => {
      prefix = freshPrefix();
      limiters = NAMES.map(on);
      await told(['--redis', servers[kind].url, '--prefix', prefix], ...NAMES);
    };
    beforeEach(start);
    afterEach(() => Promise.all(limiters.map((limiter) => limiter.close())));

    it('what is exported can be imported elsewhere: all scopes, any key, until the same time', async () => {
      for (const [i, limiter] of limiters.entries()) {
        for (const key of KEYS) await limiter.ban(key, HOUR * (i + 1));
        await limiter.consume('counted', { cost: 9 });
      }
      const { code, stdout } = await bans(['export']);
      expect(code).to.equal(0);
      const count = NAMES.length * KEYS.length;
      expect(stdout.trim().split('\n')).to.have.length(count);
      expect((await bans(['export', '--name', 'api'])).stdout.trim().split('\n')).to.have.length(KEYS.length);

      await Promise.all(limiters.map((limiter) => limiter.close()));
      await start();
      expect(await imported(stdout, '--dry-run')).to.include({ dryRun: true, banned: count });
      expect(await stateKeys()).to.deep.equal([]);
      expect(await imported(stdout)).to.deep.equal({
        dryRun: false,
        banned: count,
        already: 0,
        over: 0,
        others: 0,
      });
      for (const [i, limiter] of limiters.entries()) {
        for (const key of KEYS) {
          const { reason, retryAfterMs } = await limiter.peek(key);
          expect(reason).to.equal('banned');
          expect(retryAfterMs).to.be.within(HOUR * (i + 1) - 20_000, HOUR * (i + 1) + 1000);
        }
      }
      expect(await imported(stdout)).to.include({ banned: 0, already: count });
    });

    it('the bans in the output of list --json can be imported; its other lines are skipped', async () => {
      const [api] = limiters as [Limiter];
      await api.ban('a', '1h');
      await api.consume('b');
      const listed = await headgate([
        'list',
        '--all',
        '--json',
        '--redis',
        servers[kind].url,
        '--prefix',
        prefix,
      ]);
      await api.unban('a');
      expect(await imported(listed.stdout)).to.include({ banned: 1, others: 1 });
      expect(await isBanned(api, 'a')).to.equal(true);
      expect(await isBanned(api, 'b')).to.equal(false);
    });

    it('keys in bulk: addresses are those of the servers, networks all of theirs', async () => {
      const [api] = limiters as [Limiter];
      const lines = [
        '\ufeff# who',
        '',
        '10.0.0.1',
        '2001:db8:1:2::5',
        ' user:42 ',
        '10.7.0.0/30',
        '10.0.0.1',
      ];
      const found = await imported(lines.join('\r\n'), '--name', 'api', '--for', '2h');
      expect(found).to.include({ banned: 7, others: 0 });
      for (const key of ['10.0.0.1', '2001:db8:1::/56', 'user:42', '10.7.0.0', '10.7.0.3']) {
        expect(await isBanned(api, key), key).to.equal(true);
      }
      expect(await imported('10.7.0.0/30', '--name', 'api', '--for', '1h', '--raw')).to.include({
        banned: 1,
      });
      expect(await imported('10.0.0.1\nx', '--name', 'api', '--for', '2h', '--dry-run')).to.include({
        banned: 1,
        already: 1,
      });
    });

    it('no ban becomes shorter, none begins that is over', async () => {
      const [api] = limiters as [Limiter];
      await api.ban('a', '2h');
      const line = (key: string, more: object) => JSON.stringify({ name: 'api', key, ...more });
      const yesterday = { bannedUntil: new Date(Date.now() - 86_400_000).toISOString(), bannedForMs: HOUR };
      const lines = [
        line('a', { bannedForMs: HOUR }),
        line('b', yesterday),
        line('c', { bannedForMs: HOUR }),
      ];
      const found = await imported([...lines, line('c', { bannedForMs: 2 * HOUR })].join('\n'));
      expect(found).to.include({ banned: 1, already: 1, over: 1 });
      const untold = line('d', { bannedUntil: null, bannedForMs: null });
      expect(await imported(untold, '--for', '1h')).to.include({ banned: 1 });
      expect((await api.peek('a')).retryAfterMs).to.be.above(1.9 * HOUR);
      expect((await api.peek('c')).retryAfterMs).to.be.above(1.9 * HOUR);
      expect(await isBanned(api, 'b')).to.equal(false);
    });

    it('from a file; thousands at once', async () => {
      const directory = mkdtempSync(join(tmpdir(), 'headgate-cli-'));
      try {
        const file = join(directory, 'keys.txt');
        writeFileSync(file, Array.from({ length: 5000 }, (_, i) => `user:${i}`).join('\n'));
        const { code, stdout } = await bans(['import', file, '--name', 'api', '--for', '1h']);
        expect(code).to.equal(0);
        expect(stdout).to.equal('5,000 keys are banned.\n');
        expect(await isBanned(limiters[0]!, 'user:4999')).to.equal(true);
      } finally {
        rmSync(directory, { recursive: true });
      }
    });

    it('a wrong line is named, and no key is banned', async () => {
      const wrong: [line: string, args: string[], says: RegExp][] = [
        ['{"key":', ['--name', 'api', '--for', '1h'], /line 2: .*JSON/],
        ['{"name":"api"}', ['--name', 'api', '--for', '1h'], /line 2: .* has no "key"/],
        ['{"key":"b"}', ['--for', '1h'], /line 1: .*--name/],
        ['b', ['--name', 'api'], /line 1: .*--for/],
        [
          '{"key":"b","bannedForMs":-1}',
          ['--name', 'api', '--for', '1h'],
          /line 2: bannedForMs: -1 is not valid/,
        ],
        [
          '{"key":"b","bannedUntil":"soon"}',
          ['--name', 'api', '--for', '1h'],
          /line 2: "bannedUntil": "soon" is not a time/,
        ],
        ['-', ['--name', 'api', '--for', '1h'], /line 2: "-" is a missing client/],
        ['["b"]', ['--name', 'api', '--for', '1h'], /line 2: "\[\\"b\\"\]" is not a key/],
        ['"b"', ['--name', 'api', '--for', '1h'], /line 2: .* is not a key/],
        ['10.0.0.1 - - [x]', ['--name', 'api', '--for', '1h'], /line 2: .* has more than an address/],
        ['5.5.5.5,2026,evil', ['--name', 'api', '--for', '1h'], /line 2: .* has more than an address/],
        ['deny from 5.5.5.5', ['--name', 'api', '--for', '1h'], /line 2: .* has more than an address/],
        ['2001:db8::5|foo', ['--name', 'api', '--for', '1h'], /line 2: .* has more than an address/],
        ['ip,reason', ['--name', 'api', '--for', '1h'], /line 2: .* is a row of a table/],
        ['null', ['--name', 'api', '--for', '1h'], /line 2: .* is not a key/],
        ['<html>', ['--name', 'api', '--for', '1h'], /line 2: .* is not a key/],
        ['a\u0000b', ['--name', 'api', '--for', '1h'], /line 2: .* is not text/],
        ['\ufffdPNG', ['--name', 'api', '--for', '1h'], /line 2: .* is not text/],
        ['{"key":""}', ['--name', 'api', '--for', '1h'], /line 2: "key" is empty/],
        ['{"key":5}', ['--name', 'api', '--for', '1h'], /line 2: "key": 5 is not text/],
        ['{"key":["b"]}', ['--name', 'api', '--for', '1h'], /line 2: "key": \["b"\] is not text/],
        ['{"key":"b","name":5}', ['--name', 'api', '--for', '1h'], /line 2: "name": 5 is not text/],
        ['{"key":"b","reason":{}}', ['--name', 'api', '--for', '1h'], /line 2: "reason": {} is not text/],
        [
          '{"key":"b","bannedUntil":5}',
          ['--name', 'api', '--for', '1h'],
          /line 2: "bannedUntil": 5 is not a time/,
        ],
        [
          '{"key":"b","bannedUntil":"2999-01-01T00:00:00Z"}',
          ['--name', 'api', '--for', '1h'],
          /line 2: "bannedUntil": "2999-01-01T00:00:00Z" is more than 366 days from now/,
        ],
        ['10.0.0.0/40', ['--name', 'api', '--for', '1h'], /line 2: key: "10\.0\.0\.0\/40" is not valid/],
      ];
      for (const [line, args, says] of wrong) {
        const { code, stdout, stderr } = await bans(['import', '-', ...args], `a\n${line}`);
        expect(stderr).to.match(says);
        expect({ code, stdout }).to.deep.equal({ code: 2, stdout: '' });
      }
      expect(await stateKeys()).to.deep.equal([]);
      // An explicit confirmation counts.
      expect(await imported('-\n["b"]', '--name', 'api', '--for', '1h', '--raw')).to.include({ banned: 2 });
      expect(await imported(' spaced \n', '--name', 'api', '--for', '1h', '--raw')).to.include({ banned: 1 });
      expect(await isBanned(limiters[0]!, ' spaced ')).to.equal(true);
      const { code, stderr } = await bans(['import', 'no-such-file']);
      expect(code).to.equal(2);
      expect(stderr).to.match(/bans import no-such-file: .* ENOENT/);
    });

    it('blames the address of a mistyped line, and not its missing duration', async () => {
      const stdin = Readable.from(['198.51.100.300\n']);
      const { code, stderr } = await headgate(['bans', 'import', '-', '--redis', servers[kind].url], {
        stdin,
      });
      expect(code).to.equal(2);
      expect(stderr)
        .to.contain('198.51.100.300')
        .and.not.match(/--for|--name/);
    });
  });
}
