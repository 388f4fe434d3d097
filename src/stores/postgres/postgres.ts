import { HeadgateError, invalidOption } from '../../common/errors.js';
import { boolean, checkOptionsOf, optional, readOptions, type OptionTable } from '../../common/options.js';
import { checkShape } from '../../common/validate.js';
import type { Clock, Store } from '../../contract/store.js';
import {
  DATABASE_TABLE,
  databaseStore,
  type DatabaseOptions,
  type DatabaseParts,
} from '../state/database-store.js';
import { errorsOf } from '../client-errors.js';
import { away, Batches } from './batches.js';
import { clientsOf, type Clients } from './clients.js';
import { Failure, stateOf, type PostgresConnection } from './connection.js';
import type { PostgresPool, PostgresResult } from './pool.js';
import { foreignObjectText } from './foreign-objects.js';
import { FORBIDDEN } from './rights.js';
import { createTable, schemaText, type Schema } from './schema.js';
import { PostgresTable } from './table.js';

export type { PostgresClient, PostgresPool, PostgresResult } from './pool.js';

/** The options of the tables. */
export interface PostgresSchemaOptions {
  /**
   * The table of state: at most 53 letters, digits and underscores. A schema may come first: `'limits.headgate'`. Letters keep their
   * case. The names of the tables beside it begin with this name.
   * @default 'headgate'
   */
  table?: string | undefined;
  /**
   * Whether the table is UNLOGGED. Decisions then write no log, are faster and put no load on replicas. A crash of the server empties an
   * unlogged table, and a failover to a replica starts with an empty table. Pass `false` if
   * counts, bans and overrides must survive.
   *
   * @default true
   */
  unlogged?: boolean | undefined;
}

/** The options of {@link postgresStore} in addition to the pool. */
export interface PostgresStoreOptions extends PostgresSchemaOptions, DatabaseOptions {}

const SCHEMA_TABLE = {
  table: optional('a name, optionally with a schema', checkTableName, 'headgate'),
  unlogged: boolean(true),
} satisfies OptionTable<PostgresSchemaOptions>;

export const POSTGRES_TABLE = {
  ...SCHEMA_TABLE,
  ...DATABASE_TABLE,
} satisfies OptionTable<PostgresStoreOptions>;

/** A store in a table of PostgreSQL: see {@link postgresStore}. */
export interface PostgresStore extends Store {
  /**
   * Creates the tables unless they exist. Safe to call at each start, and by several processes at the same time. If the tables do not exist, the
   * user of the pool needs the right to create tables; decisions need SELECT, INSERT, UPDATE and DELETE on them.
   *
   * @throws HeadgateError `HEADGATE_STORE_AWAY` if the tables cannot be created, the user lacks rights on them, or another program has a table of this name
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
    throw invalidOption('postgresStore', pool, foreignObjectText(pool));
  // Only clients of `pg` have this method. A pool's client looks the same, and must go back to its pool.
  if ('escapeIdentifier' in given)
    throw new HeadgateError(
      'HEADGATE_INVALID_OPTION',
      'postgresStore: a client is a single connection, which the store cannot replace. Pass a pool: new Pool({ ... }) with the options of the client.',
    );
  // If `hashKeys` is present but undefined, the secret is missing. The check refuses such a value, so that keys are not written in clear.
  const values = readOptions(POSTGRES_TABLE, { hashKeys: false, ...options }, 'postgresStore.');
  const { table: name, unlogged, clock, thresholds } = values;
  const schema = { table: name, unlogged };
  const table = new PostgresTable(schema, clock);
  const clients = clientsOf(pool);
  const { store, parts } = databaseStore(new Batches(clients, table), values, options);
  databases.set(store, {
    ...{ ...parts, clock, pool, table: name },
    run: (text, ms) => run(clients, table, text, ms),
  });
  const errors = errorsOf(pool, 'The pool of postgresStore');
  const stopListening = errors.listen();
  const close = store.close!.bind(store);
  return Object.assign(store, {
    setup: () => setUp(clients, schema, thresholds !== false),
    close: async () => {
      await close();
      stopListening();
    },
  });
}

/** The parts of a store in PostgreSQL, for the administration. */
export interface PostgresDatabase extends DatabaseParts {
  readonly table: string;
  readonly clock: Clock | undefined;
  readonly pool: PostgresPool;
  /** Runs a text outside of the transactions. @returns the result of each statement @throws HeadgateError `HEADGATE_STORE_AWAY` */
  run(text: string, ms: number): Promise<readonly PostgresResult[]>;
}

const databases = new WeakMap<Store, PostgresDatabase>();

export function postgresDatabaseOf(store: Store): PostgresDatabase | undefined {
  return databases.get(store);
}

async function run(
  clients: Clients,
  table: PostgresTable,
  text: string,
  ms: number,
): Promise<readonly PostgresResult[]> {
  let connection: PostgresConnection | undefined;
  let isBroken = true;
  try {
    // The caller's own limit comes first, and explains itself.
    connection = await connectionOf(clients, 2 * ms);
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

const SETUP_CONNECT_MS = 30_000;

/** @throws HeadgateError `HEADGATE_STORE_AWAY`, or the error of the pool */
async function connectionOf(clients: Clients, ms: number): Promise<PostgresConnection> {
  return (await clients.take(ms)) ?? Promise.reject(away(`no connection of the pool within ${ms} ms`));
}

/** @throws HeadgateError `HEADGATE_STORE_AWAY`; `HEADGATE_INVALID_OPTION` if another table has the name */
async function setUp(clients: Clients, schema: Schema, isStream: boolean): Promise<void> {
  let connection: PostgresConnection | undefined;
  let isBroken = true;
  try {
    connection = await connectionOf(clients, SETUP_CONNECT_MS);
    await createTable(connection, schema, isStream);
    isBroken = false;
  } catch (error) {
    const cause = error instanceof Failure ? error.cause : error;
    throw stateOf(cause) === FORBIDDEN ? cannotCreate(schema, cause as Error) : away(cause);
  } finally {
    connection?.release(isBroken);
  }
}

function cannotCreate({ table }: Schema, cause: Error): HeadgateError {
  const option = table === 'headgate' ? '' : ` --table ${table}`;
  return new HeadgateError(
    'HEADGATE_STORE_AWAY',
    `PostgreSQL cannot be used: this user may not create the tables (${cause.message}). Once, run the SQL that \`npx headgate-cli postgres-schema${option}\` ` +
      'prints as a user with this right, and grant SELECT, INSERT, UPDATE and DELETE on the tables.',
    { cause },
  );
}
