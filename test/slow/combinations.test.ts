// Features together over HTTP, for longer than test/http/combinations.test.ts, in memory and on servers.
import { Redis } from 'ioredis';
import { memoryStore } from 'headgate';
import { redisStore } from 'headgate/redis';
import type { TestClock } from 'headgate/testing';
import { run } from '../http/combinations/run.js';
import { allowTime } from '../support/hooks.js';
import { startServer, type ServerKind, type TestServer } from '../support/servers.js';

describe('combinations over HTTP, for longer', () => {
  it('charges, fields and bodies are those of the oracle, in memory', async () => {
    allowTime(180_000);
    const create = (clock: TestClock) => memoryStore({ clock: clock.read });
    for (const most of [30, 60, 300]) await run({ subject: { name: 'memory', create }, sites: 60, most });
  });

  for (const kind of ['redis', 'valkey'] as ServerKind[])
    describe(kind, () => {
      let server: TestServer;
      let client: Redis;
      before(async () => {
        server = await startServer(kind);
        client = new Redis(server.port);
      });
      after(async () => {
        client.disconnect();
        await server.stop();
      });

      it('charges, fields and bodies are those of the oracle', async () => {
        allowTime(180_000);
        let prefixes = 0;
        const create = (clock: TestClock) =>
          redisStore(client, {
            clock: clock.read,
            prefix: `c${(prefixes++).toString(36)}`,
            publish: false,
          });
        // Valkey runs the same scripts.
        const sites = kind === 'redis' ? 40 : 20;
        for (const most of [30, 400]) await run({ subject: { name: kind, create }, sites, most });
      });
    });
});
