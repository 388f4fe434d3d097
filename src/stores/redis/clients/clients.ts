import { HeadgateError, invalidOption } from '../../../common/errors.js';
import { oncePer } from '../../../common/lazy.js';
import { COMMANDS, type Commands } from './commands.js';
import { IoredisCommands, type IoredisLike } from './ioredis.js';
import { NodeRedisCommands, type NodeRedisLike } from './node-redis.js';
import type { UpstashRedis } from './upstash.js';

/** The clients that `redisStore` accepts, distinguished by their methods. */
export type RedisClient = IoredisLike | NodeRedisLike | UpstashRedis;

/** One object per client, even for several stores, because the object listens to the client's events. */
const once = oncePer(recognise);

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` unless it has the methods of a supported client */
export function commandsOf(client: RedisClient): Commands {
  return typeof client === 'object' && client !== null ? once(client) : recognise(client);
}

function recognise(client: RedisClient): Commands {
  const given = client as Partial<IoredisLike & NodeRedisLike & { [COMMANDS]: Commands }> | null | undefined;
  if (given?.[COMMANDS]) return given[COMMANDS];
  if (typeof given?.evalsha === 'function' && typeof given.status === 'string')
    return new IoredisCommands(client as IoredisLike);
  if (typeof given?.evalSha !== 'function' || typeof given.isOpen !== 'boolean')
    throw invalidOption('redisStore: client', client, `Pass a client: ${ACCEPTED}.`);
  const isRecent = 'withCommandOptions' in given;
  // A pool or a Sentinel client manages several connections, so it has no `select`.
  if (isRecent && ('slots' in given || 'select' in given))
    return new NodeRedisCommands(client as NodeRedisLike);
  throw refusal(given);
}

const ACCEPTED =
  'new Redis(url) or new Cluster([...]) of ioredis or iovalkey, createClient() or createCluster() of redis, upstashRedis({ url, token })';

/** The error for a client that might have its calls counted twice. */
function refusal(client: object): HeadgateError {
  const why =
    'use' in client
      ? 'a client of createSentinel() repeats calls after a lost connection, so requests would be counted twice. ' +
        'For Sentinel pass new Redis({ sentinels, name }) of ioredis or iovalkey.'
      : 'execute' in client
        ? 'a pool of createClientPool() delays calls until one of its clients is free. Pass one createClient(), which accepts any ' +
          'number of decisions at a time.'
        : !('withCommandOptions' in client)
          ? `redis 4 is too old. Install version 5 or later, or pass another client: ${ACCEPTED}.`
          : `this kind of client has not been tested for calls that are counted twice. Pass ${ACCEPTED}.`;
  return new HeadgateError('HEADGATE_INVALID_OPTION', `redisStore: client: ${why}`);
}
