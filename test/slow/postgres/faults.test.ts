// Faults of PostgreSQL: law 8, the set-up of the table, and connections that come back to their pool.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { Pool, PoolClient } from 'pg';
import { createLimiter, type CreateLimiterOptions } from 'headgate';
import { postgresSchema, postgresStore } from 'headgate/postgres';
import { freshTable, outcomeOf, type PostgresServer, usePostgres } from '../../support/postgres.js';

const many: CreateLimiterOptions = { algorithm: 'fixed-window', limit: 1_000_000, window: '30d' };

describe('PostgreSQL, faults', function () {
  this.timeout(120_000);
  let server: PostgresServer;
  let pool: Pool;
  let table: string;

  usePostgres((rig) => ({ server, pool, table } = rig));

  const throwing = (given: Pool = pool, options: CreateLimiterOptions = many) =>
    createLimiter({
      onStoreError: 'throw',
      timeout: '30s',
      ...options,
      store: postgresStore(given, { table }),
    });

  const spent = async () => 1_000_000 - (await throwing().peek('key')).remaining;

  it('several processes may create the table at the same time, and again', async () => {
    table = freshTable();
    const store = postgresStore(pool, { table });
    await Promise.all(Array.from({ length: 8 }, () => store.setup()));
    expect((await throwing().consume('key')).allowed).to.equal(true);
  });

  it('a missing table is reported with the fix, and found once it exists', async () => {
    table = freshTable();
    const limiter = throwing();
    const message = await outcomeOf(limiter.consume('key'));
    expect(message).to.contain('HEADGATE_STORE_AWAY').and.contain(table).and.contain('store.setup()');
    await pool.query(postgresSchema({ table, unlogged: false }));
    expect((await limiter.consume('key')).allowed).to.equal(true);
  });

  it('the table of another program is refused, and stays as it is', async () => {
    table = freshTable();
    await pool.query(`CREATE TABLE ${table} (key text, expires bigint, state bytea)`);
    expect(await outcomeOf(throwing().consume('key')))
      .to.contain('HEADGATE_STORE_AWAY')
      .and.contain('headgate 2');
    expect(await outcomeOf(postgresStore(pool, { table }).setup())).to.contain('HEADGATE_STORE_AWAY');
    expect(await outcomeOf(throwing().consume('key'))).to.contain('HEADGATE_STORE_AWAY');
    expect((await pool.query(`SELECT * FROM ${table}`)).rows).to.deep.equal([]);
  });

  it('keys and names with quotes and backslashes are only data, whatever the settings', async () => {
    const odd = server.pool({ options: '-c standard_conforming_strings=off -c backslash_quote=off' });
    const limiter = throwing(odd, { ...many, limit: 2 });
    for (const key of ["'); DROP TABLE users; --", '\\', "\\'", "E'\\\\'", '$$', '\0', 'ä', '']) {
      expect((await limiter.consume(key)).remaining, key).to.equal(1);
      expect((await limiter.consume(key)).remaining, key).to.equal(0);
    }
    await odd.end();
  });

  it('connections that are lost in the middle charge nothing twice', async () => {
    const victims = server.pool({ application_name: 'victim' });
    victims.on('error', () => {});
    const limiter = throwing(victims);
    let admitted = 0;
    let failed = 0;
    let isOver = false;
    const ask = async (): Promise<void> => {
      while (!isOver)
        await limiter.consume('key').then(
          () => admitted++,
          async () => {
            failed++;
            // A refusal at once must not keep timers from running.
            await sleep(1);
          },
        );
    };
    const asking = Array.from({ length: 16 }, ask);
    for (let i = 0; i < 40; i++) {
      // On a slow machine, new connections take longer than the pause.
      const before = admitted;
      do await sleep(25);
      while (admitted < before + 3);
      await pool.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim'",
      );
    }
    isOver = true;
    await Promise.all(asking);
    // The guard gives back the charges of questions that may have been carried out.
    await sleep(500);
    const units = await spent();
    expect(admitted).to.be.above(100);
    expect(units, 'lost').to.be.at.least(admitted);
    expect(units, 'charged twice').to.be.at.most(admitted + failed);
    expect([victims.totalCount - victims.idleCount, victims.waitingCount]).to.deep.equal([0, 0]);
    await victims.end();
  });

  it('an exhausted pool: answers by onStoreError, no connection leaks, and limits hold again', async () => {
    const small = server.pool({ max: 1 });
    const held: PoolClient = await small.connect();
    const limiter = createLimiter({
      ...many,
      store: postgresStore(small, { table }),
      timeout: 100,
      connectTimeout: 100,
    });
    const decisions = await Promise.all(Array.from({ length: 50 }, () => limiter.consume('key')));
    expect(decisions.map(({ degraded }) => degraded)).to.deep.equal(Array(50).fill(true));
    held.release();
    while ((await limiter.consume('key')).degraded) await sleep(20);
    expect([small.totalCount, small.waitingCount]).to.deep.equal([1, 0]);
    await limiter.close();
    while (small.idleCount < 1) await sleep(5);
    await small.end();
  });

  it('a row that another session has locked: answers within the timeout, and the row decides again', async () => {
    const limiter = createLimiter({ ...many, store: postgresStore(pool, { table }), timeout: 100 });
    expect((await limiter.consume('key')).degraded).to.equal(false);
    const other = await pool.connect();
    await other.query(`BEGIN; SELECT * FROM ${table} FOR UPDATE`);
    expect((await limiter.consume('key')).degraded).to.equal(true);
    await other.query('COMMIT');
    other.release();
    while ((await limiter.consume('key')).degraded) await sleep(20);
    await limiter.close();
  });

  it("a user without the right to write: setup() names the missing rights, and a decision has the server's reason", async () => {
    await pool.query(`CREATE ROLE ${table}_reader LOGIN; GRANT SELECT ON ${table} TO ${table}_reader`);
    const reader = server.pool({ connectionString: server.url.replace('headgate@', `${table}_reader@`) });
    const error = await postgresStore(reader, { table })
      .setup()
      .catch((reason: unknown) => reason as Error);
    expect(error).to.include({ name: 'HeadgateError', code: 'HEADGATE_STORE_AWAY' });
    expect((error as Error).message)
      .to.contain(
        `the user ${table}_reader lacks INSERT, UPDATE, DELETE on "${table}"; SELECT, INSERT, DELETE on "${table}_log"`,
      )
      .and.contain(`GRANT SELECT, INSERT, UPDATE, DELETE ON "${table}", `);
    expect(await outcomeOf(throwing(reader).consume('key')))
      .to.contain('HEADGATE_STORE_AWAY')
      .and.contain('permission denied')
      .and.contain('grant SELECT, INSERT, UPDATE and DELETE');
    // The owner runs the statement of the message.
    await pool.query(/GRANT .* TO \S+?(?=\. See|$)/.exec((error as Error).message)![0]);
    // The table exists, so the right to create it is not needed.
    await postgresStore(reader, { table, thresholds: 'stream' }).setup();
    expect(await throwing(reader).consume('key')).to.include({ allowed: true, degraded: false });
    await reader.end();
  });

  it('a transaction that is read-only by default can write', async () => {
    const careful = server.pool({
      options: '-c default_transaction_read_only=on -c default_transaction_isolation=serializable',
    });
    expect((await throwing(careful).consume('key')).allowed).to.equal(true);
    await careful.end();
  });

  it('a server that stalls and goes on: answers within the timeout, then exact again', async () => {
    const own = server.pool();
    own.on('error', () => {});
    const limiter = createLimiter({ ...many, store: postgresStore(own, { table }), timeout: 100 });
    await limiter.consume('key');
    server.signal('SIGSTOP');
    for (let i = 0; i < 10; i++) expect((await limiter.consume('key')).degraded).to.equal(true);
    server.signal('SIGCONT');
    while ((await limiter.consume('key')).degraded) await sleep(20);
    await limiter.close();
    await own.end();
  });

  it('a crash of the server empties an unlogged table, and a logged one keeps its counts', async () => {
    const logged = freshTable();
    const own = server.pool();
    own.on('error', () => {});
    const stores = [table, logged].map((each) =>
      postgresStore(own, { table: each, unlogged: each === table }),
    );
    for (const store of stores) await store.setup();
    const limiters = stores.map((store) => createLimiter({ ...many, store, timeout: 500 }));
    for (const limiter of limiters) await limiter.consume('key', { cost: 10 });
    await server.crash();
    for (const limiter of limiters) expect((await limiter.consume('key')).degraded).to.equal(true);
    await server.start();
    const after: number[] = [];
    for (const limiter of limiters) {
      while ((await limiter.peek('key')).degraded) await sleep(20);
      after.push((await limiter.peek('key')).remaining);
      await limiter.close();
    }
    expect(after).to.deep.equal([1_000_000, 999_990]);
    await own.end();
  });

  it('expired rows are deleted while other keys are decided', async () => {
    const limiter = throwing(pool, { ...many, window: '1s' });
    for (let round = 0; round < 5; round++)
      await Promise.all(Array.from({ length: 500 }, (_, i) => limiter.consume(`${round} ${i}`)));
    // Ten minutes pass for all rows.
    await pool.query(`UPDATE ${table} SET expires = expires - 600000`);
    for (let round = 0; round < 20; round++)
      await Promise.all(Array.from({ length: 100 }, (_, i) => limiter.consume(`again ${i}`)));
    const { rows } = await pool.query<{ n: number }>(`SELECT count(*)::int AS n FROM ${table}`);
    expect(rows[0]!.n).to.be.at.most(200);
  });

  it('a look at an unknown key leaves no row of state', async () => {
    await throwing().peek('key');
    expect((await pool.query(`SELECT key FROM ${table} WHERE key NOT LIKE '{options}%'`)).rows).to.deep.equal(
      [],
    );
  });
});
