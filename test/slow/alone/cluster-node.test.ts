// One server of a cluster hangs or is down: only its keys use onStoreError, at once, and no calls pile up.
import assert from 'node:assert/strict';
import { Cluster, Redis } from 'ioredis';
import { Cluster as Cluster5 } from 'ioredis5';
import { Cluster as ValkeyCluster } from 'iovalkey';
import { createCluster, RESP_TYPES } from 'redis';
import { createLimiter, type Decision, type Health } from 'headgate';
import { redisStore, type RedisClient } from 'headgate/redis';
import { commandsOf } from '../../../src/stores/redis/clients/clients.js';
import { slotOf } from '../../../src/stores/redis/clients/hash-slot.js';
import { startCluster, type TestCluster } from '../../support/cluster.js';
import { freshPrefix } from '../../support/stores.js';
import { sleep, until } from '../faults/load.js';

const SERVER_COUNT = 3;
const TIMEOUT = 100;
const ROUNDS = 300;

interface Made {
  readonly client: RedisClient;
  end(): void;
}

function ioredis(client: Cluster | Cluster5 | ValkeyCluster): Made {
  client.on('error', () => {});
  return { client, end: () => client.disconnect() };
}

const nodes = ({ servers }: TestCluster) => servers.map(({ port }) => ({ host: '127.0.0.1', port }));

const clients: Record<string, (cluster: TestCluster) => Promise<Made>> = {
  'ioredis 6': async (cluster) => ioredis(new Cluster(nodes(cluster))),
  'ioredis 5': async (cluster) => ioredis(new Cluster5(nodes(cluster))),
  iovalkey: async (cluster) => ioredis(new ValkeyCluster(nodes(cluster))),
  async 'node-redis'(cluster) {
    let ended = false;
    const client = createCluster({
      rootNodes: cluster.servers.map(({ url }) => ({ url })),
      defaults: { socket: { reconnectStrategy: () => !ended && 100 } },
    });
    client.on('error', () => {});
    await client.connect();
    const end = () => {
      // A node that is connecting would go on, and keep the process alive.
      ended = true;
      client.destroy();
    };
    return { client: client as unknown as RedisClient, end };
  },
};

