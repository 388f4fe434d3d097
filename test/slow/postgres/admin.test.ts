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
import { freshTable, outcomeOf, type PostgresServer, usePostgres } from '../../support/postgres.js';

describe('PostgreSQL, headgate/admin', function () {
  this.timeout(60_000);
  let server: PostgresServer;
  let pool: Pool;

  usePostgres((rig) => ({ server, pool } = rig));

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

  it('hashed keys: views have hashes, and changes take the key', async () => {
    const table = freshTable();
    const store = postgresStore(pool, { table, hashKeys: 'a secret of 16 characters' });
    await store.setup();
    const limiter = createLimiter({
      ...{ store, name: 'api', limit: 1, window: '1h', ban: {} },
      timeout: '30s',
    });
    await limiter.consume('ada');
    const admin = createAdmin(store);
    await admin.ban('ada', '1h', { name: 'api', by: 'grace', reason: 'é' });
    const [ban] = await all(admin.bans());
    expect(ban).to.include({ by: 'grace', reason: 'é' });
    expect(ban!.key).to.have.property('hash');
    const { rows } = await pool.query(`SELECT key FROM ${table} UNION ALL SELECT entry FROM ${table}_log`);
    expect(JSON.stringify(rows)).not.to.contain('ada');
    expect(await admin.unban('ada', { name: 'api' })).to.include({ banned: 1 });
  });

  it('the log keeps the newest 10,000 changes of each kind', async () => {
    const table = freshTable();
    const store = postgresStore(pool, { table });
    await store.setup();
    for (const automatic of [true, false])
      await pool.query(
        `INSERT INTO ${table}_log (automatic, entry) SELECT ${automatic}, '{}' FROM generate_series(1, 10100)`,
      );
    const options = {
      store,
      name: 'api',
      limit: 1,
      window: '1h',
      timeout: '30s',
      ban: { after: 1 },
    } as const;
    const limiter = createLimiter(options);
    await limiter.ban('a', '1h', { by: 'ada' });
    for (let n = 0; n < 2; n++) await limiter.consume('b');
    const { rows } = await pool.query(
      `SELECT automatic, count(*)::int FROM ${table}_log GROUP BY 1 ORDER BY 1`,
    );
    // The cut of automatic changes counts the changes by hand in between.
    expect(rows.map(({ count }) => count as number)).to.deep.equal([10_000, 1]);
  });

  it('a missing table, and a server that does not answer, are reported with a code', async () => {
    const missing = createAdmin(postgresStore(pool, { table: freshTable() }));
    expect(await outcomeOf(all(missing.bans())))
      .to.contain('HEADGATE_STORE_AWAY')
      .and.contain('setup()');
    expect((await missing.check())[0]).to.include({ level: 'error', code: 'connection' });
    const held = server.pool({ max: 1 });
    const client = await held.connect();
    const waiting = createAdmin(postgresStore(held, { table: freshTable() }), { timeout: '50ms' });
    expect(await outcomeOf(all(waiting.bans()))).to.contain('HEADGATE_STORE_TIMEOUT');
    client.release();
    await held.end();
  });
});
