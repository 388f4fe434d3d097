import type { Pool } from 'pg';
import { postgresStore } from 'headgate/postgres';
import { checkIds } from '../../features/ids/oracle.js';
import { freshTable, usePostgres } from '../../support/postgres.js';
import { runs } from '../../support/random.js';

describe('PostgreSQL, request ids', function () {
  let pool: Pool;

  usePostgres((rig) => (pool = rig.pool));

  it('every answer and count is that of a plain list of charges', async () => {
    const { numRuns } = runs('postgres', 8, 8);
    await checkIds(async (clock) => {
      const store = postgresStore(pool, { table: freshTable(), clock });
      await store.setup();
      return store;
    }, numRuns);
  });
});
