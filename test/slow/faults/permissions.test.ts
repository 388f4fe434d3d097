// Law 5 for a user with few rights: whatever the server refuses, and whenever, no key is left without a TTL.
import assert from 'node:assert/strict';
import { Redis } from 'ioredis';
import { createLimiter, type Decision, type Policy } from 'headgate';
import { redisStore } from 'headgate/redis';
import { luaFiles } from '../../../src/stores/redis/lua-files.js';
import { assemble, type ScriptName } from '../../../src/stores/redis/scripts.js';
import { serverKinds } from '../../support/shared-servers.js';
import { startServer, type TestServer } from '../../support/servers.js';

const MINUTE = 60_000;

const single: readonly Policy[] = [
  { algorithm: 'fixed-window', limit: 5, window: MINUTE },
  { algorithm: 'fixed-window', limit: 2 ** 21, window: MINUTE },
  { algorithm: 'sliding-window', limit: 5, window: MINUTE },
  { algorithm: 'sliding-log', limit: 5, window: MINUTE },
  { algorithm: 'gcra', limit: 5, window: MINUTE },
  { algorithm: 'leaky-bucket', limit: 5, window: MINUTE, maxDelay: MINUTE },
  { algorithm: 'calendar', limit: 5, period: 'day' },
  { algorithm: 'concurrency', limit: 5, lease: MINUTE },
];
const sets: readonly (readonly Policy[])[] = [
  ...single.map((policy) => [policy]),
  single.map((policy, i) => ({ ...policy, name: `p${i}` })),
];

/** The commands of every script. */
const commands = [
  ...new Set([...JSON.stringify(luaFiles).matchAll(/redis\.p?call\('([A-Z]+)'/g)].map((match) => match[1]!)),
].filter((command) => command !== 'TIME');

/** The scripts beside the decisions: their keys, and their arguments after the deadline. */
const asides: Readonly<Record<ScriptName, readonly [keys: string[], args: string[]][]>> = {
  publish: [
    [
      ['hg:{limiters}', 'hg:{limiters}:me'],
      ['me', '{}', '60000', '10'],
    ],
  ],
  'note-changes': [
    [
      ['hg:{bans}', 'hg:{bans}:notes', 'hg:{bans}:log', 'hg:{bans}:seal'],
      ['10', '10', '60000', 'api:ada', '60000', '{}', '{}'],
    ],
    [['hg:{overrides}'], ['10', '10', '60000', 'api:ada', '60000', '', '']],
  ],
  'set-override': [[['hg:{api:ada}o1'], ['\ts3@6sx10\t5\t{}', '60000', '60000', '600000', '8']]],
  count: [[['hg:{traffic}'], ['{}', '10', '60000']]],
};

for (const kind of serverKinds) {
  describe(`law 5 for a user who lacks a right, on ${kind}`, function () {
    this.timeout(60_000);
    let server: TestServer;
    let admin: Redis;
    let user: Redis;

    before(async () => {
      server = await startServer(kind);
      admin = new Redis(server.port);
      await admin.call('ACL', 'SETUSER', 'headgate', 'on', '>password', '~*', '+@all');
      user = new Redis(server.port, { username: 'headgate', password: 'password' });
    });
    after(async () => {
      for (const client of [admin, user]) client.disconnect();
      await server.stop();
    });

    it('a limiter that lacks a right leaves the others of its store alone', async () => {
      await admin.call('ACL', 'SETUSER', 'headgate', '+@all', '-zadd', '-zcard', '-zcount', '-zrange');
      const store = redisStore(user, { publish: false, counts: false });
      const rate = createLimiter({ name: 'rate', store, limit: 1000, window: '1m' });
      const jobs = createLimiter({ name: 'jobs', store, policies: 'concurrency 10/30s' });
      const degraded: boolean[] = [];
      for (let i = 0; i < 20; i++) {
        for (let j = 0; j < 6; j++) await jobs.consume('j');
        await new Promise((resolve) => setTimeout(resolve, 20));
        degraded.push((await rate.consume('k')).degraded);
      }
      assert.ok((await jobs.consume('j')).degraded);
      assert.ok(!degraded.includes(true), degraded.join());
      await Promise.all([rate.close(), jobs.close()]);
      await admin.call('ACL', 'SETUSER', 'headgate', '+@all');
      await admin.flushall();
    });

    const lose = (command: string) => admin.call('ACL', 'SETUSER', 'headgate', '+@all', `-${command}`);

    async function expectTtls(when: string): Promise<void> {
      for (const key of await admin.keys('*'))
        assert.notEqual(await admin.pttl(key), -1, `${key} has no TTL ${when}`);
      await admin.flushall();
    }

    for (const command of commands) {
      it(`${command}: decisions leave no key without a TTL`, async () => {
        for (const [i, policies] of sets.entries()) {
          for (const before of [0, 2]) {
            await admin.call('ACL', 'SETUSER', 'headgate', '+@all');
            const limiter = createLimiter({
              store: redisStore(user),
              policies,
              onStoreError: 'throw',
              timeout: '10s',
              ban: { after: 2, within: MINUTE, for: MINUTE },
              warnings: false,
            });
            const decisions: Decision[] = [];
            const ask = (cost: number) =>
              limiter.consume('a', { cost }).then(
                (decision) => void decisions.push(decision),
                () => {},
              );
            for (let n = 0; n < before; n++) await ask(1);
            await lose(command);
            for (const cost of [1, 1, 3, 5, 5]) await ask(cost);
            await Promise.all([ask(1), ask(1), ask(2)]);
            for (const each of decisions) {
              await each.settle(2).catch(() => {});
              await each.renew().catch(() => {});
              await each.refund().catch(() => {});
              await each.release().catch(() => {});
            }
            await limiter.refund('a').catch(() => {});
            await limiter.ban('b', MINUTE).catch(() => {});
            await limiter.reset('a').catch(() => {});
            await ask(1);
            await expectTtls(`for set ${i}, after ${before} requests`);
            await limiter.close();
          }
        }
      });
    }

    for (const [name, calls] of Object.entries(asides)) {
      it(`${name} leaves no key without a TTL, whatever is refused`, async () => {
        const { source } = assemble(name);
        for (const command of commands) {
          await lose(command);
          for (const [keys, args] of calls)
            await user.eval(source, keys.length, ...keys, String(2 ** 52), ...args).catch(() => {});
          await expectTtls(`without ${command}`);
        }
      });
    }
  });
}
