// The expectations on headgate/admin over PostgreSQL.
import { expect } from 'chai';
import type { Pool } from 'pg';
import { createLimiter } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { postgresStore } from 'headgate/postgres';
import { adminSuite } from '../../admin/admin-suite.js';
import { severalBansSuite } from '../../admin/several-bans-suite.js';
import { all, type Place } from '../../admin/stores.js';
import { undoSuite } from '../../admin/undo-suite.js';
import { freshTable, outcomeOf, startPostgres, type PostgresServer } from '../../support/postgres.js';

describe('PostgreSQL, headgate/admin', function () {
  this.timeout(60_000);
  let server: PostgresServer;
  let pool: Pool;

  before(async () => {
    server = await startPostgres();
    pool = server.pool();
  });
  after(async () => {
    await pool.end();
    await server.stop();
  });

  const open = async (): Promise<Place> => {
    const table = freshTable();
    const store = postgresStore(pool, { table });
    await store.setup();
    return {
      store,
      admin: createAdmin(store),
      again: (options) => createAdmin(postgresStore(pool, { table }), options),
      close: async () => store.close?.(),
    };
  };

  adminSuite('postgres', open);
  severalBansSuite('postgres', open);
  undoSuite('postgres', open);
});
