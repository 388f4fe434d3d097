// The permissions in docs/cli.md are enough for every command, and every permission is needed.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { root } from '../../../../scripts/lib/run.mjs';
import { startServer, type TestServer } from '../../../../test/support/servers.js';
import { parsePolicies } from '../../src/policy-text.js';
import { headgate, TELLING, told } from '../cli.js';

const permissions = (page: string, user: string): string[] =>
  new RegExp(`ACL SETUSER ${user} on >password ~hg:\\*([^\`]+)\`\`\``)
    .exec(readFileSync(join(root, page), 'utf8'))![1]!
    .trim()
    .split(/\s+/);

const ofLimiters = permissions('docs/redis.md', 'headgate');
const ofReaders = permissions('docs/cli.md', 'headgate-reader');
const listed = (pattern: RegExp): string[] =>
  pattern.exec(readFileSync(join(root, 'docs/cli.md'), 'utf8'))![1]!.split(' ');
const more = listed(/\.md#permissions\), `([^`]+)`, and for/);
/** Without these permissions only the views of operators fail. */
const ofOperators = listed(/\[what operators can see\]\([^)]+\) `([^`]+)`/);

/** Permissions that only limiters with overrides, slots that are all held, and the tenants of shared limits need. */
const OF_LIVE_LIMITERS = ['+mget', '+zcount', '+strlen', '+bitfield_ro'];

const POLICIES = [
  ...['fixed=fixed-window 5/1m', 'sliding=5/1m', 'log=sliding-log 5/1m', 'bucket=token-bucket 5/1m'],
  'slots=concurrency 5/1m',
];
const AS_TEXT = ['--name', 'n', ...POLICIES.flatMap((policy) => ['--policy', policy])];
const LOOKS = [
  ['list'],
  ['list', '--banned'],
  ['list', '--all', ...AS_TEXT],
  ['peek', 'a', ...AS_TEXT],
  ['peek', 'banned', ...AS_TEXT],
];
const CHANGES = [
  ['reset', 'a', '--name', 'n'],
  ['reset', 'b', ...AS_TEXT],
  ['ban', 'c', '1h', '--name', 'n', '--force'],
  ['unban', 'banned', '--name', 'n'],
];

describe('the permissions that docs/cli.md lists', () => {
  for (const [kind, client] of [
    ['redis', 'ioredis'],
    ['redis', 'redis'],
    ['valkey', 'iovalkey'],
  ] as const) {
    describe(`on ${kind}, by ${client}`, () => {
      let cwd: string;
      let server: TestServer;
      let admin: Redis;
      before(async () => {
        cwd = mkdtempSync(join(tmpdir(), 'headgate-cli-'));
        mkdirSync(join(cwd, 'node_modules'));
        symlinkSync(join(root, 'node_modules', client), join(cwd, 'node_modules', client));
        server = await startServer(kind);
        admin = new Redis(server.port);
      });
      after(async () => {
        admin.disconnect();
        await server.stop();
        rmSync(cwd, { recursive: true });
      });

      /** The commands that fail with the given permissions. */
      async function failures(commands: readonly string[][], allowed: readonly string[]): Promise<string[]> {
        await admin.call('ACL', 'SETUSER', 'user', 'reset', 'on', '>password', '~hg:*', ...allowed);
        await admin.flushall();
        const store = redisStore(admin);
        const options = { policies: parsePolicies(POLICIES), ban: {}, timeout: '10s' as const };
        const limiter = createLimiter({ ...options, name: 'n', store });
        for (const key of ['a', 'b', 'a', 'b']) await limiter.consume(key);
        await limiter.ban('banned', '1h');
        await limiter.close();
        const failed = [];
        for (const command of commands) {
          await admin.script('FLUSH');
          const redis = server.url.replace('//', '//user:password@');
          const { code, stdout } = await headgate([...command, '--redis', redis], { cwd });
          if ((code !== 0 && code !== 3) || stdout.includes('unreadable')) failed.push(command[0]!);
        }
        return failed;
      }

      it('are enough for all commands', async () => {
        expect(
          await failures([...LOOKS, ...CHANGES], [...ofLimiters, ...more, ...ofOperators]),
        ).to.deep.equal([]);
      });

      it('are enough for a user who only looks, and permit no change', async () => {
        expect(await failures(LOOKS, ofReaders)).to.deep.equal([]);
        expect(new Set(await failures(CHANGES, ofReaders))).to.deep.equal(new Set(['reset', 'ban', 'unban']));
        const redis = server.url.replace('//', '//user:password@');
        const { stderr } = await headgate(['ban', 'c', '1h', '--name', 'n', '--force', '--redis', redis], {
          cwd,
        });
        expect(stderr).to.contain("see which commands and keys the server's ACL gives it");
      });

      it('are enough to look at published limiters with overrides, and at slots that are all held', async () => {
        await admin.flushall();
        await admin.call('ACL', 'SETUSER', 'user', 'reset', 'on', '>password', '~hg:*', ...ofReaders);
        const store = redisStore(admin, TELLING);
        const live = createLimiter({ name: 'live', limit: 1, window: '1m', overrides: true, store });
        const slots = createLimiter({ name: 'slots', policies: 'concurrency 1/1m', store });
        await live.consume('a');
        await live.override('a', '9/1m', { for: '1h' });
        const slot = await slots.acquire('a');
        const shared = createLimiter({ name: 'shared', policies: '9/1h by provider share tenant', store });
        await shared.consume({ provider: 'openai', tenant: 'acme' }, { cost: 2 });
        await told(['--redis', server.url], 'live', 'slots', 'shared');
        const redis = server.url.replace('//', '//user:password@');
        const tenants = async () => {
          const { stdout } = await headgate(['tenants', '--json', '--redis', redis], { cwd });
          return (JSON.parse(stdout) as { key: string; used: number | null }[]).map(({ key, used }) => [
            key,
            used,
          ]);
        };
        expect(await tenants()).to.deep.equal([['acme', 2]]);
        // Without the permission, the use of tenants is unknown.
        for (const one of ['strlen', 'bitfield_ro']) {
          await admin.call('ACL', 'SETUSER', 'user', `-${one}`);
          expect(await tenants(), one).to.deep.equal([['acme', null]]);
          await admin.call('ACL', 'SETUSER', 'user', `+${one}`);
        }
        // A key with one record needs no `+mget`, unlike keys of several dimensions.
        for (const one of ['+zcount']) {
          await admin.call('ACL', 'SETUSER', 'user', one.replace('+', '-'));
          const peeks = await Promise.all(
            ['live', 'slots'].map((name) =>
              headgate(['peek', 'a', '--name', name, '--redis', redis], { cwd }),
            ),
          );
          expect(
            peeks.map(({ code }) => code),
            one,
          ).to.include(1);
          await admin.call('ACL', 'SETUSER', 'user', one);
        }
        for (const [command, code] of [
          [['peek', 'a', '--name', 'live'], 0],
          [['peek', 'a', '--name', 'slots'], 3],
          [['list', '--all'], 0],
          [['key', 'a'], 3],
          [['overrides'], 0],
          [['log'], 0],
          [['bans', 'log'], 0],
        ] as const)
          expect(await headgate([...command, '--redis', redis], { cwd }), command.join(' ')).to.include({
            code,
          });
        await slot.release();
        await Promise.all([live.close(), slots.close(), shared.close()]);
        await store.close?.();
      });

      for (const one of more) {
        it(`${one} is needed beside those of limiters`, async () => {
          const others = more.filter((each) => each !== one);
          expect(await failures([...LOOKS, ...CHANGES], [...ofLimiters, ...others])).to.include('list');
        });
      }

      it('are all needed by a user who only looks', async () => {
        for (const one of ofReaders.filter((each) => ![...ofOperators, ...OF_LIVE_LIMITERS].includes(each))) {
          const others = ofReaders.filter((each) => each !== one);
          expect(await failures(LOOKS, others), one).to.not.deep.equal([]);
        }
      });
    });
  }
});
