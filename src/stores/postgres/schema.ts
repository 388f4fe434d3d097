import { HeadgateError } from '../../common/errors.js';
import type { PostgresConnection } from './connection.js';
import { recordSchema } from './side-tables.js';
import { checkRights, rightsText } from './rights.js';
import { identifier, literal } from './statements.js';

/** The version of the table. The table's comment contains it. */
const SCHEMA_VERSION = 2;

/** The part of each page that stays free, so that a row's new version fits beside the old version and no index changes. */
const FILL_FACTOR = 70;

const COMMENT = `headgate ${SCHEMA_VERSION}`;

export interface Schema {
  /** The table's name, with its schema if needed. */
  readonly table: string;
  readonly unlogged: boolean;
}

/** The SQL that creates the tables, for tools that migrate databases. */
export function schemaText({ table, unlogged }: Schema): string {
  const name = identifier(table);
  return `CREATE ${unlogged ? 'UNLOGGED ' : ''}TABLE ${name} (
  key text COLLATE "C" PRIMARY KEY,
  expires bigint NOT NULL,
  state bytea NOT NULL
) WITH (fillfactor = ${FILL_FACTOR}, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
${recordSchema(table)}COMMENT ON TABLE ${name} IS ${literal(COMMENT)};
`;
}

/** The time for each step of the creation. Another process may be creating the tables, ms. */
const STEP_MS = 60_000;

/**
 * Creates the tables unless they exist, also in several processes at the same time.
 *
 * @param isStream whether decisions write crossings
 * @throws HeadgateError if another table has the name, or the user may not use the tables @throws Failure
 */
export async function createTable(
  connection: PostgresConnection,
  schema: Schema,
  isStream: boolean,
): Promise<void> {
  const run = (text: string) => connection.prepare(text, STEP_MS);
  await run("BEGIN READ WRITE; SELECT pg_advisory_xact_lock(hashtextextended('headgate setup', 0))");
  const [{ rows }] = await run(commentText(schema));
  const row = rows[0] as unknown as CommentRow;
  if (row.found === 'true') {
    checkTable(schema.table, row);
    checkRights(schema.table, (await run(rightsText(schema.table, isStream)))[0].rows);
  } else {
    await run(schemaText(schema));
  }
  await run('COMMIT');
}

/** The text that reads the table's comment: see {@link CommentRow}. */
export function commentText({ table }: Schema): string {
  const name = literal(identifier(table));
  return `SELECT (to_regclass(${name}) IS NOT NULL)::text AS found, obj_description(to_regclass(${name}), 'pg_class') AS comment`;
}

/** The result of {@link commentText}. */
export interface CommentRow {
  readonly found: 'true' | 'false';
  readonly comment: string | null;
}

/** @throws HeadgateError `HEADGATE_STORE_AWAY` if the store cannot use the table */
export function checkTable(table: string, row: CommentRow): void {
  if (row.comment === COMMENT) return;
  const why =
    row.found === 'true'
      ? `the table '${table}' belongs to another program or to another version of Headgate (its comment is ${JSON.stringify(row.comment)}; this ` +
        `version needs '${COMMENT}'). Pass another name as \`table\`, or drop the table and`
      : `the table '${table}' is missing. To create it,`;
  throw new HeadgateError(
    'HEADGATE_STORE_AWAY',
    `PostgreSQL cannot be used: ${why} call \`await store.setup()\` once, or run the SQL that \`npx headgate-cli postgres-schema\` prints.`,
  );
}
