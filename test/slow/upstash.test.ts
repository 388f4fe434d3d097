// The public suites over Redis over HTTP: the contract, all laws, identity with memory.
import { Redis } from 'ioredis';
import { storeChecks } from 'headgate-testing';
import { describeChecks } from '../support/kit.js';
import { startRest, type RestServer } from '../support/rest-server.js';
import { restSubject } from '../support/rest-subject.js';
import { servers } from '../support/shared-servers.js';
import { regressions } from '../vectors/regressions.js';

describe('Redis over HTTP', () => {
  let redis: Redis;
  let rest: RestServer;
  before(async () => {
    redis = new Redis(servers.redis.port);
    rest = await startRest(redis);
  });
  after(async () => {
    await rest.close();
    redis.disconnect();
  });
  describeChecks('over HTTP', storeChecks({ ...restSubject(() => rest, 4), traces: regressions }));
});
