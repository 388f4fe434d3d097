import { redisStore, upstashRedis } from 'headgate/upstash';
import { checkIds } from './oracle.js';
import { runs } from '../../support/random.js';
import type { RestServer } from '../../support/rest-server.js';
import { useRest } from '../../support/rest-subject.js';
import { freshPrefix } from '../../support/stores.js';

describe('Redis over HTTP, request ids', () => {
  let rest: RestServer;
  useRest((started) => (rest = started));

  it('every answer and count is that of a plain list of charges', async () => {
    const { numRuns } = runs('rest', 3, 3);
    await checkIds(
      (clock) =>
        redisStore(upstashRedis({ url: rest.url, token: rest.token }), { clock, prefix: freshPrefix() }),
      numRuns,
    );
  });
});
