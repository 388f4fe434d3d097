// Pools for `postgresStore` over libraries that are not built on `pg`: postgres.js, and PGlite in the process itself.
import type { PGlite } from '@electric-sql/pglite';
import type { PostgresPool, PostgresResult } from 'headgate/postgres';
import type { Sql } from 'postgres';

const ignore = (): void => {};

/** As `pg`: the result of a single statement, or an array of results. */
const inShort = (results: readonly PostgresResult[]): PostgresResult =>
  results.length === 1 ? results[0]! : (results as unknown as PostgresResult);

/** postgres.js: each transaction reserves a connection. postgres.js replaces lost connections, so errors have no listeners. */
export const postgresJsPool = (sql: Sql): PostgresPool => ({
  on: ignore,
  async connect() {
    const reserved = await sql.reserve();
    return {
      on: ignore,
      removeListener: ignore,
      async query(text) {
        const rows = (await reserved.unsafe(text).simple()) as readonly unknown[];
        // Several statements have an array of rows each.
        const each = (Array.isArray(rows[0]) ? rows : [rows]) as PostgresResult['rows'][];
        return inShort(each.map((found) => ({ rows: found })));
      },
      release: (isBroken) =>
        void (isBroken ? reserved.unsafe('ROLLBACK').then(ignore, ignore) : Promise.resolve()).then(() =>
          reserved.release(),
        ),
    };
  },
});

/** PGlite has a single connection, so transactions wait for one another. Use an instance for Headgate alone. */
export function pglitePool(db: PGlite): PostgresPool {
  let last: Promise<unknown> = db.waitReady;
  return {
    on: ignore,
    connect() {
      const before = last;
      let leave = ignore;
      last = new Promise<void>((resolve) => (leave = resolve));
      return before.then(() => ({
        on: ignore,
        removeListener: ignore,
        query: async (text) => inShort(await db.exec(text)),
        release: (isBroken) =>
          void (isBroken ? db.exec('ROLLBACK').then(ignore, ignore) : Promise.resolve()).then(leave),
      }));
    },
  };
}
