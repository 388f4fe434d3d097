// `limiter.wait` on every store for units that requests give back: see `returns.ts`. PostgreSQL has a test of its own.
import { join } from 'node:path';
import { redisStore } from 'headgate/redis';
import { redisStore as restStore, upstashRedis } from 'headgate/upstash';
import type { RestServer } from '../../support/rest-server.js';
import { useRest } from '../../support/rest-subject.js';
import { serverKinds } from '../../support/shared-servers.js';
import { drivers, makeDirectory, storeOn } from '../../support/sqlite.js';
import { clients, freshPrefix, map, memory } from '../../support/stores.js';
import { describeWaitReturns } from './returns.js';

describeWaitReturns('memory', () => [memory()]);
describeWaitReturns('a byte store', () => [map()]);
if (Object.keys(drivers).length > 0)
  describeWaitReturns('SQLite', () => {
    const path = join(makeDirectory(), 'limits.db');
    return [storeOn(path), storeOn(path)];
  });
for (const kind of serverKinds) {
  describeWaitReturns(kind, () => {
    const prefix = freshPrefix();
    return [redisStore(clients[kind], { prefix }), redisStore(clients[kind], { prefix })];
  });
}

describe('Redis over HTTP', () => {
  let rest: RestServer;
  useRest((started) => (rest = started));
  describeWaitReturns('REST', () => {
    const { url, token } = rest;
    const prefix = freshPrefix();
    return [
      restStore(upstashRedis({ url, token }), { prefix }),
      restStore(upstashRedis({ url, token }), { prefix }),
    ];
  });
});
