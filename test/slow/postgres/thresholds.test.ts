// The stream of thresholds in PostgreSQL: each group of readers gets each crossing, whatever ends in between.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { Pool } from 'pg';
import { createLimiter } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { postgresStore, type PostgresStoreOptions } from 'headgate/postgres';
import { TestClock } from '../../support/clock.js';
import { crossThresholds, expectCrossings } from '../../support/threshold-stream.js';
import { type PostgresServer, usePostgres } from '../../support/postgres.js';

describe('PostgreSQL, the stream of thresholds', function () {
  this.timeout(60_000);
  let server: PostgresServer;
  let pool: Pool;
  let table: string;

  usePostgres((rig) => ({ server, pool, table } = rig));

  const stream = (options: PostgresStoreOptions = {}) =>
    postgresStore(pool, { table, thresholds: 'stream', ...options });
  const rows = async (suffix: string): Promise<unknown[]> =>
    (await pool.query<object>(`SELECT * FROM ${table}_${suffix} ORDER BY id`)).rows;

  it('each group reads each crossing until it acknowledges it, also from another process', async () => {
    const clock = new TestClock();
    await crossThresholds(stream({ clock: clock.read }));
    await expectCrossings(postgresStore(pool, { table, clock: clock.read }), clock);
  });

  it('the readers of a group share the crossings, while several stores charge at the same time', async () => {
    const stores = [stream(), stream(), stream()];
    const options = { name: 'api', limit: 4, window: '1h', thresholds: [0.5, 1], timeout: '30s' } as const;
    const limiters = stores.map((store) => createLimiter({ ...options, store }));
    const reading = stores.map((store) =>
      createAdmin(store, { timeout: '30s' }).thresholds({ group: 'mail' }),
    );
    const keys = Array.from({ length: 200 }, (_, n) => `key ${n} é`);
    const read: string[] = [];
    let isCharging = true;
    const readers = reading.map(async (reader) => {
      for (let hadAny = true; isCharging || hadAny;) {
        const crossings = await reader.read({ count: 7 });
        hadAny = crossings.length > 0;
        read.push(...crossings.map(({ id }) => id));
        await reader.ack(...crossings);
      }
    });
    await Promise.all(
      limiters.map(async (limiter) => {
        for (const key of keys) await Promise.all([limiter.consume(key), limiter.consume(key)]);
      }),
    );
    isCharging = false;
    await Promise.all(readers);
    expect(read).to.have.length(2 * keys.length);
    expect(new Set(read)).to.have.property('size', 2 * keys.length);
  });

  it('a reader misses no crossing of a transaction that commits late', async () => {
    const holder = await pool.connect();
    await holder.query(`SELECT pg_advisory_lock(7);
CREATE FUNCTION ${table}_wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NEW.entry LIKE '%slow%' THEN PERFORM pg_advisory_xact_lock(7); END IF; RETURN NEW; END $$;
CREATE TRIGGER wait AFTER INSERT ON ${table}_crossings FOR EACH ROW EXECUTE FUNCTION ${table}_wait()`);
    const waiting = async (): Promise<number> =>
      (await holder.query("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")).rows.length;
    const options = { name: 'api', limit: 1, window: '1h', thresholds: [1], timeout: '30s' } as const;
    const [first, second] = [stream(), stream()].map((store) => createLimiter({ ...options, store }));
    // The first decision of a process also compares the options of its limiter, in a row of all processes.
    for (const limiter of [first!, second!]) await limiter.peek('slow');
    const slow = first!.consume('slow');
    while ((await waiting()) < 1) await sleep(5);
    let isDone = false;
    const quick = second!.consume('quick').then(() => (isDone = true));
    // Without a lock around the ids, the second transaction would not wait for the first.
    while (!isDone && (await waiting()) < 2) await sleep(5);
    const mail = createAdmin(stream(), { timeout: '30s' }).thresholds({ group: 'mail' });
    const read = await mail.read();
    await holder.query('SELECT pg_advisory_unlock(7)');
    holder.release();
    await Promise.all([slow, quick]);
    read.push(...(await mail.read()));
    expect(read.map(({ key }) => key)).to.deep.equal(['slow', 'quick']);
  });

  it('a crash of the server loses no crossing, and gives no id twice', async () => {
    const options = { name: 'api', limit: 1, window: '1h', thresholds: [1], timeout: '30s' } as const;
    const mail = createAdmin(stream()).thresholds({ group: 'mail', redeliverAfter: '1s' });
    const limiter = createLimiter({ ...options, store: stream() });
    await limiter.consume('a');
    const [before] = await mail.read();
    await server.crash();
    await server.start();
    await createLimiter({ ...options, store: stream() }).consume('b');
    const after = await createAdmin(stream()).thresholds({ group: 'other' }).read();
    expect(after.map(({ key }) => key)).to.deep.equal(['a', 'b']);
    expect(after[0]!.id).to.equal(before!.id);
  });

  it('the stream is bounded by time, and readers forget what is gone', async () => {
    const clock = new TestClock();
    const store = stream({ clock: clock.read });
    const limiter = createLimiter({ store, limit: 1, window: '1h', thresholds: [1], timeout: '30s' });
    const mail = createAdmin(store).thresholds({ group: 'mail' });
    for (const key of ['a', 'b', 'c']) await limiter.consume(key);
    expect(await mail.read()).to.have.length(3);
    clock.now += 31 * 86_400_000;
    for (const key of ['d', 'e']) await limiter.consume(key);
    expect((await mail.read()).map(({ key }) => key)).to.deep.equal(['d', 'e']);
    expect(await rows('crossings')).to.have.length(2);
    expect(await rows('readers')).to.have.length(3);
  });

  it('hashed keys stay hashed', async () => {
    const store = stream({ hashKeys: 'a secret of 16 characters' });
    await createLimiter({ store, limit: 1, window: '1h', thresholds: [1], timeout: '30s' }).consume('ada');
    const [crossing] = await createAdmin(store).thresholds({ group: 'mail' }).read();
    expect(crossing!.key).to.have.property('hash');
    expect(JSON.stringify(await rows('crossings'))).not.to.contain('ada');
  });

  it('without the option, nothing is written for readers', async () => {
    const store = postgresStore(pool, { table });
    await createLimiter({ store, limit: 1, window: '1h', thresholds: [1], timeout: '30s' }).consume('k');
    expect(await createAdmin(store).thresholds({ group: 'mail' }).read()).to.deep.equal([]);
  });
});
