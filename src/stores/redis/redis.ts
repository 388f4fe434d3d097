import type { Duration } from '../../common/duration.js';
import { invalidOption } from '../../common/errors.js';
import {
  custom,
  durationOrFalse,
  fn,
  optional,
  readOptions,
  switched,
  type OptionTable,
} from '../../common/options.js';
import { checkShape } from '../../common/validate.js';
import { STREAM_TABLE, type StreamOptions } from '../../features/thresholds/contract/stream-options.js';
import type { Finding } from './operators/finding.js';
import { commandsOf, type RedisClient } from './clients/clients.js';
import type { Commands } from './clients/commands.js';
import { pastClockError } from './calls/script-calls.js';
import { compileHashing, type KeyHashing } from './secret-keys.js';
import { SLICE_TABLE, type SliceOptions } from './local/slice-options.js';
import { wrap } from '../../contract/wrap.js';
import { Slices } from './local/slices.js';
import { sharedBy } from './local/watched-keys.js';
import type { Clock, Store } from '../../contract/store.js';
import { refusal } from '../../contract/together.js';
import { COUNT_TABLE, type CountOptions } from '../counts/traffic.js';

import { RedisStore } from './redis-store.js';

export type { RedisClient } from './clients/clients.js';

export type { Finding } from './operators/finding.js';

export type { SliceOptions } from './local/slice-options.js';

/** A store that can check whether limits can be enforced on its servers. */
export interface CheckableStore extends Store {
  /**
   * Checks the servers' versions, commands and permissions, eviction and clocks, and the client's options. Writes nothing, takes a few
   * seconds at most, returns both problems and confirmations, and never rejects. See https://github.com/headgate/headgate/blob/main/docs/redis.md.
   */
  check(): Promise<readonly Finding[]>;
}

export type { CountOptions } from '../counts/traffic.js';

/** The options of {@link redisStore} in addition to the client. */
export interface RedisStoreOptions extends StreamOptions {
  /** The prefix of all keys: 1 to 64 printable ASCII characters without braces. @default 'hg' */
  prefix?: string | undefined;
  /**
   * A secret that hashes keys: at least 16 characters, the same in all processes. Addresses and accounts are then not readable in
   * Redis (HMAC-SHA256). With a different secret, all state begins anew. See https://github.com/headgate/headgate/blob/main/docs/redis.md.
   *
   * @default false
   */
  hashKeys?: string | false | undefined;
  /**
   * The time for which a denial is repeated without a call: at least `'1ms'`, or `false`. A remembered denial ends
   * earlier when the server would admit, and at once when this store returns units, resets or unbans. Units returned by other processes are
   * noticed after this time at the latest. See https://github.com/headgate/headgate/blob/main/docs/hot-keys.md.
   *
   * @default '1s', or `false` with a `clock`
   */
  localDenials?: Duration | false | undefined;
  /**
   * Decides on hot keys in this process, from quota that is charged in advance. No limit is exceeded. Pass `true`, or `{ size,
   * hold }`. See https://github.com/headgate/headgate/blob/main/docs/hot-keys.md.
   *
   * @default false
   */
  slices?: boolean | SliceOptions | undefined;
  /**
   * The interval at which limiters are published for commands: at least `'1ms'`. `false`, or a `clock`,
   * switches this off. Bans are recorded in any case. See https://github.com/headgate/headgate/blob/main/docs/redis.md.
   * @default '30s', or `false` over HTTP
   */
  publish?: Duration | false | undefined;
  /**
   * Counts decisions, for `headgate top`, the dashboard and the history of denied keys. Counting takes 0.2 μs of a decision;
   * the counts are written to Redis once a second. `false` switches this off.
   *
   * @default true, or `false` over HTTP or with a `clock`
   */
  counts?: boolean | CountOptions | undefined;
  /** For tests: a clock to decide by. Keys still expire by the server's clock, so a clock in the past is refused. */
  clock?: Clock | undefined;
}

export const REDIS_TABLE = {
  prefix: optional('1 to 64 printable ASCII characters without braces', checkPrefix, 'hg'),
  hashKeys: custom('a secret, or `false`', (_, secret) => compileHashing(secret as string | false), false),
  localDenials: durationOrFalse('1s'),
  slices: switched(SLICE_TABLE),
  publish: durationOrFalse('30s'),
  counts: switched(COUNT_TABLE, true),
  ...STREAM_TABLE,
  clock: fn(),
} satisfies OptionTable<RedisStoreOptions>;

function checkPrefix(option: string, prefix: unknown): string {
  if (typeof prefix === 'string' && /^[\x21-\x7a\x7c\x7e]{1,64}$/.test(prefix)) return prefix;
  throw invalidOption(option, prefix, 'Pass 1 to 64 printable ASCII characters without braces.');
}

/**
 * A store in Redis 6.0 or later, or in Valkey. The store neither configures nor closes the client.
 *
 * @param client a `Redis` or `Cluster` of ioredis or iovalkey, or a client that `createClient` or `createCluster` of the package `redis`
 * made
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`
 */
export function redisStore(client: RedisClient, options: RedisStoreOptions = {}): CheckableStore {
  checkShape('redisStore', options, Object.keys(REDIS_TABLE));
  return storeOn(commandsOf(client), options);
}

export function storeOn(commands: Commands, options: RedisStoreOptions): CheckableStore {
  // If `hashKeys` is present but undefined, the secret is missing. The check refuses it, so that keys are not written in clear.
  const given = { hashKeys: false, ...options };
  const {
    slices: slicing,
    hashKeys: hashing,
    counts,
    ...values
  } = readOptions(REDIS_TABLE, given, 'redisStore.');
  const { clock, prefix, thresholds } = values;
  if (thresholds && commands.cluster) throw refusal('streamInCluster', 'redisStore.thresholds', thresholds);
  const past = clock && pastClockError(clock);
  if (past) throw past;
  if (slicing && clock) {
    throw invalidOption(
      'redisStore.slices',
      options.slices,
      "Omit slices together with a test's clock: this process spends slices by its own time.",
    );
  }
  const connection = { commands, prefix, hashing, clock };
  const store = new RedisStore(commands, {
    ...{ clock, prefix, hashing, stream: thresholds === 'stream' },
    sample: (clock || commands.connectionless) && options.counts === undefined ? undefined : counts?.sample,
    // With a clock, both are off unless the user sets them. Over HTTP each publication would be a request.
    localDenials: clock && options.localDenials === undefined ? undefined : values.localDenials,
    publish: (clock || commands.connectionless) && options.publish === undefined ? undefined : values.publish,
  });
  connections.set(store, connection);
  if (!slicing) return store;
  const slices = new Slices(store, slicing, sharedBy(commands), JSON.stringify([prefix, hashing.mark]));
  const sliced = wrap(store, slices);
  connections.set(sliced, connection);
  return Object.assign(sliced, { check: () => store.check() });
}

/** The parts of a store on Redis, for the administration. */
export interface RedisConnection {
  readonly commands: Commands;
  readonly prefix: string;
  readonly hashing: KeyHashing;
  /** The clock of a test. */
  readonly clock?: Clock | undefined;
}

const connections = new WeakMap<Store, RedisConnection>();

export function connectionOf(store: Store): RedisConnection | undefined {
  return connections.get(store);
}

/** The `prefix` of a store that `redisStore` made. Undefined for other stores. */
export function prefixOf(store: Store): string | undefined {
  return connectionOf(store)?.prefix;
}
