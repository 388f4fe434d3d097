// A database that the user opened with other settings than Headgate's: rows as arrays, and integers as BigInts.
import { join } from 'node:path';
import { expect } from 'chai';
import { createLimiter } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { sqliteStore, type SqliteDatabase } from 'headgate/sqlite';
import { drivers, makeDirectory } from '../support/sqlite.js';

interface BetterSqlite extends SqliteDatabase {
  defaultSafeIntegers(isOn: boolean): unknown;
}

for (const [driver, Driver] of Object.entries(drivers)) {
  describe(`a database of ${driver} with settings of its user`, () => {
    it('decides, logs and keeps crossings as with the default settings', async () => {
      const database = new Driver(
        join(makeDirectory(), 'limits.db'),
        driver === 'node:sqlite' ? { readBigInts: true, returnArrays: true } : {},
      );
      if (driver === 'better-sqlite3') (database as BetterSqlite).defaultSafeIntegers(true);
      const store = sqliteStore(database, { thresholds: 'stream' });
      const limiter = createLimiter({
        ...{ name: 'api', store, limit: 2, window: '1h', thresholds: [1], overrides: true },
        ...{ timeout: '10s', onStoreError: 'throw' as const },
      });
      // Enough writes for a sweep of expired rows.
      for (let i = 0; i < 40; i++) await limiter.consume(`key ${i}`);
      expect((await limiter.consume('ada', { cost: 2 })).degraded).to.equal(false);
      expect((await limiter.consume('ada')).allowed).to.equal(false);
      await limiter.override('ada', '5/1h');
      expect((await limiter.peek('ada')).remaining).to.equal(3);
      const admin = createAdmin(store);
      const log = [];
      for await (const change of admin.log()) log.push(change);
      expect(log.map(({ action }) => action)).to.deep.equal(['override']);
      const crossings = await admin.thresholds({ group: 'mail' }).read();
      expect(crossings.map(({ key }) => key)).to.deep.equal(['ada']);
      for (const crossing of crossings) await admin.thresholds({ group: 'mail' }).ack(crossing);
      expect(await admin.thresholds({ group: 'mail' }).read()).to.deep.equal([]);
      await limiter.close();
      await store.close?.();
      database.close();
    });
  });
}
