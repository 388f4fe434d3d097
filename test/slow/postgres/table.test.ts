// The size of the table of PostgreSQL after many decisions: expired rows are removed without a cron, and updates change no index.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { Pool } from 'pg';
import { createLimiter } from 'headgate';
import { postgresStore } from 'headgate/postgres';
import { usePostgres } from '../../support/postgres.js';

/** `HEADGATE_DECISIONS=1000000 npx mocha test/slow/postgres/table.test.ts` takes some minutes. */
const DECISIONS = Number(process.env['HEADGATE_DECISIONS'] ?? 100_000);

const keys = {
  'keys that come and go': (n: number) => Math.floor(n / 5 + Math.random() * 1000),
  'keys that stay': () => Math.floor(Math.random() * 10_000),
};

describe('PostgreSQL, the size of the table', function () {
  this.timeout(5 * DECISIONS);
  let pool: Pool;

  usePostgres((rig) => (pool = rig.pool));

  for (const [i, [title, keyOf]] of Object.entries(keys).entries()) {
    it(`${title}: at most twice the live rows, and nearly all updates are HOT`, async () => {
      const table = `size${i}`;
      let now = Date.now();
      const store = postgresStore(pool, { table, clock: () => now });
      await store.setup();
      const limiter = createLimiter({
        ...{ algorithm: 'gcra', limit: 1000, window: '10s', burst: 1000 },
        ...{ store, onStoreError: 'throw', timeout: '30s' },
      });
      let decided = 0;
      const ask = async (): Promise<void> => {
        while (decided < DECISIONS) {
          const n = decided++;
          // A thousand decisions a second.
          now += n % 10 === 0 ? 10 : 0;
          await limiter.consume(`key ${keyOf(n)}`);
        }
      };
      await Promise.all(Array.from({ length: 64 }, ask));
      const { rows } = await pool.query<{ rows: number; live: number }>(
        `SELECT count(*)::int AS rows, (count(*) FILTER (WHERE expires > ${now - 60_000}))::int AS live FROM ${table}`,
      );
      expect(rows[0]!.rows).to.be.at.most(2 * rows[0]!.live);
      // The counts arrive late.
      const counts = async () => {
        const found = await pool.query<{ updates: number; hot: number }>(
          `SELECT n_tup_upd::int AS updates, n_tup_hot_upd::int AS hot FROM pg_stat_user_tables WHERE relname = '${table}'`,
        );
        return found.rows[0]!;
      };
      while ((await counts()).updates < 0.5 * DECISIONS) await sleep(100);
      const { updates, hot } = await counts();
      expect(hot / updates).to.be.above(0.9);
    });
  }
});
