// `store.check()`: every problem of a server or a client is found, on real servers, and has its own message.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { Redis } from 'ioredis';
import { Redis as Valkey } from 'iovalkey';
import { createClient, createCluster } from 'redis';
import { createLimiter, HeadgateError } from 'headgate';
import { redisStore, type CheckableStore, type Finding, type RedisClient } from 'headgate/redis';
import { luaFiles } from '../../src/stores/redis/lua-files.js';
import { commandsIn, needs, possibleUses, PROBES } from '../../src/stores/redis/operators/script-commands.js';
import { clientKinds } from '../slow/faults/clients.js';
import { startCluster } from '../support/cluster.js';
import { serverKinds } from '../support/shared-servers.js';
import { freePort, startServer, type ServerKind, type ServerOptions } from '../support/servers.js';

const recommended = { socketTimeout: 5000, retryStrategy: () => 100 };

type Code = Finding['code'];

/** The findings about a server, by a client of ioredis. */
async function found(port: number, options: object = {}): Promise<readonly Finding[]> {
  const client = new Redis({ port, ...recommended, ...options });
  client.on('error', () => {});
  try {
    return await redisStore(client).check();
  } finally {
    client.disconnect();
  }
}

async function onServer(
  options: ServerOptions,
  prepare: (admin: Redis) => unknown,
  look: (port: number, admin: Redis) => Promise<void>,
  kind: ServerKind = 'redis',
): Promise<void> {
  const server = await startServer(kind, options);
  const admin = new Redis(server.port);
  try {
    await prepare(admin);
    await look(server.port, admin);
  } finally {
    admin.disconnect();
    await server.stop();
  }
}

function problems(findings: readonly Finding[]): Finding[] {
  return findings.filter(({ level }) => level !== 'ok');
}

function only(findings: readonly Finding[], level: Finding['level'], code: Code, message: RegExp): void {
  assert.deepEqual(
    problems(findings).map((finding) => [finding.level, finding.code]),
    [[level, code]],
    JSON.stringify(findings),
  );
  assert.match(problems(findings)[0]!.message, message);
}

