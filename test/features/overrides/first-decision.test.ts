// A process that begins while an override of all keys is in force.
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { startServer, type TestServer } from '../../support/servers.js';
import { perServer, serverKinds } from '../../support/shared-servers.js';
import { clients, freshPrefix } from '../../support/stores.js';

const prefixes = perServer(freshPrefix);

for (const kind of serverKinds) {
  describe(`the first decision of a process, on ${kind}`, () => {
    for (const change of [
      { limit: 1 },
      '1/2m',
      { algorithm: 'token-bucket', limit: 1, window: '1m' },
    ] as const) {
      it(`obeys the override of all keys ${JSON.stringify(change)}`, async () => {
        const open = () =>
          createLimiter({
            store: redisStore(clients[kind], {
              prefix: `${prefixes[kind]}-${JSON.stringify(change).length}`,
            }),
            ...{ name: 'api', limit: 100, window: '1m', overrides: true, timeout: '1m' },
          });
        const first = open();
        await first.overrideAll(change);
        const second = open();
        const decisions = await Promise.all([
          second.consume('ada'),
          second.consume('ada'),
          second.peek('ada'),
        ]);
        expect(decisions.map(({ allowed, limit }) => [allowed, limit])).to.deep.equal([
          [true, 1],
          [false, 1],
          [false, 1],
        ]);
        await Promise.all([first.close(), second.close()]);
      });
    }
  });
}

describe('the first decision of a process, on a store that does not answer', () => {
  let server: TestServer;
  before(async () => (server = await startServer('redis')));
  after(() => server.stop());

  for (const [onStoreError, expected] of [
    ['local', true],
    ['allow', true],
    ['deny', false],
    ['throw', 'HEADGATE_STORE_TIMEOUT'],
  ] as const) {
    it(`asks no second question, under onStoreError: ${onStoreError}`, async () => {
      const redis = new Redis(server.port);
      await redis.ping();
      const sent: string[] = [];
      const send = redis.sendCommand.bind(redis);
      redis.sendCommand = (command, stream) => {
        sent.push(command.args.join(' '));
        return send(command, stream);
      };
      await server.kill('SIGSTOP');
      const limiter = createLimiter({
        store: redisStore(redis),
        ...{
          name: 'api',
          limit: 100,
          window: '1m',
          overrides: true,
          connectTimeout: '100ms',
          warnings: false,
        },
        onStoreError,
      });
      const outcome = await limiter.consume('visitor').then(
        ({ allowed, degraded }) => degraded && allowed,
        ({ code }: { code: string }) => code,
      );
      await server.kill('SIGCONT');
      expect(outcome).to.equal(expected);
      // A second question would wait for its own time.
      expect(sent.join()).to.contain('api').and.not.contain('visitor');
      await limiter.close();
      redis.disconnect();
    });
  }
});
