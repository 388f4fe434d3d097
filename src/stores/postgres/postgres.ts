import { invalidOption } from '../../common/errors.js';
import {
  boolean,
  checkOptionsOf,
  fn,
  optional,
  readOptions,
  type OptionTable,
} from '../../common/options.js';
import { checkShape } from '../../common/validate.js';
import type { Clock, Store } from '../../contract/store.js';
import { databaseStore, type DatabaseParts } from '../state/database-store.js';
import { hashKeysOption } from '../state/hashed-names.js';
import { thresholdsOption } from '../crossings.js';
import { away, Batches } from './batches.js';
import { Connection, Failure } from './connection.js';
import type { PostgresPool, PostgresResult } from './pool.js';
import { createTable, schemaText, type Schema } from './schema.js';
import { Table } from './table.js';

export type { PostgresClient, PostgresPool, PostgresResult } from './pool.js';

/** The options of the tables. */
export interface PostgresSchemaOptions {
  /**
   * The name of the table of state: at most 53 letters, digits and underscores, optionally with a schema (`'limits.headgate'`). Letters keep their
   * case. The names of the tables beside it begin with this name.
   * @default 'headgate'
   */
  table?: string;
  /**
   * Whether the table of state is UNLOGGED. Decisions then write no log, are faster and put no load on replicas. A crash of the server empties an
   * unlogged table, and a failover to a replica starts with an empty table, so that all counts, bans and overrides begin anew. Pass `false`
   * if counts, bans and overrides must survive.
   *
   * @default true
   */
  unlogged?: boolean;
}

/** The options of {@link postgresStore} in addition to the pool. */
export interface PostgresStoreOptions extends PostgresSchemaOptions {
  /**
   * A secret that hashes keys: at least 16 characters, the same in all processes. Addresses and accounts are then not readable in
   * the table (HMAC-SHA256). A different secret starts all counts and bans anew.
   * @default false
   */
  hashKeys?: string | false;
  /**
   * `'stream'`: crossings of thresholds are kept until they are read. Each is written to a table, in the transaction that charges, so that
   * no crash of a process or of the server loses it. `admin.thresholds` reads the table. See https://github.com/headgate/headgate/blob/main/docs/thresholds.md. @default false
   */
  thresholds?: 'stream' | false;
  /** For tests: a clock to decide by, in whole ms since the epoch. */
  clock?: Clock;
}

/** The rows of `PostgresSchemaOptions`. */
const SCHEMA_TABLE = {
  table: optional('a name, optionally with a schema', checkTableName, 'headgate'),
  unlogged: boolean(true),
} satisfies OptionTable<PostgresSchemaOptions>;

/** The rows of `PostgresStoreOptions`. */
export const POSTGRES_TABLE = {
  ...SCHEMA_TABLE,
  hashKeys: hashKeysOption(),
  thresholds: thresholdsOption(),
  clock: fn(),
} satisfies OptionTable<PostgresStoreOptions>;

/** A store in a table of PostgreSQL: see {@link postgresStore}. */
export interface PostgresStore extends Store {
  /**
   * Creates the tables unless they exist. Safe to call at each start, and by several processes at the same time. If the tables do not exist, the
   * user of the pool needs the right to create tables; decisions need SELECT, INSERT, UPDATE and DELETE on them.
   *
   * @throws HeadgateError `HEADGATE_STORE_AWAY` if another program has a table of this name @throws the error of `pg`
   */
  setup(): Promise<void>;
}

/**
 * A store in a table of PostgreSQL 13 or later, for services with a database and without Redis. All decisions of a turn of the event loop
 * share a transaction of two round trips. The server's clock counts.
 *
 * @param pool a `Pool` of `pg`. The store uses at most two of its connections at a time, and never ends the pool
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`
 *
 * @example
 * const store = postgresStore(new Pool({ connectionString: process.env.DATABASE_URL }))
 * await store.setup()
 */
export function postgresStore(pool: PostgresPool, options: PostgresStoreOptions = {}): PostgresStore {
  checkShape('postgresStore', options, Object.keys(POSTGRES_TABLE));
  const given = (pool ?? {}) as Partial<PostgresPool>;
  if (typeof given.connect !== 'function' || typeof given.on !== 'function')
    throw invalidOption('postgresStore', pool, "Pass a pool: new Pool() of the package 'pg'.");
  // If `hashKeys` is present but undefined, the secret is missing. The check refuses such a value, so that keys are not written in clear.
  const values = readOptions(POSTGRES_TABLE, { hashKeys: false, ...options }, 'postgresStore.');
  const { hashKeys: name, clock, thresholds, ...schema } = values;
  const table = new Table(schema, clock);
  const transactions = new Batches(pool, table);
  listen(pool);
  const { store, announced } = databaseStore(transactions, name, thresholds !== false);
  const isHashed = options.hashKeys !== undefined && options.hashKeys !== false;
  databases.set(store, {
    ...{ transactions, name, announced, isHashed, clock },
    table: schema.table,
    run: (text, ms) => run(pool, table, text, ms),
  });
  return Object.assign(store, { setup: () => setUp(pool, schema) });
}

/** The parts of a store in PostgreSQL, for the administration. */
export interface PostgresDatabase extends DatabaseParts {
  /** The option `table`. */
  readonly table: string;
  /** The clock of tests. */
  readonly clock: Clock | undefined;
  /** Runs a text outside of the transactions. @returns the result of each statement @throws HeadgateError `HEADGATE_STORE_AWAY` */
  run(text: string, ms: number): Promise<readonly PostgresResult[]>;
}

const databases = new WeakMap<Store, PostgresDatabase>();

/** The database of a store. Undefined for other stores. */
export function postgresDatabaseOf(store: Store): PostgresDatabase | undefined {
  return databases.get(store);
}

async function run(
  pool: PostgresPool,
  table: Table,
  text: string,
  ms: number,
): Promise<readonly PostgresResult[]> {
  let connection: Connection | undefined;
  let isBroken = true;
  try {
    connection = new Connection(await pool.connect());
    await table.check(connection);
    const results = await connection.prepare(text, ms);
    isBroken = false;
    return results;
  } catch (error) {
    table.uncheck();
    throw away(error instanceof Failure ? error.cause : error);
  } finally {
    connection?.release(isBroken);
  }
}

/**
 * The SQL that creates the tables of {@link postgresStore}, for tools that migrate databases.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`
 */
export function postgresSchema(options: PostgresSchemaOptions = {}): string {
  return schemaText(checkOptionsOf('postgresSchema', SCHEMA_TABLE, options));
}

function checkTableName(option: string, table: unknown): string {
  if (typeof table === 'string' && /^([a-z_]\w{0,62}\.)?[a-z_]\w{0,52}$/i.test(table)) return table;
  const fix =
    "Pass a name of at most 53 letters, digits and underscores, such as 'headgate' or 'limits.headgate'.";
  throw invalidOption(option, table, fix);
}

async function setUp(pool: PostgresPool, schema: Schema): Promise<void> {
  const client = await pool.connect();
  let isBroken = true;
  try {
    await createTable(client, schema);
    isBroken = false;
  } finally {
    client.release(isBroken);
  }
}

/** The pools with a listener. In a pool without a listener, the loss of an idle connection would end the process. */
const heard = new WeakSet<PostgresPool>();

function listen(pool: PostgresPool): void {
  if (heard.has(pool)) return;
  heard.add(pool);
  pool.on('error', () => {
    // The pool opens another connection when one is needed.
  });
}
