// Law 4 for shared limits: PostgreSQL decides as the memory store does.
import type { Pool } from 'pg';
import { postgresStore } from 'headgate/postgres';
import { freshTable, usePostgres } from '../../support/postgres.js';
import { runs } from '../../support/random.js';
import { expectSame, SHARED_POLICIES } from '../../features/shares/traces.js';
import { memory } from '../../support/stores.js';

describe('PostgreSQL, shares', function () {
  this.timeout(120_000);
  let pool: Pool;

  usePostgres((rig) => (pool = rig.pool));

  for (const policies of SHARED_POLICIES)
    it(`decides as in memory, ${String(policies)}`, () => {
      const create = async (clock: () => number) => {
        const store = postgresStore(pool, { table: freshTable(), clock });
        await store.setup();
        return store;
      };
      return expectSame([memory, create], policies, runs('postgres', 20, 6));
    });
});
