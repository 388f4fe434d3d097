// The public suites over the PostgreSQL store: the contract, all laws, identity with memory.
import type { Pool } from 'pg';
import type { Store } from 'headgate';
import { postgresStore } from 'headgate/postgres';
import { storeChecks, type StoreUnderTest } from 'headgate-testing';
import { describeChecks, runsOf } from '../../support/kit.js';
import { freshTable, usePostgres } from '../../support/postgres.js';
import { regressions } from '../../vectors/regressions.js';

describe('PostgreSQL', function () {
  let pool: Pool;
  const tables = new WeakMap<Store, string>();

  usePostgres((rig) => (pool = rig.pool));
  before(async () => {
    await pool.query('CREATE SCHEMA limits');
  });

  const create = async (table: string, clock: () => number) => {
    const store = postgresStore(pool, { table, clock });
    await store.setup();
    tables.set(store, table);
    return store;
  };
  const subject: StoreUnderTest = {
    createStore: (clock) => create(`limits.${freshTable()}`, clock),
    createSibling: (store, clock) => create(tables.get(store)!, clock),
    entries: async (store) => {
      const { rows } = await pool.query<{ name: string; at: string }>(
        `SELECT key AS name, expires AS at FROM ${tables.get(store)!}`,
      );
      return rows.map(({ name, at }) => ({ name, expiresAt: Number(at) }));
    },
    ordered: true,
    runs: runsOf('postgres', 20, 4),
  };
  describeChecks('on PostgreSQL', storeChecks({ ...subject, traces: regressions }));
});
