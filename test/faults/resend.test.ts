// ioredis sends what was not answered again after a reconnect: the store must not run it again.
import assert from 'node:assert/strict';
import { createLimiter, HeadgateError } from 'headgate';
import { redisStore } from 'headgate/redis';
import { startServer, type TestServer } from '../support/servers.js';
import { clientKinds } from './clients.js';
import { until } from './load.js';
import { Proxy } from './proxy.js';

const ROUNDS = 10;
const CALLS = 20;

describe('calls whose connection is cut in mid-reply', () => {
  let server: TestServer;
  before(async () => (server = await startServer('redis')));
  after(() => server.stop());

  for (const [name, connect] of Object.entries(clientKinds)) {
    it(`are not run twice by ${name}, though there is time`, async () => {
      const proxy = new Proxy(server.port);
      await proxy.open();
      const client = connect(proxy.port);
      const limiter = createLimiter({
        name,
        store: redisStore(client.client),
        limit: 10,
        window: '10m',
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
      client.end();
      await proxy.close();
    });
  }
});