describe('a cluster of which one server does not answer', function () {
  this.timeout(60_000);
  let cluster: TestCluster;
  before(async () => {
    const args = ['--cluster-require-full-coverage', 'no', '--cluster-node-timeout', '60000'];
    cluster = await startCluster('redis', SERVER_COUNT, args);
  });
  after(() => cluster.stop());

  it('a slot equals the server’s', async () => {
    const admin = new Redis(cluster.servers[0]!.port);
    for (const key of [
      '',
      'a',
      'hg:{api:user 1}s1',
      '{}x',
      '{a}{b}',
      'x}{y}',
      '{ü}',
      '😀'.repeat(50),
      'a{b',
      '{{c}}',
    ])
      assert.equal(slotOf(key), await admin.cluster('KEYSLOT', key), key);
    admin.disconnect();
  });

  for (const [name, connect] of Object.entries(clients)) {
    it(`only its keys are decided by onStoreError, and at once, by ${name}`, async () => {
      const { client, end } = await connect(cluster);
      const first = createLimiter({ store: redisStore(client), limit: 10, window: '10m' });
      await until(async () => !(await first.consume('connected')).degraded);
      await first.close();
      const [hung] = cluster.servers;
      const address = `127.0.0.1:${hung!.port}`;
      await hung!.kill('SIGSTOP');
      // A new store without calls: the first calls to other servers must not wait for the call to the hanging server.
      const states: Health[] = [];
      const limiter = createLimiter({
        name: 'node',
        store: redisStore(client, { prefix: freshPrefix() }),
        policies: '10/10m',
        timeout: TIMEOUT,
        onHealth: (health) => states.push(health),
      });
      // A key of each server.
      let tried = 0;
      const keyOn = (server: number): string => {
        for (;;) {
          const key = `key-${tried++}`;
          if (Math.floor((slotOf(`{node:${key}}`) * SERVER_COUNT) / 16_384) === server) return key;
        }
      };
      try {
        let waited = 0;
        const asked: string[] = [];
        const decisions: Promise<void>[] = [];
        for (let round = 0; round < ROUNDS; round++) {
          for (let server = 0; server < SERVER_COUNT; server++) {
            const key = keyOn(server);
            const at = performance.now();
            decisions.push(
              limiter.consume(key).then(({ degraded }) => {
                assert.equal(degraded, server === 0, `round ${round}, server ${server}`);
                if (server === 0 && performance.now() - at >= TIMEOUT) waited++;
                if (server === 0) asked.push(key);
              }),
            );
          }
          await sleep(5);
        }
        await Promise.all(decisions);
        assert.ok(waited < ROUNDS / 4, `${waited} of ${ROUNDS} waited for the server`);
        const { state, serversDown, lastError } = limiter.health;
        assert.deepEqual({ state, serversDown }, { state: 'up', serversDown: [address] });
        assert.equal(lastError?.code, 'HEADGATE_STORE_TIMEOUT');
        if (client instanceof Cluster) {
          const node = client.nodes().find(({ options }) => options.port === hung!.port) as unknown as Queue;
          assert.ok(node.commandQueue.length < ROUNDS / 4, `${node.commandQueue.length} commands are queued`);
        }
        await hung!.kill('SIGCONT');
        await until(() => limiter.health.serversDown.length === 0);
        const again = await Promise.all(asked.map((key) => limiter.peek(key)));
        // Degraded answers were not counted, and the last answers equal the first.
        for (const { degraded, remaining } of again) {
          assert.equal(degraded, false);
          assert.equal(remaining, 10);
        }
        assert.deepEqual(
          states.map(({ state, serversDown }) => [state, serversDown]),
          [
            ['up', [address]],
            ['up', []],
          ],
        );
      } finally {
        await hung!.kill('SIGCONT');
        await limiter.close();
        end();
      }
    });
  }

  // The server is found healthy again, although a probe by keys of several dimensions asks other servers, too.
  it('with acrossSlots, the first key is there: the server is up again once it answers', async () => {
    await stopFor([0, 1]);
  });

  it('with acrossSlots, the last key is there: no call waits for the server once it is down', async () => {
    await stopFor([1, 0], async (consume) => {
      let waited = 0;
      for (let i = 0; i < 10; i++) {
        const at = performance.now();
        assert.equal((await consume()).degraded, true);
        if (performance.now() - at >= TIMEOUT) waited++;
      }
      assert.ok(waited < 5, `${waited} of 10 waited`);
    });
  });

  /** Stops the first server until it counts as down. @param places the servers of the address and the organisation */
  async function stopFor(
    [ipAt, orgAt]: [number, number],
    whileDown = async (_: () => Promise<Decision>) => {},
  ) {
    const { client, end } = await clients['ioredis 6']!(cluster);
    const limiter = createLimiter({
      name: 'across',
      store: redisStore(client, { prefix: freshPrefix() }),
      policies: ['ip=10/10m', 'org=10/10m by org'],
      acrossSlots: true,
      timeout: TIMEOUT,
    });
    const keyOn = (server: number, tag: string): string => {
      for (let i = 0; ; i++)
        if (Math.floor((slotOf(`{across:${tag}${i}}`) * SERVER_COUNT) / 16_384) === server) return String(i);
    };
    const key = { key: keyOn(ipAt, ''), org: keyOn(orgAt, '%@org=') };
    const [hung] = cluster.servers;
    try {
      await until(async () => !(await limiter.consume(key)).degraded);
      await hung!.kill('SIGSTOP');
      await until(async () => {
        await limiter.consume(key);
        return limiter.health.serversDown.join() === `127.0.0.1:${hung!.port}`;
      });
      await whileDown(() => limiter.consume(key));
      await hung!.kill('SIGCONT');
      await until(() => limiter.health.serversDown.length === 0);
      assert.equal((await limiter.consume(key)).degraded, false);
    } finally {
      await hung!.kill('SIGCONT');
      await limiter.close();
      end();
    }
  }

  it('an override of all keys is read from its own server, whatever server hangs', async () => {
    const { client, end } = await clients['ioredis 6']!(cluster);
    const placeOf = (who: string) => Math.floor((slotOf(`{${who}}`) * SERVER_COUNT) / 16_384);
    const isThere = (name: string) => placeOf(`${name}:`) === 0 && placeOf(`${name}:%@*`) === 1;
    const name = Array.from({ length: 1000 }, (_, i) => `all${i}`).find(isThere)!;
    const options = { name, limit: 10, window: '10m', overrides: true, timeout: TIMEOUT } as const;
    const limiter = createLimiter({ ...options, store: redisStore(client, { prefix: freshPrefix() }) });
    const [hung] = cluster.servers;
    try {
      await until(async () => !(await limiter.consume('')).degraded);
      await hung!.kill('SIGSTOP');
      await until(async () => {
        await limiter.consume('');
        return limiter.health.serversDown.length === 1;
      });
      await limiter.overrideAll({ limit: 20 });
      assert.deepEqual((await limiter.overrideOf())!.change, { limit: 20 });
    } finally {
      await hung!.kill('SIGCONT');
      await limiter.close();
      end();
    }
  });

  it('replies of node-redis to other commands have no effect', async () => {
    const typeMapping = { [RESP_TYPES.NUMBER]: String, [RESP_TYPES.BLOB_STRING]: Buffer };
    const client = createCluster({
      rootNodes: [{ url: cluster.servers[0]!.url }],
      commandOptions: { typeMapping },
    });
    client.on('error', () => {});
    await client.connect();
    const store = redisStore(client, { prefix: freshPrefix() });
    const limiter = createLimiter({ store, limit: 10, window: '1m', connectTimeout: '10s', timeout: '10s' });
    assert.equal((await limiter.consume('first')).degraded, false);
    await limiter.close();
    client.destroy();
  });

  it('node-redis learns again which servers have the slots that it has forgotten', async () => {
    const { client, end } = await clients['node-redis']!(cluster);
    const limiter = createLimiter({ store: redisStore(client), limit: 10, window: '1m', timeout: TIMEOUT });
    await until(async () => !(await limiter.consume('connected')).degraded);
    // A restarted server reports slots in this way until it knows the cluster.
    (client as unknown as { slots: unknown[] }).slots.fill(undefined);
    await until(async () => !(await limiter.consume('connected')).degraded);
    await limiter.close();
    end();
  });

  it('the store is down if all servers of a cluster hang', async () => {
    const { client, end } = await clients['ioredis 6']!(cluster);
    const limiter = createLimiter({ store: redisStore(client), limit: 10, window: '1m', timeout: TIMEOUT });
    await limiter.consume('connected');
    for (const server of cluster.servers) await server.kill('SIGSTOP');
    try {
      let i = 0;
      await until(async () => {
        await Promise.all(Array.from({ length: 9 }, () => limiter.consume(`key-${i++}`)));
        return limiter.health.state === 'down';
      });
      assert.equal(limiter.health.serversDown.length, SERVER_COUNT);
    } finally {
      for (const server of cluster.servers) await server.kill('SIGCONT');
    }
    await until(() => limiter.health.state === 'up' && limiter.health.serversDown.length === 0);
    await limiter.close();
    end();
  });
});

