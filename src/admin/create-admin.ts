import { toMilliseconds, type Duration } from '../common/duration.js';
import { HeadgateError, invalidOption } from '../common/errors.js';
import { checkChoice, checkShape } from '../common/validate.js';
import type { Store } from '../contract/store.js';
import { hashedText, shownHash } from '../stores/keys.js';
import { Memory } from '../stores/memory/memory-store.js';
import type { MemoryStore } from '../stores/memory/options.js';
import { commandsOf, type RedisClient } from '../stores/redis/clients/clients.js';
import { postgresDatabaseOf } from '../stores/postgres/postgres.js';
import { connectionOf, type RedisConnection } from '../stores/redis/redis.js';
import { compileHashing, type KeyHashing } from '../stores/redis/secret-keys.js';
import { isUrl, sqliteFileOf, sqliteStore, type SqliteDatabase } from '../stores/sqlite/sqlite.js';
import { banFunctions, type BanAdmin } from './bans/bans.js';
import type { Bound, Context } from './context.js';
import { denials } from './denials.js';
import { history } from './history.js';
import { key } from './key.js';
import { log } from './log.js';
import { MemoryState } from './memory-state.js';
import { overrideFunctions, type OverrideAdmin } from './overrides/overrides.js';
import { PostgresState } from './postgres-state.js';
import { RedisState } from './redis/redis-state.js';
import { queues } from './queues.js';
import { reset } from './resets.js';
import { SqliteState } from './sqlite-state.js';
import type { Loss, ServerMemory, State, StateSettings } from './state.js';
import { traffic } from './traffic.js';
import { undo } from './undo.js';
import type { Origin } from './unlogged.js';
import { tenants } from './tenants.js';
import { thresholds } from './thresholds.js';
import { usage } from './usage.js';
import { check, keys, limited, limiters } from './views.js';

/** The state of limiters: a store of Headgate, a Redis client, the path of an SQLite file, or an open database of SQLite. */
export type AdminSource = Store | MemoryStore | RedisClient | SqliteDatabase | string;

/** Options of `createAdmin`. */
export interface AdminOptions {
  /** For a Redis client: the prefix of the store's keys. @default 'hg' */
  prefix?: string | undefined;
  /** For a Redis client or an SQLite file: the secret of the store's option `hashKeys`. @default false */
  hashKeys?: string | false | undefined;
  /** The time limit for an answer of the store: `'1ms'` to `'1m'`. @default '5s' */
  timeout?: Duration | undefined;
  /** The interface that the log names for changes: `'admin'`, or `'cli'` for a command line. @default 'admin' */
  from?: Origin | undefined;
}

/** The longest time limit for an answer, ms. */
const MAX_TIMEOUT_MS = 60_000;

const SOURCES =
  'Pass a redisStore, sqliteStore, postgresStore or memoryStore, a Redis client (ioredis, iovalkey, redis), or the path of an SQLite file.';

/**
 * Creates the interface for operators: views of limiters, keys, bans and overrides, changes of them, and the log of all changes.
 *
 * @example
 * const admin = createAdmin(redisStore(redis))
 * await admin.ban('203.0.113.7', '2h', { name: 'api', by: 'ada', reason: 'scraping, INC-7' })
 * for await (const change of admin.log({ since: '1h' })) console.log(change)
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`
 */
export function createAdmin(source: AdminSource, options: AdminOptions = {}): Admin {
  checkShape('createAdmin', options, ['prefix', 'hashKeys', 'timeout', 'from']);
  const timeout = options.timeout === undefined ? 5000 : timeoutOf(options.timeout);
  const origin = checkChoice('from', options.from ?? 'admin', ['admin', 'cli']);
  const state = stateOf(source, options, { timeout, origin });
  return {
    ...functionsOf({ state, origin }),
    isCounted: state.counts !== undefined,
    loss: async () => (await state.loss?.()) ?? null,
    memory: async () => (await state.memory?.read()) ?? [],
    close: () => state.close(),
  };
}

