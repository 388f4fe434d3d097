// `store.check()`: each problem of a server or a client is found, on real servers, and has a message of its own.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { Redis } from 'ioredis';
import { createClient, createCluster } from 'redis';
import { createLimiter, HeadgateError } from 'headgate';
import { redisStore, type Finding, type RedisClient } from 'headgate/redis';
import { luaFiles } from '../../src/stores/redis/lua-files.js';
import { clientKinds } from '../faults/clients.js';
import { startCluster } from '../support/cluster.js';
import { freePort, startServer, type ServerKind, type ServerOptions } from '../support/servers.js';

const recommended = { socketTimeout: 5000, retryStrategy: () => 100 };

type Code = Finding['code'];

/** What is found with a server, by a client of ioredis. */
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
  it('tries every command that the scripts use', () => {
    // Without these scripts limits hold.
    const aside = ['check', 'count', 'note-bans', 'note-override', 'publish', 'seal-bans'];
    const { check } = luaFiles;
    const others = Object.entries(luaFiles).filter(([file]) => !aside.includes(file));
    const used = [...JSON.stringify(others).matchAll(/redis\.p?call\('(\w+)'/g)];
    const tried = new Set([...check!.first.matchAll(/try\('(\w+)'/g)].map(([, name]) => name));
    assert.ok(used.length > 10);
    for (const [, name] of used) assert.ok(name === 'TIME' || tried.has(name), `${name} is not tried`);
  });

  for (const kind of ['redis', 'valkey'] as const) {
    it(`finds nothing wrong with ${kind} as it should be, and writes nothing`, () =>
      onServer(
        { args: ['--maxmemory', '100mb'] },
        () => {},
        async (port, admin) => {
          const findings = await found(port);
          assert.deepEqual(problems(findings), []);
          const codes: Code[] = ['client', 'version', 'eviction', 'commands', 'clock'];
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
  const acl = /ACL SETUSER (headgate on [^`]*?)\n```/.exec(readFileSync('docs/failure.md', 'utf8'))![1]!;
  const withUser =
    (...more: string[]) =>
    (admin: Redis) =>
      admin.acl('SETUSER', ...(acl.split(/\s+/) as ['headgate']), ...more);

  it('finds nothing wrong with the permissions that the documentation names', () =>
    onServer({}, withUser(), async (port) => assert.deepEqual(problems(await found(port, user)), [])));

  it('a command that is not permitted, and which policies need it', () =>
    onServer({}, withUser('-zadd', '-set'), async (port) => {
      const [set, zadd, ...others] = problems(await found(port, user));
      assert.equal(others.length, 0);
      assert.equal(set!.level, 'error');
      assert.match(
        set!.message,
        /does not run SET, which decisions need: .*(can't run this command|no permissions to run)/,
      );
      assert.equal(zadd!.level, 'warning');
      assert.match(zadd!.message, /does not run ZADD, which only concurrency needs/);
    }));

  it('a command that only overrides need', () =>
    onServer({}, withUser('-mget'), async (port) => {
      const [mget, ...others] = problems(await found(port, user));
      assert.equal(others.length, 0);
      assert.equal(mget!.level, 'warning');
      assert.match(mget!.message, /does not run MGET, which only overrides need/);
    }));

  it('keys that are not permitted', () =>
    onServer({}, withUser('resetkeys', '~other:*'), async (port) => {
      const findings = problems(await found(port, user));
      assert.ok(findings.some(({ level, message }) => level === 'error' && /NOPERM/.test(message)));
    }));

  it('scripts that are not permitted', () =>
    onServer({}, withUser('-evalsha'), async (port) =>
      only(await found(port, user), 'error', 'commands', /does not run scripts: NOPERM .*evalsha/),
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
        async (port) =>
          only(await found(port), 'warning', 'eviction', new RegExp(`${policy}: a full server deletes`)),
      ));
  }

  it('no maxmemory: nothing is evicted', () =>
    onServer(
      { args: ['--maxmemory-policy', 'allkeys-lru'] },
      () => {},
      async (port) => assert.deepEqual(problems(await found(port)), []),
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
          only(await found(port), 'warning', 'clock', /12\.\d s ahead of this process/);
        } finally {
          Date.now = now;
        }
      },
    ));

  it('no server: it is said, and nothing is thrown', async () => {
    only(await found(await freePort()), 'error', 'connection', /cannot be reached/);
  });

  it('options of the client that are a danger', async () => {
    const socket = (options: object) => createClient({ socket: { port: 1, ...options } as object });
    const cases: [unknown, Finding['level'], RegExp][] = [
      [new Redis({ lazyConnect: true }), 'warning', /no socketTimeout/],
      [
        new Redis({ lazyConnect: true, socketTimeout: 5000, retryStrategy: null! }),
        'error',
        /not connect again/,
      ],
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

/** A server that lacks a command, behind what says that it is Redis 5. */
async function oldServer(look: (port: number) => Promise<void>): Promise<void> {
  await onServer(
    { config: 'rename-command SETRANGE ""' },
    () => {},
    async (target) => {
      const sockets = new Set<Socket>();
      const proxy = createServer((client) => {
        const server = connect(target, '127.0.0.1');
        for (const socket of [client, server]) sockets.add(socket.on('error', () => {}));
        client.pipe(server);
        server.on('data', (data) => {
          const text = data.toString('latin1').replace(/redis_version:\d/, 'redis_version:5');
          client.write(text, 'latin1');
        });
      }).listen(0, '127.0.0.1');
      await new Promise((resolve) => proxy.once('listening', resolve));
      try {
        await look((proxy.address() as AddressInfo).port);
      } finally {
        for (const socket of sockets) socket.destroy();
        proxy.close();
      }
    },
  );
}

describe('a server that is too old', () => {
  it('is named by a check', () =>
    oldServer(async (port) => {
      const [version, command, ...others] = problems(await found(port));
      assert.equal(others.length, 0);
      assert.match(
        version!.message,
        /^Redis 5\.\S+ is too old: Headgate needs Redis 6\.0 or later, or Valkey\.$/,
      );
      assert.match(command!.message, /does not have SETRANGE, which decisions need/);
    }));

  for (const name of ['ioredis 6', 'node-redis'] as const) {
    it(`is named by the first call that fails, by ${name}`, () =>
      oldServer(async (port) => {
        const { client, end } = clientKinds[name](port);
        const limiter = createLimiter({
          store: redisStore(client),
          limit: 5,
          window: '1m',
          timeout: '5s',
          onStoreError: 'throw',
        });
        // Only where there is state already it is rewritten in part.
        await limiter.consume('a');
        await assert.rejects(
          limiter.consume('a'),
          (error) =>
            error instanceof HeadgateError &&
            error.code === 'HEADGATE_STORE_ERROR' &&
            /^Redis 5\.\S+ is too old/.test(error.message) &&
            /SETRANGE|unknown/i.test((error.cause as Error).message),
        );
        assert.match(limiter.health.lastError!.message, /is too old/);
        await limiter.close();
        end();
      }));
  }

  it('tells of overrides that change nothing, because the limiter has other policies by now', () =>
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
        } as const;
        const before = createLimiter(options);
        await before.override('ada', { limit: 9 });
        await before.override('bob', '9/1m');
        assert.deepEqual(await ofOverrides(store), ['ok']);
        await before.close();
        const after = createLimiter({ ...options, algorithm: 'gcra' });
        await after.override('eva', { limit: 9 });
        assert.deepEqual(await ofOverrides(store), ['warning api:ada.']);
        await client.set('hg:{api:ada}o1', 'garbage');
        assert.deepEqual(await ofOverrides(store), ['warning api:ada.']);
        await after.close();
        assert.deepEqual(await ofOverrides(store), []);
        client.disconnect();
      },
    ));

  async function ofOverrides(store: { check(): Promise<readonly Finding[]> }): Promise<string[]> {
    const its = (await store.check()).filter(({ code }) => code === 'overrides');
    return its.map(({ level, message }) =>
      level === 'ok' ? level : `${level} ${/nothing: (\S+)/.exec(message)![1]!}`,
    );
  }
});