describe('a cluster without one of its servers', function () {
  this.timeout(60_000);

  for (const [name, connect] of Object.entries(clients)) {
    it(`the other servers go on, by ${name}`, async () => {
      const cluster = await startCluster('redis', SERVER_COUNT, ['--cluster-require-full-coverage', 'no']);
      const { client, end } = await connect(cluster);
      const limiter = createLimiter({ store: redisStore(client), limit: 10, window: '1m', timeout: TIMEOUT });
      try {
        await until(async () => !(await limiter.consume('connected')).degraded);
        await cluster.servers[0]!.kill('SIGKILL');
        let degraded = 0;
        let waited = 0;
        const decisions: Promise<void>[] = [];
        for (let round = 0; round < ROUNDS; round++) {
          const at = performance.now();
          decisions.push(
            limiter.consume(`key-${round}`).then((decision) => {
              if (!decision.degraded) return;
              degraded++;
              if (performance.now() - at >= TIMEOUT) waited++;
            }),
          );
          await sleep(5);
        }
        await Promise.all(decisions);
        assert.ok(degraded < ROUNDS / 2, `${degraded} of ${ROUNDS} were decided otherwise`);
        assert.ok(waited < ROUNDS / 10, `${waited} of ${ROUNDS} waited`);
        assert.equal(limiter.health.state, 'up');
      } finally {
        await limiter.close();
        end();
        await cluster.stop();
      }
    });
  }
});

