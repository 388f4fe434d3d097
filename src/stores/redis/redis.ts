import { toMilliseconds, type Duration } from '../../common/duration.js';
import { invalidOption } from '../../common/errors.js';
import { checkFunction, checkShape } from '../../common/validate.js';
import { checkServers, type Finding } from './check.js';
import { commandsOf, type RedisClient } from './clients/clients.js';
import { compileHashing, type KeyHashing } from './hash-keys.js';
import { checkLease, type LeaseOptions } from './lease-options.js';
import { Slices } from './slices.js';
import type { Clock, Store } from '../../contract/store.js';
import { checkTop, type TopOptions } from './traffic.js';

import { RedisStore } from './redis-store.js';

export type { RedisClient } from './clients/clients.js';

export type { Finding } from './check.js';

export type { LeaseOptions } from './lease-options.js';

/** A store that can say whether limits hold on its servers. */
export interface CheckableStore extends Store {
  /**
   * Looks at the servers' versions, commands and permissions, eviction and clocks, and at the client's options. It writes nothing, and takes
   * some seconds at most. What it finds it returns, problems and what is well; it never rejects. See docs/redis.md.
   */
  check(): Promise<readonly Finding[]>;
}

export type { TopOptions } from './traffic.js';

/** What {@link redisStore} takes besides the client. */
export interface RedisStoreOptions {
  /** What all keys begin with: 1 to 64 printable ASCII characters without braces. Default `'hg'`. */
  prefix?: string;
  /**
   * A secret by which keys are hashed (HMAC-SHA256), so that addresses and accounts don't stand in Redis in clear: 16 characters or more,
   * the same in all processes. With another secret all counts and bans begin anew. Default `false`. See docs/redis.md.
   */
  hashKeys?: string | false;
  /**
   * How long a denial may be repeated without asking the server again: from `'1ms'` on, or `false`; default `'1s'`, `false` with
   * a `clock`. It ends when the server would admit, and at once when this store gives back, resets or unbans; what other
   * processes give back meanwhile is seen after at most so long. See docs/redis.md.
   */
  localDenials?: Duration | false;
  /** Decide on hot keys from slices of their quota that are taken in advance. Off by default. See docs/redis.md. */
  lease?: LeaseOptions;
  /**
   * How often the store tells Redis which limiters it has, for `headgate limits` and the other commands: from `'1ms'` on, default
   * `'30s'`, a `clock` switches it off. `false`: it tells nothing of them. Bans are noted all the same. See docs/redis.md.
   */
  publish?: Duration | false;
  /** Count decisions by limiter, policy and key, and tell Redis once a second, for `headgate top`. Default `false`. */
  top?: boolean | TopOptions;
  /**
   * For tests: decides by this clock instead of the server's. It must not be behind the server's clock, by which keys expire.
   */
  clock?: Clock;
}

/**
 * A store in Redis 6.0 or later, or Valkey. The client stays yours: it is neither configured nor closed.
 *
 * @param client an ioredis or iovalkey `Redis` or `Cluster`, or what `createClient` or `createCluster` of the package `redis` made
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`
 */
export function redisStore(client: RedisClient, options: RedisStoreOptions = {}): CheckableStore {
  const known = ['prefix', 'hashKeys', 'localDenials', 'lease', 'publish', 'top', 'clock'];
  checkShape('redisStore', options, known);
  // A secret that is missing must not put keys there in clear.
  return openStore(client, options, compileHashing('hashKeys' in options ? options.hashKeys : false));
}

/** A store that writes keys in a given way. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function openStore(
  client: RedisClient,
  options: RedisStoreOptions,
  hashing: KeyHashing,
): CheckableStore {
  const commands = commandsOf(client);
  const { prefix = 'hg' } = options as { prefix?: unknown };
  if (typeof prefix !== 'string' || !/^[\x21-\x7a\x7c\x7e]{1,64}$/.test(prefix)) {
    throw invalidOption(
      'redisStore.prefix',
      prefix,
      'Write 1 to 64 printable ASCII characters without braces.',
    );
  }
  const clock = checkFunction('redisStore.clock', options.clock);
  const { localDenials = clock ? false : '1s' } = options;
  const longest =
    localDenials === false ? undefined : toMilliseconds('redisStore.localDenials', localDenials);
  const { publish = clock ? false : '30s' } = options;
  const every = publish === false ? undefined : toMilliseconds('redisStore.publish', publish);
  const sample = checkTop(options.top);
  const settings = { clock, prefix, localDenials: longest, publish: every, sample, hashing };
  const store = new RedisStore(commands, settings);
  const layered = options.lease === undefined ? store : new Slices(store, checkLease(options.lease));
  return Object.assign(layered, { check: () => checkServers(commands, prefix) });
}
