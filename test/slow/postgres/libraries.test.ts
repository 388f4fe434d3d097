// PostgreSQL through other libraries, as docs/postgres.md describes: each decides by the same table as `pg`. And the set-up for others' users.
import { PGlite } from '@electric-sql/pglite';
import { expect } from 'chai';
import { drizzle } from 'drizzle-orm/node-postgres';
import knex from 'knex';
import { Client, Pool } from 'pg';
import postgres from 'postgres';
import { Sequelize } from 'sequelize';
import { createLimiter, type HeadgateError } from 'headgate';
import { postgresSchema, postgresStore, type PostgresPool } from 'headgate/postgres';
import { pglitePool, postgresJsPool } from '../../../examples/postgres-pools.js';
import { freshTable, usePostgres, type PostgresServer } from '../../support/postgres.js';

interface Library {
  readonly pool: PostgresPool;
  close(): Promise<unknown>;
}

const libraries: Readonly<Record<string, (url: string) => Library>> = {
  Knex(url) {
    const db = knex({ client: 'pg', connection: url });
    const { connectionSettings } = db.client as { connectionSettings: object };
    const pool = new Pool({ ...connectionSettings, max: 2 });
    return { pool, close: () => Promise.all([pool.end(), db.destroy()]) };
  },
  Sequelize(url) {
    const { config } = new Sequelize(url, { dialect: 'postgres', logging: false });
    const { host, port, database, username: user, password } = config as unknown as Record<string, string>;
    const pool = new Pool({
      host,
      port: Number(port),
      database,
      user,
      password: password ?? undefined,
      max: 2,
    });
    return { pool, close: () => pool.end() };
  },
  Drizzle(url) {
    const db = drizzle(url);
    return { pool: db.$client, close: () => db.$client.end() };
  },
  'postgres.js'(url) {
    const sql = postgres(url, { max: 3, onnotice: () => {} });
    return { pool: postgresJsPool(sql), close: () => sql.end() };
  },
};

async function errorOf(action: () => unknown): Promise<HeadgateError> {
  try {
    await action();
  } catch (error) {
    return error as HeadgateError;
  }
  throw new Error('No error was thrown.');
}

describe('PostgreSQL through other libraries', function () {
  this.timeout(120_000);
  let server: PostgresServer;
  let table: string;
  let pool: Pool;
  usePostgres((rig) => ({ server, table, pool } = rig));

  const limiterOver = (given: PostgresPool, name = table) =>
    createLimiter({
      ...{ name: 'api', store: postgresStore(given, { table: name }), overrides: true, ban: {} },
      ...{ policies: ['minute=fixed-window 50/1h', 'day=100/1d'], onStoreError: 'throw', timeout: '20s' },
    });

  async function check(given: PostgresPool, name: string): Promise<void> {
    await postgresStore(given, { table: name }).setup();
    const limiter = limiterOver(given, name);
    const decisions = await Promise.all(Array.from({ length: 80 }, () => limiter.consume('key')));
    expect(decisions.filter(({ allowed }) => allowed)).to.have.length(50);
    await limiter.override('key', { minute: { limit: 60 } });
    expect(await limiter.consume('key')).to.include({ allowed: true, remaining: 9 });
    await limiter.ban('key', '1m');
    expect(await limiter.consume('key')).to.include({ reason: 'banned' });
    await limiter.close();
  }

  for (const [name, open] of Object.entries(libraries)) {
    it(name, async () => {
      const library = open(server.url);
      const own = freshTable();
      await check(library.pool, own);
      const others = limiterOver(pool, own);
      await others.unban('key');
      expect(await others.consume('key')).to.include({ allowed: true, remaining: 8 });
      await others.close();
      await library.close();
    });
  }

  it('postgres.js: a transaction that fails is rolled back before its connection is used again', async () => {
    const sql = postgres(server.url, { max: 1, onnotice: () => {} });
    const client = await postgresJsPool(sql).connect();
    expect(await errorOf(() => client.query('BEGIN; SELECT 1/0'))).to.match(/division by zero/);
    client.release(true);
    expect(await sql`SELECT 1 AS one`).to.deep.include({ one: 1 });
    await sql.end();
  });

  it('PGlite, in this process', async () => {
    const db = new PGlite();
    await check(pglitePool(db), 'headgate');
    await db.close();
  });

  it('a client is refused, and a client of a pool, too', async () => {
    const client = new Client(server.url);
    expect(await errorOf(() => postgresStore(client as unknown as PostgresPool)))
      .to.include({ code: 'HEADGATE_INVALID_OPTION' })
      .and.match(/new Pool\(/);
    const taken = await pool.connect();
    expect(await errorOf(() => postgresStore(taken as unknown as PostgresPool))).to.match(/new Pool\(/);
    taken.release();
  });

  const objects: Readonly<Record<string, () => object>> = {
    Knex: () => knex({ client: 'pg' }),
    Sequelize: () => new Sequelize('postgres://x@127.0.0.1:1/x', { dialect: 'postgres', logging: false }),
    Drizzle: () => drizzle('postgres://x@127.0.0.1:1/x'),
    'postgres.js': () => postgres('postgres://x@127.0.0.1:1/x'),
    PGlite: () => new PGlite(),
  };
  for (const [name, make] of Object.entries(objects)) {
    it(`${name}: an object of the library is refused, with its pool and the page`, async () => {
      const object = make();
      const error = await errorOf(() => postgresStore(object as unknown as PostgresPool));
      expect(error).to.include({ code: 'HEADGATE_INVALID_OPTION' });
      expect(error.message).to.include(`an object of ${name}`).and.include('docs/postgres.md#knex-sequelize');
      if (object instanceof PGlite) await object.close();
    });
  }

  it('setup() of a user without the right to create tables names the fix, which works', async () => {
    const own = freshTable();
    await pool.query(`CREATE ROLE ${own}_app LOGIN`);
    await pool.query('REVOKE CREATE ON SCHEMA public FROM PUBLIC');
    const app = server.pool({ connectionString: server.url.replace('headgate@', `${own}_app@`) });
    const store = postgresStore(app, { table: own });
    const error = await errorOf(() => store.setup());
    expect(error).to.include({ name: 'HeadgateError', code: 'HEADGATE_STORE_AWAY' });
    expect(error.message).to.include(`npx headgate-cli postgres-schema --table ${own}`);
    expect(error.cause).to.include({ code: '42501' });
    await pool.query(postgresSchema({ table: own }));
    await pool.query(
      `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ${own}_app;
       GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO ${own}_app`,
    );
    await store.setup();
    const limiter = limiterOver(app, own);
    await limiter.override('key', { minute: { limit: 60 } });
    expect((await limiter.consume('key')).allowed).to.equal(true);
    await limiter.close();
    await app.end();
  });

  it('setup() creates tables in transactions that are read-only by default', async () => {
    const careful = server.pool({ options: '-c default_transaction_read_only=on' });
    const own = freshTable();
    await postgresStore(careful, { table: own }).setup();
    const limiter = limiterOver(careful, own);
    expect((await limiter.consume('key')).allowed).to.equal(true);
    await limiter.close();
    await careful.end();
  });

  it('setup() without a server is a HeadgateError', async () => {
    const nobody = new Pool({ connectionString: 'postgres://x@127.0.0.1:1/x' });
    expect(await errorOf(() => postgresStore(nobody).setup())).to.include({ code: 'HEADGATE_STORE_AWAY' });
    await nobody.end();
  });
});
