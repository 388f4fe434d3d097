// The published data of limiters on the command line: the list of limiters, their differences, and limiters without bans.
import { expect } from 'chai';
import { Redis } from 'ioredis';
import type { Limiter, Policy } from 'headgate';
import { redisStore, type RedisStoreOptions } from 'headgate/redis';
import { bookKeys } from '../../../src/stores/redis/operators/ban-book.js';
import { publishedKey } from '../../../src/stores/redis/operators/publisher.js';
import { VERSION } from '../../../src/common/version.js';
import manifest from '../../../package.json' with { type: 'json' };
import { startCluster } from '../../../test/support/cluster.js';
import { startServer } from '../../../test/support/servers.js';
import { serverKinds } from '../../../test/support/shared-servers.js';
import { clients, limiterOn, TestClock } from '../../../test/support/stores.js';
import { headgate, json, TELLING, told } from './cli.js';
import { forEachTest } from './places.js';

interface Told {
  readonly instances: { id: string; host: string; pid: number; version: string; more: number }[];
  readonly limiters: {
    name: string;
    differ: boolean;
    configurations: { policies: string[]; ban: object | null; shadow: boolean; instances: string[] }[];
  }[];
}

it('the version in the source is that of the package', () => expect(VERSION).to.equal(manifest.version));

