// Transactions of PostgreSQL that fail, are lost, or meet a busy process: laws 8 and 14, and the order of questions.
import { createServer, connect, type AddressInfo, type Server } from 'node:net';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { Pool, PoolClient } from 'pg';
import { createLimiter, type CreateLimiterOptions } from 'headgate';
import { postgresStore, type PostgresStoreOptions } from 'headgate/postgres';
import { outcomeOf, type PostgresServer, startPgBouncer, usePostgres } from '../../support/postgres.js';

const LIMIT = 1_000_000;
const many: CreateLimiterOptions = { algorithm: 'fixed-window', limit: LIMIT, window: '30d' };

/** Blocks the event loop. */
function block(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end;);
}

describe('PostgreSQL, transactions', function () {
  this.timeout(120_000);
  let server: PostgresServer;
  let pool: Pool;
  let table: string;

  usePostgres((rig) => ({ server, pool, table } = rig));
  before(async () => {
    await pool.query('CREATE SEQUENCE raised');
  });

  function newPool(config: Parameters<PostgresServer['pool']>[0] = {}): Pool {
    const made = server.pool(config);
    made.on('error', () => {});
    return made;
  }

  const throwing = (given: Pool = pool, options: Partial<PostgresStoreOptions> = {}) =>
    createLimiter({
      ...many,
      onStoreError: 'throw',
      timeout: '30s',
      store: postgresStore(given, { table, ...options }),
    });

  const spent = async () => LIMIT - (await throwing().peek('key')).remaining;

  /** Runs PL/pgSQL at each change of the table: at once, or within the commit. */
  async function onChange(moment: 'BEFORE INSERT' | 'BEFORE UPDATE' | 'COMMIT', body: string) {
    const trigger =
      moment === 'COMMIT'
        ? `CONSTRAINT TRIGGER fault AFTER UPDATE ON ${table} DEFERRABLE INITIALLY DEFERRED`
        : `TRIGGER fault ${moment} ON ${table}`;
    await pool.query(
      `CREATE FUNCTION ${table}_fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${body}; RETURN NEW; END $$;
CREATE ${trigger} FOR EACH ROW EXECUTE FUNCTION ${table}_fault()`,
    );
  }

  /** Whether the machine leaves the server too little time: then the store really is late. */
  async function isServerLate(): Promise<boolean> {
    let longest = 0;
    for (let i = 0; i < 20; i++) {
      const at = performance.now();
      await pool.query('SELECT 1');
      longest = Math.max(longest, performance.now() - at);
    }
    return longest > 20;
  }

  /** Plays a scene in which the server must answer in time, and again if it fails while the server is late. */
  async function whileServerIsPunctual(scene: (key: string) => Promise<void>): Promise<void> {
    for (let tries = 19; ; tries--) {
      try {
        return await scene(`key ${tries}`);
      } catch (error) {
        if (tries === 0 || !(await isServerLate())) throw error;
      }
    }
  }

  const repair = () => pool.query(`DROP TRIGGER fault ON ${table}`);

  const moments = ['BEFORE INSERT', 'BEFORE UPDATE', 'COMMIT'] as const;
  const states = {
    53100: 'disk full',
    53200: 'out of memory',
    25006: 'a server that can only read',
    57014: 'statement_timeout',
    XX000: 'an internal error',
  };
  for (const moment of moments) {
    for (const [state, name] of Object.entries(states)) {
      it(`${name}, ${moment}: nothing is charged, the reason is in the error, and the store works again`, async () => {
        const own = newPool({ max: 2 });
        const limiter = throwing(own);
        await limiter.consume('key');
        await onChange(moment, `RAISE EXCEPTION 'no luck' USING ERRCODE = '${state}'`);
        const asked = moment === 'BEFORE INSERT' ? 'new' : 'key';
        expect(await outcomeOf(limiter.consume(asked)))
          .to.contain('HEADGATE_STORE_AWAY')
          .and.contain('no luck');
        await repair();
        expect((await limiter.consume('key')).remaining).to.equal(LIMIT - 2);
        expect(await spent()).to.equal(2);
        expect([own.totalCount - own.idleCount, own.waitingCount]).to.deep.equal([0, 0]);
        await own.end();
      });
    }
    for (const [state, name] of Object.entries({ '40P01': 'a deadlock', 40001: 'a conflict' })) {
      it(`${name}, ${moment}: the transaction is tried again, and charges once`, async () => {
        await pool.query("SELECT setval('raised', 1)");
        const body = `IF nextval('raised') < 4 THEN RAISE EXCEPTION 'again' USING ERRCODE = '${state}'; END IF`;
        await onChange(moment, body);
        expect((await throwing().consume('key')).remaining).to.equal(LIMIT - 1);
        await repair();
        expect(await spent()).to.equal(1);
      });
    }
  }

  it('a table that hides its rows is refused', async () => {
    await onChange('BEFORE INSERT', 'RETURN NULL');
    expect(await outcomeOf(throwing().consume('key')))
      .to.contain('HEADGATE_STORE_AWAY')
      .and.contain('hides');
  });

  it('a conflict without end is reported', async () => {
    await onChange('COMMIT', "RAISE EXCEPTION 'no luck' USING ERRCODE = '40P01'");
    expect(await outcomeOf(throwing().consume('key'))).to.contain('HEADGATE_STORE_AWAY');
  });

  it('a connection that is lost while it waits for a lock is replaced, and the question is charged once', async () => {
    const own = newPool({ application_name: 'waiting' });
    const limiter = throwing(own);
    await limiter.consume('key');
    const other = await pool.connect();
    await other.query(`BEGIN; SELECT * FROM ${table} FOR UPDATE`);
    const answer = limiter.consume('key');
    const waits = "FROM pg_stat_activity WHERE application_name = 'waiting' AND wait_event_type = 'Lock'";
    while ((await pool.query(`SELECT pg_terminate_backend(pid) ${waits}`)).rows.length === 0) await sleep(5);
    await other.query('COMMIT');
    other.release();
    expect((await answer).remaining).to.equal(LIMIT - 2);
    await own.end();
  });

  it('a server that ends the session within the commit: the outcome counts as unknown', async () => {
    await onChange('COMMIT', 'PERFORM pg_terminate_backend(pg_backend_pid())');
    const own = newPool();
    expect(await outcomeOf(throwing(own).consume('key'))).to.contain('HEADGATE_STORE_ERROR');
    await repair();
    expect(await spent()).to.equal(0);
    await own.end();
  });

  it('an answer to the commit that is lost on its way: charged once, and reported as an error', async () => {
    const cut = await startCutter(server.port);
    const own = newPool({ connectionString: `postgres://headgate@127.0.0.1:${cut.port}/postgres` });
    const limiter = throwing(own);
    await limiter.consume('key');
    cut.next();
    expect(await outcomeOf(limiter.consume('key'))).to.contain('HEADGATE_STORE_ERROR');
    expect(await spent()).to.equal(2);
    expect((await limiter.consume('key')).remaining).to.equal(LIMIT - 3);
    await own.end();
    cut.close();
  });

  it('a process that stalls between the texts of a transaction decides again', () =>
    whileServerIsPunctual(async (key) => {
      let stalls = 2;
      const own = newPool();
      const clock = () => {
        if (stalls-- > 0) block(800);
        return Date.now();
      };
      const limiter = createLimiter({ ...many, timeout: 400, store: postgresStore(own, { table, clock }) });
      const { degraded, remaining } = await limiter.consume(key);
      await limiter.close();
      await own.end();
      expect({ degraded, remaining, isOver: stalls < 0 }).to.deep.equal({
        degraded: false,
        remaining: LIMIT - 1,
        isOver: true,
      });
    }));

  it('law 14: a busy process is not a failed store', async () => {
    for (let delay = 0; delay < 12; delay++)
      await whileServerIsPunctual(async (key) => {
        // Each question opens a connection, so that the process is busy at every step.
        const own = newPool({ maxUses: 1 });
        const limiter = createLimiter({ ...many, timeout: 200, store: postgresStore(own, { table }) });
        await limiter.consume(key);
        const answer = limiter.consume(key);
        for (let turn = 0; turn < delay; turn++) await setImmediate();
        block(300);
        const { degraded } = await answer;
        await limiter.close();
        await own.end();
        expect(degraded, `after ${delay} turns`).to.equal(false);
      });
  });

  it('law 14: no request is turned away if a turn has more than the server can answer within `timeout`', async () => {
    const limiter = createLimiter({ ...many, store: postgresStore(pool, { table }), timeout: 500 });
    await limiter.consume('key');
    await pool.query(`CREATE FUNCTION ${table}_slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.2); RETURN NULL; END $$;
CREATE TRIGGER slow BEFORE INSERT ON ${table} FOR EACH STATEMENT EXECUTE FUNCTION ${table}_slow()`);
    await whileServerIsPunctual(async () => {
      const answers = await Promise.all(Array.from({ length: 3000 }, (_, i) => limiter.consume(`key ${i}`)));
      expect(answers.filter(({ degraded }) => degraded)).to.have.length(0);
    });
  });

  it('a pool that gives no connection: the queue stays empty, and the store can be closed', async () => {
    const small = newPool({ max: 1 });
    const held: PoolClient = await small.connect();
    const store = postgresStore(small, { table });
    const limiter = createLimiter({ ...many, store, timeout: 50, connectTimeout: 50 });
    const taken = await Promise.all(Array.from({ length: 200 }, () => limiter.consume('key')));
    expect(taken.filter(({ degraded }) => degraded)).to.have.length(200);
    await limiter.close();
    await store.close!();
    held.release();
    while (small.idleCount < 1) await sleep(5);
    await small.end();
    expect(await spent()).to.equal(0);
  });

  it('units are given back when the server can write again', async () => {
    const limiter = throwing();
    const decision = await limiter.consume('key', { cost: 5 });
    await onChange('COMMIT', "RAISE EXCEPTION 'no luck' USING ERRCODE = '53100'");
    await decision.refund();
    await repair();
    while ((await spent()) > 0) await sleep(20);
  });

  it('questions that wait for a lock until their time is over are not charged', async () => {
    const limiter = createLimiter({ ...many, store: postgresStore(pool, { table }), timeout: 100 });
    await throwing().consume('key');
    const other = await pool.connect();
    await other.query(`BEGIN; SELECT * FROM ${table} FOR UPDATE`);
    const answers = await Promise.all(Array.from({ length: 10 }, () => limiter.consume('key')));
    expect(answers.filter(({ degraded }) => degraded)).to.have.length(10);
    await other.query('COMMIT');
    other.release();
    while ((await limiter.peek('key')).degraded) await sleep(20);
    expect(await spent()).to.equal(1);
  });

  it('a decision that waited for a lock is of the time after the wait', async () => {
    const policies = ['fixed-window 2/1h'];
    const limiter = createLimiter({ policies, store: postgresStore(pool, { table }), timeout: '30s' });
    // From the third transaction without a new key on, one statement locks and reads.
    for (let i = 0; i < 6; i++) await limiter.consume('key');
    const other = await pool.connect();
    await other.query(`BEGIN; SELECT * FROM ${table} FOR UPDATE`);
    const answer = limiter.consume('key');
    await sleep(300);
    const { rows } = await other.query<{ now: number }>(
      'SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now',
    );
    await other.query('COMMIT');
    other.release();
    const { retryAfterMs } = await answer;
    const [policy] = (await limiter.usage('key')).policies;
    expect(retryAfterMs).to.be.at.most(policy!.resetsAt - Number(rows[0]!.now) + 1);
    await limiter.close();
  });

  it('a pool of one connection that has no patience: the questions wait for their turn', async () => {
    const small = newPool({ max: 1, connectionTimeoutMillis: 500 });
    const limiter = throwing(small);
    await limiter.consume('key');
    const other = await pool.connect();
    await other.query(`BEGIN; SELECT * FROM ${table} FOR UPDATE`);
    const first = limiter.consume('key');
    await sleep(20);
    const second = limiter.consume('other');
    await sleep(700);
    await other.query('COMMIT');
    other.release();
    const answers = await Promise.all([first, second]);
    expect(answers.map(({ remaining }) => remaining)).to.deep.equal([LIMIT - 2, LIMIT - 1]);
    await small.end();
  });

  it('a pool of one connection suffices', async () => {
    const small = newPool({ max: 1 });
    const limiter = throwing(small);
    const answers = await Promise.all(Array.from({ length: 500 }, (_, i) => limiter.consume(`key ${i}`)));
    expect(answers.filter(({ allowed }) => allowed)).to.have.length(500);
    await small.end();
  });

  it('questions with a common key are answered in their order', async () => {
    const policy = { limit: LIMIT, window: '30d', algorithm: 'fixed-window' } as const;
    const policies = [
      { name: 'own', ...policy },
      { name: 'org', by: 'org', ...policy },
    ];
    const store = postgresStore(pool, { table });
    const limiter = createLimiter({ name: 'order', policies, onStoreError: 'throw', timeout: '30s', store });
    const order: number[] = [];
    const asked: Promise<unknown>[] = [];
    for (let i = 0; i < 300; i++) {
      const answer = limiter.consume({ key: `key ${i % 7}`, org: 'acme' });
      asked.push(answer.then(({ policies: [, org] }) => (order[i] = org!.remaining)));
      if (i % 3 === 0) await setImmediate();
    }
    await Promise.all(asked);
    expect(order).to.deep.equal(Array.from({ length: 300 }, (_, i) => LIMIT - 1 - i));
  });

  it('PgBouncer in transaction mode: two processes on two connections of the server, exact counts', async () => {
    const bouncer = await startPgBouncer(server, 2);
    const pools = [1, 2].map(() => newPool({ connectionString: bouncer.url, max: 5 }));
    const limiters = pools.map((each) => throwing(each));
    const rounds = Array.from({ length: 400 }, (_, i) => limiters[i % 2]!.consume('key'));
    const left = (await Promise.all(rounds)).map(({ remaining }) => LIMIT - remaining);
    expect(left.sort((a, b) => a - b)).to.deep.equal(rounds.map((_, i) => i + 1));
    await Promise.all(pools.map((each) => each.end()));
    await bouncer.stop();
  });
});

/** A proxy that can end a connection instead of passing on the answer to its next commit. */
async function startCutter(port: number): Promise<{ port: number; next(): void; close(): void }> {
  let isCut = false;
  const proxy: Server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1');
    let hasCommitted = false;
    client.on('data', (data: Buffer) => {
      hasCommitted = isCut && data.includes(';\nCOMMIT\0');
      upstream.write(data);
    });
    upstream.on('data', (data: Buffer) => {
      if (!hasCommitted) return client.write(data);
      isCut = false;
      client.destroy();
      return upstream.destroy();
    });
    for (const socket of [client, upstream]) socket.on('error', () => {});
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  return {
    port: (proxy.address() as AddressInfo).port,
    next: () => (isCut = true),
    close: () => proxy.close(),
  };
}
