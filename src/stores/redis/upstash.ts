import { checkShape } from '../../common/validate.js';
import type { Commands } from './clients/commands.js';
import { upstashRedis, type UpstashLike, type UpstashRedis } from './clients/upstash.js';
import { REDIS_TABLE, storeOn, type CheckableStore, type RedisStoreOptions } from './redis.js';

/**
 * A store in a Redis that is reached over HTTP: the store of `headgate/redis`, without the code for connections.
 *
 * @param client `upstashRedis({ url, token })`, or a `Redis` of `@upstash/redis`
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`
 */
export function redisStore(
  client: UpstashRedis | UpstashLike,
  options: RedisStoreOptions = {},
): CheckableStore {
  checkShape('redisStore', options, Object.keys(REDIS_TABLE));
  return storeOn(upstashRedis(client) as unknown as Commands, options);
}