describe('store.check()', () => {
  it('can try every command that a script calls', () => {
    const { check: _, ...others } = luaFiles;
    const text = JSON.stringify(others);
    const names = commandsIn({ source: text });
    assert.deepEqual([...names].sort(), [...PROBES.keys()].sort());
    // A name that the script computes would not be found.
    assert.equal(text.match(/redis\.p?call\(/g)!.length, text.match(/redis\.p?call\('[A-Z]+'/g)!.length);
    // Each command is needed by some use.
    assert.deepEqual([...needs(possibleUses()).keys()].sort(), [...names].sort());
  });

  for (const kind of serverKinds) {
    it(`finds no problem with a sound ${kind}, and writes nothing`, () =>
      onServer(
        { args: ['--maxmemory', '100mb'] },
        () => {},
        async (port, admin) => {
          const findings = await found(port);
          assert.deepEqual(problems(findings), []);
          const codes: Code[] = ['client', 'version', 'eviction', 'commands', 'clock', 'memory', 'latency'];
          assert.deepEqual(
            findings.map(({ code }) => code),
            codes,
          );
          assert.match(findings[1]!.message, kind === 'redis' ? /^Redis \d/ : /^Valkey/);
          assert.equal(await admin.dbsize(), 0);
        },
        kind,
      ));
  }

  const user = { username: 'headgate', password: 'password' };
  const acl = /ACL SETUSER (headgate on [^`]*?)\n```/.exec(readFileSync('docs/redis.md', 'utf8'))![1]!;
  const withUser =
    (...more: string[]) =>
    (admin: Redis) =>
      admin.acl('SETUSER', ...(acl.split(/\s+/) as ['headgate']), ...more);

  it('finds no problem with the permissions in the documentation', () =>
    onServer({}, withUser(), async (port) => assert.deepEqual(problems(await found(port, user)), [])));

  it('a command that is not permitted, and which policies need it', () =>
    onServer({}, withUser('-zadd', '-set'), async (port) => {
      const [set, zadd, ...others] = problems(await found(port, user));
      assert.equal(others.length, 0);
      assert.equal(set!.level, 'error');
      assert.match(set!.message, /\bSET\b.*decisions.*(can't run this command|no permissions to run)/);
      assert.equal(zadd!.level, 'warning');
      assert.match(zadd!.message, /\bZADD\b.*concurrency/);
    }));

  it('a command that only overrides need', () =>
    onServer({}, withUser('-mget'), async (port) => {
      const [mget, ...others] = problems(await found(port, user));
      assert.equal(others.length, 0);
      assert.equal(mget!.level, 'warning');
      assert.match(mget!.message, /\bMGET\b.*overrides/);
    }));

  const onStore = async (port: number, look: (store: CheckableStore) => Promise<void>) => {
    const client = new Redis({ port, ...recommended, ...user });
    client.on('error', () => {});
    try {
      await look(redisStore(client));
    } finally {
      client.disconnect();
    }
  };

  it('a command that is called where its failure is caught', () =>
    onServer({}, withUser('-zremrangebyscore'), (port) =>
      onStore(port, async (store) => {
        only(
          await store.check(),
          'warning',
          'commands',
          /not run ZREMRANGEBYSCORE, needed by concurrency, `hea/,
        );
        const limiter = createLimiter({ name: 'jobs', store, policies: ['concurrency 2/1m'] });
        only(await store.check(), 'error', 'commands', /needed by the limiter 'jobs':/);
        assert.equal((await limiter.consume('a')).degraded, true);
        await limiter.close();
      }),
    ));

  it('only the commands that its limiters need, once there are some', () =>
    onServer({}, withUser('-getrange', '-mget', '-zadd', '-hset', '-xadd'), (port) =>
      onStore(port, async (store) => {
        const missing = async () =>
          problems(await store.check()).map(
            ({ level, message }) =>
              `${level} ${/run (\w+), needed by (.*?):/.exec(message)!.slice(1).join(' ')}`,
          );
        const first = createLimiter({ name: 'a', store, limit: 5, window: '1m' });
        assert.deepEqual(await missing(), [
          'warning ZADD `headgate limits`, `headgate top`',
          'warning XADD `headgate limits`, `headgate top`',
          'warning HSET `headgate top`',
        ]);
        const second = createLimiter({
          name: 'b',
          store,
          policies: 'sliding-log 5/1m',
          ban: { after: 3, within: '1m', for: '1m' },
        });
        assert.deepEqual((await missing()).sort(), [
          "error GETRANGE the limiter 'b'",
          'warning HSET `headgate log`, `headgate top`',
          'warning XADD `headgate limits`, `headgate log`, `headgate top`',
          'warning ZADD `headgate limits`, `headgate log`, `headgate top`',
        ]);
        await second.close();
        const third = createLimiter({ name: 'c', store, limit: 5, window: '1m', overrides: true });
        assert.ok((await missing()).includes("error MGET the limiter 'c'"));
        await first.close();
        await third.close();
      }),
    ));

  it('keys that are not permitted', () =>
    onServer({}, withUser('resetkeys', '~other:*'), async (port) => {
      const findings = problems(await found(port, user));
      assert.ok(findings.some(({ level, message }) => level === 'error' && /NOPERM/.test(message)));
    }));

  it('scripts that are not permitted', () =>
    onServer({}, withUser('-evalsha'), async (port) =>
      only(await found(port, user), 'error', 'commands', /NOPERM .*evalsha/),
    ));

  it('an INFO that is not permitted', () =>
    onServer({}, withUser('-info'), async (port) => {
      const findings = problems(await found(port, { ...user, enableReadyCheck: false }));
      assert.deepEqual(
        findings.map(({ level, code }) => [level, code]),
        [
          ['warning', 'version'],
          ['warning', 'eviction'],
        ],
      );
    }));

  for (const policy of ['allkeys-lru', 'volatile-ttl'] as const) {
    it(`a server that evicts by ${policy}`, () =>
      onServer(
        { args: ['--maxmemory', '100mb', '--maxmemory-policy', policy] },
        () => {},
        async (port) => only(await found(port), 'warning', 'eviction', new RegExp(policy)),
      ));
  }

  it('no maxmemory: nothing is evicted', () =>
    onServer(
      { args: ['--maxmemory-policy', 'allkeys-lru'] },
      () => {},
      async (port) => assert.deepEqual(problems(await found(port)), []),
    ));

  it('memory: a server that is nearly full, and one that is full soon at this rate', () =>
    onServer(
      { args: ['--maxmemory', '100mb'] },
      () => {},
      async (port, admin) => {
        assert.deepEqual(problems(await found(port)), []);
        let isFilling = true;
        const filling = (async () => {
          for (let i = 0; isFilling; i++) {
            await admin.set(`fill:${i % 1000}:${Date.now()}`, 'x'.repeat(50_000), 'EX', 60);
            await new Promise((resolve) => setTimeout(resolve, 20));
          }
        })();
        only(
          await found(port),
          'warning',
          'memory',
          /^\d+ % of maxmemory are in use \(.*\), and at .* a second the memory is full in \d+ min\./,
        );
        isFilling = false;
        await filling;
        await admin.flushall();
        for (let i = 0; i < 85; i++) await admin.set(`big:${i}`, 'x'.repeat(1_000_000), 'EX', 60);
        only(
          await found(port),
          'warning',
          'memory',
          /^[89]\d % of maxmemory are in use \([89]\d.* MB of 10\d MB\)/,
        );
      },
    ));

  it('a full server, and a replica', () =>
    onServer(
      {},
      (admin) => admin.config('SET', 'maxmemory', '1'),
      async (port, admin) => {
        assert.ok(problems(await found(port)).some(({ message }) => /SET, .*: OOM/.test(message)));
        await admin.config('SET', 'maxmemory', '0');
        await admin.replicaof('127.0.0.1', await freePort());
        assert.ok(problems(await found(port)).some(({ message }) => /SET, .*: READONLY/.test(message)));
      },
    ));

  it('clocks that differ', () =>
    onServer(
      {},
      () => {},
      async (port) => {
        const { now } = Date;
        Date.now = () => now() - 12_000;
        try {
          only(await found(port), 'warning', 'clock', /12\.\d s/);
        } finally {
          Date.now = now;
        }
      },
    ));

  it('no server: a finding, and no exception', async () => {
    only(await found(await freePort()), 'error', 'connection', /ECONNREFUSED/);
  });

  it('options of the client that are dangerous', async () => {
    const socket = (options: object) => createClient({ socket: { port: 1, ...options } as object });
    const sentinels = { lazyConnect: true, sentinels: [{ host: '127.0.0.1', port: 1 }], name: 'x' };
    const cases: [unknown, Finding['level'], RegExp][] = [
      [new Redis({ lazyConnect: true }), 'warning', /no socketTimeout/],
      [
        new Redis({ lazyConnect: true, socketTimeout: 5000, retryStrategy: null! }),
        'error',
        /not connect again/,
      ],
      [new Redis(sentinels), 'warning', /Sentinels without failoverDetector/],
      [new Valkey(sentinels), 'warning', /Sentinels without failoverDetector/],
      [socket({}), 'warning', /no socketTimeout/],
      [socket({ socketTimeout: 5000, reconnectStrategy: () => 1 }), 'warning', /pingInterval below/],
      [socket({ socketTimeout: 5000 }), 'error', /unless it has a reconnectStrategy/],
      [socket({ reconnectStrategy: false }), 'error', /does not connect again/],
      [createCluster({ rootNodes: [], keyPrefix: '{x}' }), 'warning', /one slot/],
    ];
    for (const [client, level, message] of cases) {
      (client as Redis).on('error', () => {});
      const findings = problems(await redisStore(client as RedisClient).check());
      assert.ok(
        findings.some((finding) => finding.level === level && message.test(finding.message)),
        `${message}: ${JSON.stringify(findings)}`,
      );
      (client as Redis).disconnect();
    }
    const watched = new Redis({ ...sentinels, failoverDetector: true }).on('error', () => {});
    const findings = await redisStore(watched).check();
    assert.ok(!findings.some(({ message }) => message.includes('failoverDetector')));
    watched.disconnect();
  });

  it('a client for one server on a node of a cluster, unless the node has all keys', async () => {
    const cluster = await startCluster('redis');
    const { port, url } = cluster.servers[0]!;
    const single = createClient({
      url,
      socket: { socketTimeout: 5000, reconnectStrategy: () => 100 },
      pingInterval: 1000,
    });
    try {
      only(await found(port), 'error', 'client', /part of a cluster.*Cluster\(\[\.\.\.\]\).*createCluster/);
      await single.connect();
      only(await redisStore(single).check(), 'error', 'client', /part of a cluster/);
    } finally {
      single.destroy();
      await cluster.stop();
    }
    const alone = await startCluster('redis', 1);
    try {
      assert.deepEqual(problems(await found(alone.servers[0]!.port)), []);
    } finally {
      await alone.stop();
    }
  });

  it('every server of a cluster', async () => {
    const cluster = await startCluster('redis');
    const [ioredis, admin] = [await cluster.connect(), new Redis(cluster.servers[1]!.port)];
    const nodeRedis = createCluster({
      rootNodes: cluster.servers.map(({ url }) => ({ url })),
      defaults: { socket: { socketTimeout: 5000, reconnectStrategy: () => 100 }, pingInterval: 1000 },
    });
    try {
      await nodeRedis.connect();
      for (const client of [ioredis, nodeRedis] as unknown as RedisClient[]) {
        const store = redisStore(client, { slices: true });
        await admin.config('SET', 'maxmemory', '1');
        const bad = problems(await store.check()).filter(({ code }) => code !== 'client');
        assert.ok(bad.length > 0);
        for (const { message } of bad)
          assert.match(message, new RegExp(`^127.0.0.1:${admin.options.port}: .*OOM`));
        await admin.config('SET', 'maxmemory', '0');
        const findings = await store.check();
        assert.deepEqual(
          problems(findings).filter(({ code }) => code !== 'client'),
          [],
        );
        assert.equal(findings.filter(({ code }) => code === 'clock').length, 3);
      }
    } finally {
      nodeRedis.destroy();
      ioredis.disconnect();
      admin.disconnect();
      await cluster.stop();
    }
  });
});

/** A server behind a proxy that rewrites the replies. */
async function rewritten(
  target: number,
  rewrite: (reply: string) => string,
  look: (port: number) => Promise<void>,
): Promise<void> {
  const sockets = new Set<Socket>();
  const proxy = createServer((client) => {
    const server = connect(target, '127.0.0.1');
    for (const socket of [client, server]) sockets.add(socket.on('error', () => {}));
    client.pipe(server);
    server.on('data', (data) => client.write(rewrite(data.toString('latin1')), 'latin1'));
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => proxy.once('listening', resolve));
  try {
    await look((proxy.address() as AddressInfo).port);
  } finally {
    for (const socket of sockets) socket.destroy();
    proxy.close();
  }
}

/** A server without a command, behind a proxy that makes the server report Redis 5. */
function oldServer(look: (port: number) => Promise<void>): Promise<void> {
  return onServer(
    { config: 'rename-command SETRANGE ""' },
    () => {},
    (target) => rewritten(target, (reply) => reply.replace(/redis_version:\d/, 'redis_version:5'), look),
  );
}

/** A server without Lua: Valkey from 9.1 without its module, otherwise a server without EVAL that answers like such a Valkey. */
async function withoutLua(kind: ServerKind, look: (port: number) => Promise<void>): Promise<void> {
  let isModule = false;
  const unload = async (admin: Redis): Promise<void> => {
    isModule = await admin.call('MODULE', 'UNLOAD', 'lua').then(
      () => true,
      () => false,
    );
  };
  const unloaded = (port: number) => (isModule ? look(port) : Promise.resolve());
  await onServer({ args: ['--enable-module-command', 'local'] }, unload, unloaded, kind);
  if (isModule) return;
  const answer = (reply: string) =>
    reply.replace(/-ERR unknown command 'eval'[^\r]*/i, "-ERR Could not find scripting engine 'lua'");
  await onServer(
    { config: 'rename-command EVAL ""' },
    () => {},
    (target) => rewritten(target, answer, look),
    kind,
  );
}

describe('a server without Lua', () => {
  for (const kind of serverKinds) {
    it(`is named by a check, and by the first decision, on ${kind}`, () =>
      withoutLua(kind, async (port) => {
        const fix = /^The server has no Lua, .* module lua: see .*docs\/versions\.md#valkey-without-lua/;
        only(await found(port), 'error', 'commands', fix);
        const client = new Redis({ port, ...recommended });
        const limiter = createLimiter({ store: redisStore(client), policies: '5/1m', onStoreError: 'throw' });
        try {
          await assert.rejects(
            limiter.consume('a'),
            (error) =>
              error instanceof HeadgateError &&
              error.code === 'HEADGATE_STORE_ERROR' &&
              fix.test(error.message) &&
              /scripting engine/.test((error.cause as Error).message),
          );
        } finally {
          await limiter.close();
          client.disconnect();
        }
      }));
  }
});

describe('a server that is too old', () => {
  it('is named by a check', () =>
    oldServer(async (port) => {
      const [version, command, ...others] = problems(await found(port));
      assert.equal(others.length, 0);
      assert.match(version!.message, /^Redis 5\.\S+ .*Redis 6\.0 .*Valkey\.$/);
      assert.match(command!.message, /\bSETRANGE\b.*decisions/);
    }));

  for (const name of ['ioredis 6', 'node-redis'] as const) {
    it(`is named by the first call that fails, by ${name}`, () =>
      oldServer(async (port) => {
        const { client, end } = clientKinds[name](port);
        const limiter = createLimiter({
          store: redisStore(client),
          policies: '5/1m',
          timeout: '5s',
          onStoreError: 'throw',
        });
        // The second call rewrites a part of the state, which the first one made.
        await limiter.consume('a');
        await assert.rejects(
          limiter.consume('a'),
          (error) =>
            error instanceof HeadgateError &&
            error.code === 'HEADGATE_STORE_ERROR' &&
            /^Redis 5\.\S+ .*Redis 6\.0 /.test(error.message) &&
            /SETRANGE|unknown/i.test((error.cause as Error).message),
        );
        assert.match(limiter.health.lastError!.message, /^Redis 5\..*Redis 6\.0 /);
        await limiter.close();
        end();
      }));
  }

  it('reports overrides without effect, because the limiter has other policies by now', () =>
    onServer(
      {},
      () => {},
      async (port) => {
        const client = new Redis({ port, ...recommended });
        const store = redisStore(client);
        const options = {
          name: 'api',
          store,
          limit: 5,
          window: '1h',
          overrides: true,
          warnings: false,
          timeout: '5s',
        } as const;
        const before = createLimiter(options);
        await before.override('ada', { limit: 9 });
        await before.override('bob', '9/1m');
        assert.deepEqual(await ofOverrides(store), ['ok']);
        await before.close();
        const after = createLimiter({ ...options, algorithm: 'gcra' });
        await after.override('eva', { limit: 9 });
        assert.deepEqual(await ofOverrides(store), ['ok']);
        await client.set('hg:{api:ada}o1', 'garbage');
        assert.deepEqual(await ofOverrides(store), ['warning api: ada']);
        await after.override('ada', { limit: 9 });
        await after.close();
        const { limit: _, window: __, ...named } = options;
        const several = createLimiter({ ...named, policies: ['minute=5/1m', 'hour=50/1h'] });
        await several.override('bob', { minute: { limit: 9 } });
        await several.removeOverride('eva');
        assert.deepEqual(await ofOverrides(store), ['warning api: ada']);
        await several.close();
        assert.deepEqual(await ofOverrides(store), []);
        client.disconnect();
      },
    ));

  it('reports no weight of a tenant, and names the keys of others with their dimensions', () =>
    onServer(
      {},
      () => {},
      async (port) => {
        const client = new Redis({ port, ...recommended });
        const store = redisStore(client);
        const options = { name: 'api', store, overrides: true, warnings: false } as const;
        const shared = ['q=800/1m by provider share tenant', 'n=9/1m by account'];
        const before = createLimiter({ ...options, policies: shared });
        const acme = { provider: 'openai', tenant: 'acme {1}' };
        await before.override(acme, { weight: 5 });
        await before.override({ ...acme, tenant: 'globex' }, { q: { weight: 5 } });
        // A new window of the only policy by its dimension.
        await before.override({ account: 'ada' }, '5/1h');
        assert.deepEqual(await ofOverrides(store), ['ok']);
        await before.close();
        const after = createLimiter({ ...options, policies: ['p=800/1m by provider', 'm=9/1m by user'] });
        const idle = [
          'tenant globex in provider openai',
          'tenant acme {1} in provider openai',
          'account ada',
        ];
        const [found] = await ofOverrides(store);
        assert.deepEqual(
          found!
            .split(/warning api: |, api: /)
            .slice(1)
            .sort(),
          idle.sort(),
        );
        await after.close();
        client.disconnect();
      },
    ));

  async function ofOverrides(store: { check(): Promise<readonly Finding[]> }): Promise<string[]> {
    const findings = (await store.check()).filter(({ code }) => code === 'overrides');
    return findings.map(({ level, message }) =>
      level === 'ok' ? level : `${level} ${/: (api: [^.]+)/.exec(message)![1]!}`,
    );
  }
});