describe('slices in a cluster of which one server is gone', function () {
  this.timeout(60_000);
  const LIMIT = 30_000;

  for (const [name, connect] of Object.entries(clients)) {
    it(`the keys of the others get their limit, by ${name}`, async () => {
      const cluster = await startCluster('redis', SERVER_COUNT, ['--cluster-require-full-coverage', 'no']);
      const { client, end } = await connect(cluster);
      const limiter = createLimiter({
        name: 'node',
        store: redisStore(client, { prefix: freshPrefix(), slices: true }),
        algorithm: 'fixed-window',
        limit: LIMIT,
        window: '1h',
        timeout: '5s',
      });
      let losses = 0;
      let healthyLosses = 0;
      commandsOf(client).onLost((server) => {
        losses++;
        if (server !== `127.0.0.1:${cluster.servers[0]!.port}`) healthyLosses++;
      });
      const [gone, ...others] = Array.from({ length: SERVER_COUNT }, (_, server) => keyOn(server));
      const admitted = new Map(others.map((key) => [key, 0]));
      const ask = async (key: string): Promise<boolean> => {
        const { allowed, degraded } = await limiter.consume(key);
        assert.equal(degraded, false, key);
        if (allowed) admitted.set(key, admitted.get(key)! + 1);
        return allowed;
      };
      const askAll = async (times: number) => {
        const keys = Array.from({ length: times }, () => others).flat();
        await Promise.all([...keys.map(ask), limiter.consume(gone!)]);
      };
      try {
        // Without full coverage a server is up before it knows all slots.
        for (const key of [gone!, ...others]) await until(async () => !(await limiter.peek(key)).degraded);
        for (let i = 0; i < 100; i++) await askAll(20);
        await cluster.servers[0]!.kill('SIGKILL');
        // Each loss ends the slices of the keys of a server, so losses must occur while the process has slices.
        const seen = losses;
        for (let i = 0; losses < seen + 8 || i < 100; i++) {
          await askAll(20);
          await sleep(5);
          assert.ok(Math.max(...admitted.values()) < LIMIT - 100, `${losses - seen} losses`);
        }
        for (const key of others) while (await ask(key)) if (Math.random() < 0.01) await sleep(0);
        // If the client also lost the connection to a healthy server, the slices of the server's keys ended with the connection.
        const least = healthyLosses > 0 ? 0.97 * LIMIT : LIMIT;
        for (const [key, count] of admitted)
          assert.ok(count <= LIMIT && count >= least, `${key}: ${count}, ${healthyLosses} healthy losses`);
      } finally {
        await limiter.close();
        end();
        await cluster.stop();
      }
    });
  }
});

/** A key of a limiter with the name `node` on a server. */
function keyOn(server: number): string {
  for (let i = 0; ; i++) {
    const key = `key-${i}`;
    if (Math.floor((slotOf(`{node:${key}}`) * SERVER_COUNT) / 16_384) === server) return key;
  }
}

interface Queue {
  readonly commandQueue: { readonly length: number };
}
