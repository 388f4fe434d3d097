// The rights of the user on the tables, which `setup` checks, so that a missing right does not show at the first decision.
import { HeadgateError } from '../../common/errors.js';
import type { PostgresRow } from './pool.js';
import { sideTables, writtenTables } from './side-tables.js';
import { identifier, literal } from './statements.js';

/** The SQL state of a missing right. */
export const FORBIDDEN = '42501';

/** The advice for a decision without a right. Row-level security has the same SQL state. */
export const GRANT_FIX =
  'If a right is missing, `await store.setup()` names it: grant SELECT, INSERT, UPDATE and DELETE on the tables.';

/** The rights that decisions need, by table. Bans and overrides write the log, and crossings are written with `thresholds: 'stream'` only. */
function neededRights(table: string, isStream: boolean): [table: string, right: string][] {
  return [
    ...['SELECT', 'INSERT', 'UPDATE', 'DELETE'].map((right): [string, string] => [identifier(table), right]),
    ...writtenTables(table, isStream).flatMap((name) =>
      ['SELECT', 'INSERT', 'DELETE'].map((right): [string, string] => [name, right]),
    ),
  ];
}

/** The text that returns the rights that the user lacks, as `name`, `right` and `user`. */
export function rightsText(table: string, isStream: boolean): string {
  const needed = neededRights(table, isStream).map(([name, right]) => `(${literal(name)}, '${right}')`);
  return `SELECT name, "right", quote_ident(current_user) AS "user" FROM (VALUES ${needed.join(', ')}) AS needed (name, "right")
WHERE NOT has_table_privilege(to_regclass(name)::oid, "right")`;
}

/** @param rows the result of {@link rightsText} @throws HeadgateError `HEADGATE_STORE_AWAY` if a right is missing */
export function checkRights(table: string, rows: readonly PostgresRow[]): void {
  const lacking = rows as readonly { readonly name: string; readonly right: string; readonly user: string }[];
  const [first] = lacking;
  if (!first) return;
  const names = [...new Set(lacking.map(({ name }) => name))];
  const rightsOn = (name: string): string =>
    lacking.flatMap((each) => (each.name === name ? [each.right] : [])).join(', ');
  const all = [identifier(table), ...sideTables(table)].join(', ');
  throw new HeadgateError(
    'HEADGATE_STORE_AWAY',
    `PostgreSQL cannot be used: the user ${first.user} lacks ${names.map((name) => `${rightsOn(name)} on ${name}`).join('; ')}. ` +
      `As the owner of the tables, run: GRANT SELECT, INSERT, UPDATE, DELETE ON ${all} TO ${first.user}`,
  );
}