function timeoutOf(given: Duration): number {
  try {
    return toMilliseconds('timeout', given, { most: MAX_TIMEOUT_MS, usual: 'brief' });
  } catch {
    throw invalidOption('timeout', given, "Pass '1ms' to '1m', such as '5s'.");
  }
}

function stateOf(
  source: unknown,
  { prefix, hashKeys = false }: AdminOptions,
  settings: StateSettings,
): State {
  if (source instanceof Memory) return new MemoryState(source, settings);
  const given = (source ?? {}) as Store & Partial<SqliteDatabase>;
  const isObject = typeof source === 'object' && source !== null;
  const file = isObject ? sqliteFileOf(given) : undefined;
  if (file) return new SqliteState(given, file, settings);
  const database = isObject ? postgresDatabaseOf(given) : undefined;
  if (database) return new PostgresState(given, database, settings);
  const isDatabase = typeof given.exec === 'function' && typeof given.prepare === 'function';
  if (typeof source === 'string' && isUrl(source))
    throw new HeadgateError(
      'HEADGATE_INVALID_OPTION',
      'createAdmin: pass a client or a store instead of a URL: createAdmin(new Redis(url)), or createAdmin(postgresStore(new Pool({ connectionString: url }))).',
    );
  if (typeof source === 'string' || isDatabase) {
    const store = sqliteStore(source as string | SqliteDatabase, hashKeys === false ? {} : { hashKeys });
    const state = new SqliteState(store, sqliteFileOf(store)!, settings);
    return Object.assign(state, { close: async () => store.close?.() });
  }
  const connection = isObject ? connectionOf(given) : undefined;
  if (connection) return redisState(connection, settings);
  const { evalsha, evalSha, decide } = given as Partial<Record<'evalsha' | 'evalSha' | 'decide', unknown>>;
  if (typeof evalsha !== 'function' && typeof evalSha !== 'function') {
    if (typeof decide !== 'function') throw invalidOption('createAdmin', source, SOURCES);
    throw new HeadgateError(
      'HEADGATE_INVALID_OPTION',
      `createAdmin: a store that is not one of Headgate's cannot be administered. ${SOURCES}`,
    );
  }
  if (prefix !== undefined && !/^[\x21-\x7a\x7c\x7e]{1,64}$/.test(prefix))
    throw invalidOption('prefix', prefix, 'Pass 1 to 64 printable ASCII characters without braces.');
  const commands = commandsOf(source as RedisClient);
  const state = redisState({ commands, prefix: prefix ?? 'hg', hashing: compileHashing(hashKeys) }, settings);
  const stopListening = commands.listen();
  return Object.assign(state, { close: () => Promise.resolve(stopListening()) });
}

function redisState({ hashing, ...connection }: RedisConnection, settings: StateSettings): State {
  return new RedisState({ ...connection, hashing: takingHashes(hashing) }, settings);
}

/** Takes a key in the form in which views show hashed keys, `hmac:...`, for the key with that hash. */
function takingHashes({ text, mark }: KeyHashing): KeyHashing {
  if (mark === undefined) return { text, mark };
  return {
    text: (key) => {
      const hash = shownHash(key);
      return hash === undefined ? text(key) : hashedText(hash);
    },
    mark,
  };
}

const FUNCTIONS = {
  ...{
    limiters,
    keys,
    limited,
    check,
    key,
    denials,
    tenants,
    reset,
    traffic,
    queues,
    history,
    log,
    thresholds,
  },
  ...{ undo, usage, ...banFunctions, ...overrideFunctions },
};

type Functions = { readonly [Name in keyof typeof FUNCTIONS]: Bound<(typeof FUNCTIONS)[Name]> };

function functionsOf(context: Context): Functions {
  const bound = Object.entries<(context: never, ...args: never[]) => unknown>(FUNCTIONS).map(
    ([name, use]) => [name, use.bind(undefined, context as never)] as const,
  );
  return Object.fromEntries(bound) as unknown as Functions;
}

