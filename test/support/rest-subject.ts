// The store over HTTP in the form that headgate-testing expects, and its server for a suite.
import { redisStore, upstashRedis } from 'headgate/upstash';
import type { StoreUnderTest } from 'headgate-testing';
import { runsOf, storeUnderPrefix } from './kit.js';
import { startRest, type RestServer } from './rest-server.js';
import { clients } from './stores.js';

/** @param rest called for each store, because the server starts after the checks were made */
export function restSubject(rest: () => RestServer, onServer: number): StoreUnderTest {
  return storeUnderPrefix(
    clients.redis,
    (clock, prefix) => {
      const { url, token } = rest();
      return redisStore(upstashRedis({ url, token }), { clock, prefix });
    },
    runsOf('redis', 0, onServer),
  );
}

/** Starts a server in front of the shared Redis for the tests of a suite. @param take receives the server before the tests */
export function useRest(take: (rest: RestServer) => void): void {
  let rest: RestServer;
  before(async () => take((rest = await startRest(clients.redis))));
  after(() => rest.close());
}