for (const kind of serverKinds) {
  describe(`headgate limits on ${kind}`, () => {
    const client = clients[kind];
    let prefix: string;
    let where: string[];
    let limiters: Limiter[];

    forEachTest(kind, (place) => ({ prefix, where, limiters } = place));

    /** Limiters of one instance of the store. */
    const instance = (
      all: Record<string, { policies: readonly Policy[]; ban?: object; shadow?: boolean }>,
      options: RedisStoreOptions = TELLING,
    ): Limiter[] => {
      const store = redisStore(client, { prefix, ...options });
      const made = Object.entries(all).map(([name, given]) => limiterOn(store, { name, ...given }));
      limiters.push(...made);
      return made;
    };
    /** All keys except the keys of the log, which outlives the limiters. */
    const keys = async () =>
      (await client.keys(`${prefix}:*`)).filter((key) => !/\{bans\}:(options|automatic)/.test(key));
    const limits = async () => (await json('limits', ...where)) as Told;
    const until = async (isTrue: () => Promise<boolean>) => {
      while (!(await isTrue())) await new Promise((resolve) => setTimeout(resolve, 10));
    };

    it('shortens what is longer than 80 characters of a policy', async () => {
      for (const length of [80, 81]) {
        const name = 'n'.repeat(length - '=token-bucket 20/1m burst 40'.length);
        const policy = { name, algorithm: 'token-bucket', limit: 20, window: '1m', burst: 40 } as const;
        instance({ [`api ${length}`]: { policies: [policy] } });
      }
      await told(where, 'api 80', 'api 81');
      const { stdout } = await headgate(['limits', ...where]);
      expect(stdout)
        .to.match(/^n{52}=token-bucket 20\/1m burst 40 +none/m)
        .and.match(/^n{53}=token-bucket 20\/1m burst … +none/m);
    });

    it('shows which limiters run where, with which policies, and whether they ban', async () => {
      const api: Policy[] = [
        { name: 'burst', algorithm: 'token-bucket', limit: 20, window: 60_000, burst: 40 },
        { name: 'an hour', limit: 1000, window: '1h', shadow: true },
      ];
      instance({
        api: { policies: api, ban: { after: 5 } },
        login: { policies: [{ limit: 3, window: '15m', segments: 10 }] },
      });
      await told(where, 'api', 'login');
      const { instances, limiters: found } = await limits();
      expect(instances).to.have.length(1);
      expect(instances[0]).to.include({ pid: process.pid, version: manifest.version, more: 0 });
      const ids = [instances[0]!.id];
      expect(found).to.deep.equal([
        {
          name: 'api',
          differ: false,
          configurations: [
            {
              policies: ['burst=token-bucket 20/1m burst 40', '"an hour"=1000/1h shadow'],
              ban: { after: 5, within: 600_000, first: 3_600_000, factor: 2000, max: 86_400_000 },
              shadow: false,
              dynamic: false,
              ipv6Subnets: [],
              instances: ids,
            },
          ],
        },
        {
          name: 'login',
          differ: false,
          configurations: [
            {
              policies: ['3/15m'],
              ban: null,
              shadow: false,
              dynamic: false,
              ipv6Subnets: [],
              instances: ids,
            },
          ],
        },
      ]);
      const { stdout, stderr } = await headgate(['limits', ...where]);
      expect(stderr).to.equal('');
      expect(stdout).to.match(
        /^burst=token-bucket 20\/1m burst 40, .* +after 5 denials in 10m, for 1h +own keys +none +\S+:\d+ \(/m,
      );
      expect(stdout).to.match(/^3\/15m +none +own keys +/m);
      expect(stdout)
        .to.match(/\n2 limiters in 1 instance\.\n$/)
        .and.not.contain('differ');
      const one = (await json('limits', ...where, '--name', 'login')) as Told;
      expect(one.limiters.map(({ name }) => name)).to.deep.equal(['login']);
    });

    it('marks a process whose publication is late', async () => {
      instance({ api: { policies: [{ limit: 9, window: '1m' }] } });
      await told(where, 'api');
      const [id] = await client.zrange(publishedKey(prefix), 0, '-1');
      const published = JSON.parse((await client.get(publishedKey(prefix, id)))!) as object;
      const publish = async (pid: number, age: number) => {
        const at = new Date(Date.now() - age).toISOString();
        const document = JSON.stringify({ ...published, pid, at, every: 30_000 });
        await client.set(publishedKey(prefix, `of ${pid}`), document, 'PX', 60_000);
        await client.zadd(publishedKey(prefix), Date.now() + 60_000, `of ${pid}`);
      };
      await publish(71, 50_000);
      await publish(72, 29_000);
      const { stdout } = await headgate(['limits', ...where]);
      expect(stdout).to.match(/:71 \([\w.-]+, silent for 5[01]s: it may have ended\)/);
      expect(stdout.match(/silent/g)).to.have.lengthOf(1);
    });

    it('shows which instances differ, even if equal policies are written differently', async () => {
      for (const window of ['60s', '1m', 60_000]) instance({ api: { policies: [{ limit: 9, window }] } });
      instance({ api: { policies: [{ limit: 10, window: '1m' }] } });
      await until(async () => (await limits()).instances.length === 4);
      const [api] = (await limits()).limiters;
      expect(api!.differ).to.equal(true);
      expect(
        api!.configurations.map(({ policies, instances }) => [policies, instances.length]),
      ).to.deep.equal([
        [['9/1m'], 3],
        [['10/1m'], 1],
      ]);
      const { stdout } = await headgate(['limits', ...where]);
      expect(stdout)
        .to.match(/^api {2}instances differ$/m)
        .and.match(/1 of them with differing instances\.\n$/);
      // The most common value is used and reported.
      const peek = await headgate(['peek', 'a', ...where, '--name', 'api']);
      expect(peek.stderr).to.match(/warning: .*2 different configurations of "api"/);
      const list = await headgate(['list', ...where]);
      expect(list.stderr).to.match(/warning: .*2 different configurations of "api"/);
      const passed = await headgate(['list', '--name', 'api', '--policy', '5/1m', ...where]);
      expect(passed.stderr).to.equal('');
      expect(peek.stdout).to.match(/^default +sliding-window +9 per 1m/m);
    });

    it('counts an instance once, however many equal limiters of one name it has', async () => {
      for (let i = 0; i < 2; i++) {
        const store = redisStore(client, { prefix, ...TELLING });
        for (let j = 0; j < 2; j++) limiters.push(limiterOn(store, { name: 'api', limit: 9, window: '1m' }));
      }
      await until(async () => (await limits()).instances.length === 2);
      const { configurations } = (await limits()).limiters[0]!;
      expect(configurations.map(({ instances }) => instances.length)).to.deep.equal([2]);
    });

    it('of configurations that are as common, always the same one is taken', async () => {
      instance({ api: { policies: [{ limit: 10, window: '1m' }] } });
      instance({ api: { policies: [{ limit: 9, window: '1m' }] } });
      await until(async () => (await limits()).instances.length === 2);
      const ids = await client.zrange(publishedKey(prefix), '0', '-1');
      for (const order of [ids, ids.toReversed()]) {
        for (const [i, id] of order.entries())
          await client.zadd(publishedKey(prefix), Date.now() + 60_000 + i, id);
        const peek = await headgate(['peek', 'a', ...where, '--name', 'api']);
        expect(peek.stdout).to.match(/^default +sliding-window +10 per 1m/m);
        expect(peek.stderr).to.match(/2 different configurations of "api"/);
      }
    });

    it('a key that something else has written is named, and stops no command', async () => {
      instance({ api: { policies: [{ limit: 9, window: '1m' }], ban: {} } });
      await told(where, 'api');
      await Promise.all(limiters.map((limiter) => limiter.close()));
      limiters.length = 0;
      await client.set(publishedKey(prefix), 'x', 'PX', 60_000);
      for (const args of [
        ['limits'],
        ['list'],
        ['list', '--banned'],
        ['peek', 'a', '--name', 'api', '--policy', '9/1m'],
      ]) {
        const { code, stderr } = await headgate([...args, ...where]);
        // Reporting limits is the only purpose of `limits`, so failing to read the limits fails the command.
        expect(code, stderr).to.be.oneOf(args[0] === 'limits' ? [1] : [0, 5]);
        expect(stderr).to.contain(`warning: the limiters are unknown: the key ${publishedKey(prefix)} has`);
      }
      const [index] = bookKeys(prefix);
      await client.set(index, 'x', 'PX', 60_000);
      const ban = await headgate(['ban', 'a', '1h', '--name', 'api', '--force', ...where]);
      expect(ban.code).to.equal(0);
      expect(ban.stderr).to.contain(`neither indexed nor logged: one of the keys ${index}, `);
      const list = await headgate(['list', '--banned', ...where]);
      expect(list.stdout).to.match(/^a +banned/m);
      await client.del(publishedKey(prefix), index);
    });

    it('is published with the tiers that are used', async () => {
      const [limiter] = instance({ api: { policies: [{ limit: 9, window: '1m' }] } }) as [Limiter];
      await limiter.decide('a', 1, limiter.compile([{ limit: 90, window: '1m', name: 'gold' }]));
      await until(async () => {
        const [api] = (await limits()).limiters;
        return api?.configurations[0]?.policies.includes('gold=90/1m') === true;
      });
    });

    it('is bounded: each key has a TTL, and the number of limiters and instances is limited', async () => {
      const many = Array.from(
        { length: 250 },
        (_, i) => [`n${i}`, { policies: [{ limit: 9, window: '1m' }] }] as const,
      );
      instance(Object.fromEntries(many));
      await told(where, 'n0');
      expect((await limits()).instances[0]).to.include({ more: 50, limiters: 200 });
      for (const key of await keys()) expect(await client.pttl(key), key).to.be.within(1, 10_060);
      // A limiter that is not published may still exist.
      const unknown = await headgate(['ban', 'a', '1h', ...where, '--name', 'n240']);
      expect(unknown.code).to.equal(5);
      expect(unknown.stderr)
        .to.match(/"n240" is published\. But 50 others were too many to be published/)
        .and.match(/--force/);

      const later = Date.now() + 60_000;
      const others = Array.from({ length: 999 }, (_, i) => [later, `other${i}`]).flat();
      await client.zadd(publishedKey(prefix), ...others);
      instance({ late: { policies: [{ limit: 9, window: '1m' }] } });
      await new Promise((resolve) => setTimeout(resolve, 100));
      expect(await client.zcard(publishedKey(prefix))).to.equal(1000);
      expect((await limits()).limiters.map(({ name }) => name)).to.not.include('late');
      // A process that has ended makes room.
      await client.zadd(publishedKey(prefix), 1, 'other0');
      await told(where, 'late');
    });

    it('ends with the limiters, and with the process by itself', async () => {
      instance({ api: { policies: [{ limit: 9, window: '1m' }] } });
      await told(where, 'api');
      expect(process.getActiveResourcesInfo().filter((name) => name === 'Timeout')).to.have.length.below(3);
      await Promise.all(limiters.map((limiter) => limiter.close()));
      await until(async () => (await keys()).length === 0);
      const { stdout, code } = await headgate(['limits', ...where]);
      expect(stdout).to.match(/^No limiter is published on this server/);
      expect(code).to.equal(0);
    });

    it('publishes nothing if it is switched off; with a clock it records no bans either', async () => {
      const [off, test] = [
        instance({ api: { policies: [{ limit: 1, window: '1m' }], ban: {} } }, { publish: false }),
        instance(
          { test: { policies: [{ limit: 1, window: '1m' }], ban: {} } },
          { clock: new TestClock().read },
        ),
      ].flat() as [Limiter, Limiter];
      await test.ban('a', '1h');
      await off.ban('a', '1h');
      const [index, , log] = bookKeys(prefix);
      await until(async () => (await client.exists(log)) === 1);
      expect(await client.zrange(index, '0', '-1')).to.deep.equal(['api:a']);
      expect((await keys()).filter((key) => key.includes('{limiters}'))).to.deep.equal([]);
    });

    it('refuses a time that is none', () => {
      expect(() => redisStore(client, { publish: 'now' }))
        .to.throw(/redisStore\.publish: "now" is not valid/)
        .with.property('code', 'HEADGATE_INVALID_OPTION');
    });

    it('a user without the permission to write it tries once, and has no trouble', async () => {
      const server = await startServer(kind);
      const admin = new Redis(server.port);
      const user = new Redis(server.port, { username: 'app', password: 'p', lazyConnect: true });
      try {
        await admin.call(
          ...[
            'ACL',
            'SETUSER',
            'app',
            'on',
            '>p',
            `~${prefix}:{*:*}*`,
            '+eval',
            '+evalsha',
            '+time',
            '+get',
            '+set',
            '+pttl',
          ],
          ...['+del', '+incrby', '+pexpireat', '+getrange', '+setrange', '+hello', '+info', '+ping'],
        );
        await user.connect();
        const store = redisStore(user, { prefix, publish: '5ms' });
        const limiter = limiterOn(store, { name: 'api', limit: 1, window: '1m', ban: { after: 1 } });
        limiters.push(limiter);
        for (let i = 0; i < 5; i++) {
          expect((await limiter.consume('a')).allowed).to.equal(i === 0);
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
        expect((await limiter.consume('a')).reason).to.equal('banned');
        await limiter.close();
        const calls = /cmdstat_eval:calls=(\d+),.*?rejected_calls=(\d+)/.exec(
          await admin.info('commandstats'),
        )!;
        // The first call of a decision, and one of each kind beside them.
        expect(Number(calls[1]) + Number(calls[2])).to.be.within(1, 6);
        expect(await admin.keys('*{limiters}*')).to.deep.equal([]);
      } finally {
        user.disconnect();
        admin.disconnect();
        await server.stop();
      }
    });

    it('a server that goes away causes no error; the publication is there when it is back', async () => {
      const server = await startServer(kind);
      const user = new Redis(server.port, { retryStrategy: () => 20 });
      user.on('error', () => {});
      const limiter = limiterOn(redisStore(user, { prefix, publish: '5ms' }), {
        name: 'api',
        limit: 1,
        window: '1m',
      });
      await told(['--redis', server.url, '--prefix', prefix], 'api');
      await server.kill('SIGKILL');
      await new Promise((resolve) => setTimeout(resolve, 100));
      const again = await startServer(kind, { port: server.port });
      await told(['--redis', again.url, '--prefix', prefix], 'api');
      await limiter.close();
      user.disconnect();
      await again.stop();
    });

    describe('commands', () => {
      const policies: Policy[] = [{ limit: 2, window: '1h' }];
      let api: Limiter;
      const run = (...args: string[]) => headgate([...args, ...where]);

      beforeEach(async () => {
        [api] = instance({
          api: { policies, ban: { after: 5 } },
          open: { policies },
          ghost: { policies, ban: {}, shadow: true },
        }) as [Limiter];
        await told(where, 'api', 'open', 'ghost');
      });

      it('ban, without a limiter that checks for bans: says so, exits with 5, and bans only if forced', async () => {
        for (const [name, code, says] of [
          ['open', 'NO_BAN', /the limiter "open" .*option `ban`/],
          [
            'apii',
            'UNKNOWN_SCOPE',
            /no limiter called "apii" is published\. There are: "api", "ghost", "open"/,
          ],
        ] as const) {
          const refused = await run('ban', 'a', '1h', '--name', name);
          expect(refused).to.include({ code: 5, stdout: '' });
          expect(refused.stderr)
            .to.match(says)
            .and.match(/--force/);
          const asJson = await run('ban', 'a', '1h', '--name', name, '--json');
          expect(JSON.parse(asJson.stderr)).to.include({ code });
          expect((await keys()).filter((key) => key.includes(`${name}:`))).to.deep.equal([]);
          const lines = await run('bans', 'import', '-', '--name', name, '--for', '1h');
          expect(lines).to.include({ code: 0 });

          const forced = await run('ban', 'a', '1h', '--name', name, '--force');
          expect(forced.code).to.equal(0);
          expect(forced.stderr)
            .to.match(says)
            .and.match(/^headgate: warning: /);
          expect(forced.stdout).to.contain(`a is banned in ${name}`);
          const asked = await run('peek', 'a', '--name', name, '--policy', '2/1h');
          expect(asked.code).to.equal(name === 'open' ? 0 : 3);
          expect(asked.stdout).to.contain('banned for ');
          expect(asked.stderr).to.match(says);
        }
        expect((await run('ban', 'a', '1h', '--name', 'api')).stderr).to.equal('');
        expect((await run('ban', 'a', '1h', '--name', 'ghost')).stderr).to.match(/is a shadow/);
      });

      it('bans import: refuses scopes that take no bans, before any key is banned', async () => {
        const { Readable } = await import('node:stream');
        const line = (name: string) => JSON.stringify({ name, key: 'k', bannedForMs: 60_000 });
        const given = (...names: string[]) => ({ stdin: Readable.from([names.map(line).join('\n')]) });
        const refused = await headgate(['bans', 'import', '-', ...where], given('api', 'open'));
        expect(refused).to.include({ code: 5, stdout: '' });
        expect((await api.peek('k')).allowed).to.equal(true);
        const tried = await headgate(['bans', 'import', '-', '--dry-run', ...where], given('api', 'open'));
        expect(tried).to.include({ code: 5, stdout: '' });
        expect(tried.stderr).to.match(/"open" .*option `ban`/);
        const forced = await headgate(
          ['bans', 'import', '-', '--dry-run', '--force', ...where],
          given('api', 'open'),
        );
        expect(forced.stdout).to.match(/^2 keys would be banned/);
        expect(forced.stderr).to.match(/"open" .*option `ban`/);
        expect((await headgate(['bans', 'import', '-', ...where], given('api'))).code).to.equal(0);
        expect((await api.peek('k')).reason).to.equal('banned');
      });

      it('peek of a scope that is not there: nothing stored, and 5', async () => {
        const { code, stdout, stderr } = await run('peek', 'a', '--name', 'apii');
        expect(code).to.equal(5);
        expect(stdout).to.match(/^a in apii, a request of cost 1: nothing stored\n/);
        expect(stderr).to.match(/^headgate: warning: no limiter called "apii"/);
        const asJson = await run('peek', 'a', '--name', 'apii', '--json');
        expect(JSON.parse(asJson.stdout)).to.include({ allowed: null, stored: false });
        expect(JSON.parse(asJson.stderr)).to.include({ warning: true, code: 'UNKNOWN_SCOPE' });
        // A key that was never charged is another matter.
        expect(await run('peek', 'a', '--name', 'api')).to.include({ code: 0, stderr: '' });
      });

      it('peek, list and reset take the policies that limiters tell', async () => {
        for (let i = 0; i < 3; i++) await api.consume('a');
        expect((await run('peek', 'a', '--name', 'api')).code).to.equal(3);
        for (const name of [[], ['--name', 'api']]) {
          const { stdout } = await run('list', ...name);
          expect(stdout)
            .to.match(/^a +limited +default +\S+/m)
            .and.match(/\n0 banned, 1 limited; /);
        }
        expect((await run('list', '--limited')).stdout).to.match(/^a +limited/m);
        expect((await run('reset', 'a', '--name', 'api')).stdout).to.contain('are forgotten: default.');
        expect((await api.peek('a')).remaining).to.equal(2);
      });

      it('reset --scan also forgets what policies have charged that the limiter no longer has', async () => {
        const former: Policy[] = [{ name: 'former', limit: 5, window: '1h' }];
        const [earlier] = instance({ api: { policies: former } }, { publish: false }) as [Limiter];
        await earlier.consume('a');
        await api.consume('a');
        expect((await run('reset', 'a', '--name', 'api')).stdout).to.contain('are forgotten: default.');
        expect((await run('reset', 'a', '--name', 'api', '--scan')).stdout).to.match(
          /are forgotten: former\.$/m,
        );
      });

      it('key and peek see the state of a limiter that is not published', async () => {
        const silent: Policy[] = [{ name: 'm', limit: 1, window: '1h' }];
        const [hidden] = instance({ hidden: { policies: silent } }, { publish: false }) as [Limiter];
        await hidden.consume('a', { cost: 1 });
        const peeked = await run('peek', 'a', '--name', 'hidden');
        expect(peeked.code).to.equal(5);
        expect(peeked.stdout)
          .to.match(/^a in hidden, a request of cost 1: unknown limits\n/)
          .and.not.contain('Nothing is stored');
        const empty = await run('peek', 'b', '--name', 'hidden');
        expect([empty.code, empty.stdout]).to.satisfy(
          ([code, text]: [number, string]) => code === 5 && text.includes('nothing stored'),
        );
      });

      it('all warn of a scope that is not there', async () => {
        for (const args of [
          ['list'],
          ['reset', 'a'],
          ['unban', 'a'],
          ['limits'],
          ['bans', 'export'],
          ['bans', 'log'],
        ]) {
          const { code, stderr } = await run(...args, '--name', 'apii');
          expect(stderr, args.join(' ')).to.match(/^headgate: warning: no limiter called "apii"/);
          expect(code, args.join(' ')).to.equal(args[0] === 'unban' ? 5 : 0);
        }
      });
    });
  });
}

describe('limiters on a cluster', function () {
  this.timeout(30_000);

  it('tell of themselves, and note their bans', async () => {
    const cluster = await startCluster('redis');
    const client = await cluster.connect();
    const where = ['--redis', cluster.servers[0]!.url, '--cluster'];
    const limiter = limiterOn(redisStore(client, TELLING), {
      name: 'api',
      policies: '1/1h',
      ban: { after: 1 },
    });
    try {
      await told(where, 'api');
      for (const key of ['a', 'b', 'c', 'd']) for (let i = 0; i < 2; i++) await limiter.consume(key);
      await limiter.ban('e', '1h');
      expect(
        (await headgate(['ban', 'f', '1h', '--name', 'api', ...where, '--reason', 'why'])).code,
      ).to.equal(0);
      const { stdout } = await headgate(['list', '--banned', ...where]);
      for (const key of ['a', 'b', 'c', 'd', 'e', 'f'])
        expect(stdout).to.match(new RegExp(`^${key} +banned`, 'm'));
      expect((await headgate(['bans', 'log', ...where])).stdout).to.match(/ban +api +f +1h .*why/);
    } finally {
      await limiter.close();
      client.disconnect();
      await cluster.stop();
    }
  });
});
