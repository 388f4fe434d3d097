import { join } from 'node:path';
import { expect } from 'chai';
import { createLimiter } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { sqliteStore, type SqliteStoreOptions } from 'headgate/sqlite';
import { TestClock } from '../../support/clock.js';
import { crossThresholds, expectCrossings } from '../../support/threshold-stream.js';
import { drivers, makeDirectory } from '../../support/sqlite.js';

for (const [driver, Driver] of Object.entries(drivers)) {
  const storeOn = (path: string, options?: SqliteStoreOptions) => sqliteStore(new Driver(path), options);

  describe(`the stream of thresholds in a file, by ${driver}`, () => {
    it('each group reads each crossing until it acknowledges it, also after a restart', async () => {
      const path = join(makeDirectory(), 'limits.db');
      const clock = new TestClock();
      const first = storeOn(path, { thresholds: 'stream', clock: clock.read });
      await crossThresholds(first);
      await first.close?.();
      const second = storeOn(path, { clock: clock.read });
      await expectCrossings(second, clock);
      await second.close?.();
    });

    it('the charge that crosses is decided by the file, and so are the next', async () => {
      const store = storeOn(join(makeDirectory(), 'limits.db'), { thresholds: 'stream' });
      const limiter = createLimiter({ store, limit: 2, window: '1h', thresholds: [0.5, 1], timeout: '10s' });
      const decisions = [];
      for (let i = 0; i < 3; i++) decisions.push(await limiter.consume('ada'));
      expect(decisions.map(({ allowed, degraded }) => [allowed, degraded])).to.deep.equal([
        [true, false],
        [true, false],
        [false, false],
      ]);
      await store.close?.();
    });

    it('hashed keys stay hashed', async () => {
      const hashKeys = 'a secret of 16 characters';
      const store = storeOn(join(makeDirectory(), 'limits.db'), { thresholds: 'stream', hashKeys });
      const limiter = createLimiter({ store, limit: 1, window: '1h', thresholds: [1], timeout: '10s' });
      await limiter.consume('ada');
      const [crossing] = await createAdmin(store).thresholds({ group: 'mail' }).read();
      expect(crossing!.key).to.have.property('hash');
      await store.close?.();
    });

    it('without the option, nothing is written for readers', async () => {
      const store = storeOn(join(makeDirectory(), 'limits.db'));
      await createLimiter({ store, limit: 1, window: '1h', thresholds: [1], timeout: '10s' }).consume('k');
      expect(await createAdmin(store).thresholds({ group: 'mail' }).read()).to.deep.equal([]);
      await store.close?.();
    });
  });
}
