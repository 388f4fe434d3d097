// After a reconnect, ioredis repeats the calls without an answer: the store must not run them again.
import assert from 'node:assert/strict';
import { Cluster, Redis } from 'ioredis';
import { Cluster as Cluster5 } from 'ioredis5';
import { createLimiter, HeadgateError } from 'headgate';
import { redisStore } from 'headgate/redis';
import { freePort, startServer, type TestServer } from '../../support/servers.js';
import type { RedisClient } from '../../../src/stores/redis/clients/clients.js';
import { freshPrefix } from '../../support/stores.js';
import { clientKinds } from './clients.js';
import { until } from './load.js';
import { Proxy } from './proxy.js';

const ROUNDS = 10;
const CALLS = 20;

/** Cuts replies to calls that have enough time, and checks the charges of each. */
async function cutReplies(client: RedisClient, proxy: Proxy): Promise<void> {
  const limiter = createLimiter({
    name: 'resend',
    store: redisStore(client, { prefix: freshPrefix() }),
    policies: '10/10m',
    timeout: '5s',
    onStoreError: 'throw',
  });
  const ready = () =>
    until(() =>
      limiter.peek('ready').then(
        () => true,
        () => false,
      ),
    );
  let ranUnanswered = 0;
  for (let round = 0; round < ROUNDS; round++) {
    await ready();
    proxy.cutNextReply();
    const keys = Array.from({ length: CALLS }, (_, i) => `${round}-${i}`);
    const answers = await Promise.allSettled(keys.map((key) => limiter.consume(key)));
    await ready();
    for (const [i, key] of keys.entries()) {
      const charged = 10 - (await limiter.peek(key)).remaining;
      const answer = answers[i]!;
      if (answer.status === 'fulfilled') {
        assert.equal(charged, 1, key);
      } else {
        assert.ok(answer.reason instanceof HeadgateError);
        assert.match(answer.reason.code, /^HEADGATE_STORE_(AWAY|ERROR)$/);
        assert.ok(charged <= 1, `${key} was counted ${charged} times`);
        ranUnanswered += charged;
      }
    }
  }
  assert.ok(ranUnanswered > 0, 'no call had run when its connection was cut: this shows nothing');
  await limiter.close();
}

describe('calls whose connection is cut in mid-reply do not run twice, even with enough time', () => {
  let server: TestServer;
  let node: TestServer;
  before(async () => {
    server = await startServer('redis');
    node = await startServer('redis', {
      args: [
        '--cluster-enabled',
        'yes',
        '--cluster-announce-ip',
        '127.0.0.1',
        '--cluster-port',
        String(await freePort()),
      ],
    });
    const admin = new Redis(node.port);
    await admin.cluster('ADDSLOTSRANGE', 0, 16_383);
    await until(async () => String(await admin.cluster('INFO')).includes('cluster_state:ok'));
    admin.disconnect();
  });
  after(async () => {
    await server.stop();
    await node.stop();
  });

  for (const [name, connect] of Object.entries(clientKinds)) {
    it(`by ${name}`, async () => {
      const proxy = new Proxy(server.port);
      await proxy.open();
      const { client, end } = connect(proxy.port);
      await cutReplies(client, proxy);
      end();
      await proxy.close();
    });
  }

  // Either the node's own client repeats the call after its reconnect, or the cluster's client does after a while.
  for (const [name, Client] of Object.entries({ 'ioredis 6': Cluster, 'ioredis 5': Cluster5 })) {
    for (const clusterNodeRetryStrategy of [null, () => 20]) {
      it(`by ${name} Cluster, ${clusterNodeRetryStrategy ? 'whose nodes reconnect' : 'with default options'}`, async () => {
        const proxy = new Proxy(node.port);
        await proxy.open();
        const address = { host: '127.0.0.1', port: proxy.port };
        const client = new Client([address], {
          clusterNodeRetryStrategy,
          clusterRetryStrategy: () => 50,
          natMap: { [`127.0.0.1:${node.port}`]: address },
        });
        client.on('error', () => {});
        await cutReplies(client, proxy);
        client.disconnect();
        await proxy.close();
      });
    }
  }
});
