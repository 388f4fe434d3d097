import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import { redisStore } from 'headgate/redis';
import { recommended } from './clients.js';
import { Sentinels } from './failover.js';
import { MODES } from './load.js';
import { check, play } from './play.js';

describe('a failover by Sentinel, under load', function () {
  this.timeout(120_000);

  const connect = {
    'ioredis 6': (options: object) => new Redis(options),
    'ioredis 5': (options: object) => new Redis5(options),
  };
  for (const [name, make] of Object.entries(connect)) {
    it(`loses at most the charges that were not replicated, by ${name}`, async () => {
      const set = await Sentinels.start();
      const client = make({
        ...recommended,
        sentinels: set.sentinels.map(({ port }) => ({ host: '127.0.0.1', port })),
        name: 'headgate',
        sentinelRetryStrategy: () => 100,
      });
      client.on('error', () => {});
      try {
        const stores = MODES.map(() => redisStore(client));
        const scene = {
          forgets: true,
          break: () => set.primary.kill('SIGKILL'),
          mend: () => set.failedOver(),
        } as const;
        const outcome = await play(scene, stores, () => 0);
        await check(`failover by Sentinel (${name})`, scene, stores, outcome);
      } finally {
        client.disconnect();
        await set.stop();
      }
    });
  }
});