/**
 * Views and changes for operators. Changes of bans, overrides and charges take the operator and the reason (`by`, `reason`), and are logged.
 * Every function rejects with a `HeadgateError`: `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION` and `HEADGATE_INVALID_ARGUMENT` for wrong
 * arguments; `HEADGATE_STORE_TIMEOUT` if the store does not answer in time.
 */
export interface Admin extends BanAdmin, OverrideAdmin {
  /** The limiters that processes have published, and processes whose options differ. In a database or in memory, those of this process. */
  limiters: Functions['limiters'];
  /**
   * The answers of all limiters, tiers and dimensions to a key: verdicts, ban and override. With `name`, that of one limiter. Nothing is charged.
   */
  key: Functions['key'];
  /**
   * The denials of a key in the last 24 hours, by limiter, minute and policy: why it was denied in the past. A store keeps those of the 540 most
   * denied keys of each hour.
   */
  denials: Functions['denials'];
  /** Keys with state, and facts about each: bans, verdicts, other state. `limited` and `bans` are shorter. */
  keys: Functions['keys'];
  /** The keys whose next request of cost 1 would be denied by a policy. */
  limited: Functions['limited'];
  /**
   * The tenants of a limiter's shared limits, with shares, units and rates. At most 200: those with most denials, then those with most used
   * units. Tenants of slots are known by counts of the last seconds only.
   */
  tenants: Functions['tenants'];
  /** Forgets the charges of a key, an address or a network. A ban stays. */
  reset: Functions['reset'];
  /** Decisions per second, by limiter, policy and key. Empty if no store counts (`counts: false`). */
  traffic: Functions['traffic'];
  /** The waiting requests and the slots in use by key and process, with the longest time of each. Empty if no store counts (`counts: false`). */
  queues: Functions['queues'];
  /** The decisions of the last hour by limiter, policy and minute, and the use of policies. Empty if no store counts (`counts: false`). */
  history: Functions['history'];
  /** The changes of bans, overrides, charges and configurations, the newest first. */
  log: Functions['log'];
  /**
   * A reader of crossings of thresholds, for stores with `thresholds: 'stream'`. A crossing that is not acknowledged is read again, by any
   * reader of the group.
   *
   * @example
   * const mails = admin.thresholds({ group: 'mail' })
   * for (const crossing of await mails.read()) {
   *   await sendMail(crossing)
   *   await mails.ack(crossing)
   * }
   */
  thresholds: Functions['thresholds'];
  /**
   * Undoes a logged ban, unban, override or removal of an override, or an import of at most 1,000 bans. Keys of an import that have another ban
   * now keep it, and the result has a warning.
   *
   * @throws HeadgateError `HEADGATE_UNKNOWN_CHANGE`; `HEADGATE_CHANGED_SINCE` if the key has another ban or override now;
   * `HEADGATE_CANNOT_UNDO` for all other changes, and for those whose end is past
   */
  undo: Functions['undo'];
  /** The number of keys and the bytes of each limiter, by a search of all keys. */
  usage: Functions['usage'];
  /** The memory of the servers of Redis, the growth since earlier calls, and the time until they are full. Empty for other stores. */
  memory(): Promise<readonly ServerMemory[]>;
  /**
   * The loss of Redis' records in the last hour, such as by a restart without persistence, if running processes wrote some before. Null
   * without a loss, and for other stores.
   */
  loss(): Promise<Loss | null>;
  /** Checks whether limits can be enforced on the store: see https://github.com/headgate/headgate/blob/main/docs/redis.md. */
  check: Functions['check'];
  /** False if it is certain that nobody counts decisions: a memory store with `counts: false`. */
  readonly isCounted: boolean;
  /** Closes a file that was opened for the administration. Clients, databases and stores of the caller stay open. */
  close(): Promise<void>;
}
