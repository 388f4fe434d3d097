// The messages of a decision to PostgreSQL: a count that shows a regression on any machine.
import { expect } from 'chai';
import pg, { type Pool } from 'pg';
import { createLimiter, type Limiter } from 'headgate';
import { postgresStore } from 'headgate/postgres';
import { usePostgres } from '../../support/postgres.js';

/** The most messages of a transaction that decides. Each has several statements, and costs a way to the server and back. */
const MOST = 2;
/** The decisions of a turn of the event loop, which share transactions. */
const TOGETHER = 64;

describe('PostgreSQL, counts', function () {
  this.timeout(60_000);
  let pool: Pool;
  let table: string;
  let sent: string[];
  let limiter: Limiter;

  usePostgres((rig) => ({ pool, table } = rig));

  const { query } = pg.Client.prototype;
  beforeEach(async () => {
    limiter = createLimiter({
      ...{ name: 'api', store: postgresStore(pool, { table }), limit: 1000, window: '1h' },
      ...{ timeout: '30s', connectTimeout: '30s' },
    });
    // The first decisions of a process also read what the store has to know.
    await Promise.all(Array.from({ length: TOGETHER }, (_, i) => limiter.consume(`k${i}`)));
    sent = [];
    pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]): unknown {
      const [first] = args as [string | { text: string }];
      sent.push(typeof first === 'string' ? first : first.text);
      return Reflect.apply(query, this, args);
    } as typeof query;
  });
  afterEach(async () => {
    pg.Client.prototype.query = query;
    await limiter.close();
  });

  it('messages of a decision alone', async () => {
    expect((await limiter.consume('k1')).allowed).to.equal(true);
    expect(sent.length).to.be.within(1, MOST);
  });

  it('messages of decisions together', async () => {
    const decisions = Array.from({ length: TOGETHER }, (_, i) => limiter.consume(`k${i}`));
    for (const { allowed } of await Promise.all(decisions)) expect(allowed).to.equal(true);
    expect(sent.length).to.be.within(1, MOST);
  });
});
