import type { PostgresRig } from '../../support/postgres.js';
import { usePostgres } from '../../support/postgres.js';
import { postgresStore } from 'headgate/postgres';
import { describeWaitReturns } from '../../features/wait/returns.js';

describe('PostgreSQL', () => {
  let rig: PostgresRig;

  usePostgres((started) => (rig = started));
  describeWaitReturns('PostgreSQL', () => {
    const { pool, table } = rig;
    return [postgresStore(pool, { table }), postgresStore(pool, { table })];
  });
});
