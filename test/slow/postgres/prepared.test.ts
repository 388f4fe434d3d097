// Prepared statements of PostgreSQL: a session of its own keeps them, sessions behind a pooler do not, and no session may lose a decision.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { expect } from 'chai';
import type { Pool } from 'pg';
import { createLimiter, type CreateLimiterOptions } from 'headgate';
import { postgresStore } from 'headgate/postgres';
import { Session } from '../../../src/stores/postgres/prepared.js';
import { STATEMENTS } from '../../../src/stores/postgres/statements.js';
import { escaped, unescaped } from '../../../src/stores/postgres/state-text.js';
import { LAYOUT_VERSION } from '../../../src/stores/state/saved-state.js';
import type { PostgresTask } from '../../support/postgres-child.js';
import { noteTexts } from '../../support/postgres-texts.js';
import { type PostgresServer, startPgBouncer, usePostgres } from '../../support/postgres.js';
import { killChild, startChild } from '../../support/processes.js';

const many: CreateLimiterOptions = {
  ...{ name: 'api', algorithm: 'fixed-window', limit: 1_000_000, window: '30d' },
  ...{ onStoreError: 'throw', timeout: '30s' },
};

describe('PostgreSQL, prepared statements', function () {
  this.timeout(60_000);
  let server: PostgresServer;
  let pool: Pool;
  let table: string;

  usePostgres((rig) => ({ server, pool, table } = rig));

  const limiterOver = (given: Pool) => createLimiter({ ...many, store: postgresStore(given, { table }) });

  const prepared = async (given: Pool): Promise<string[]> => {
    const text = "SELECT name FROM pg_prepared_statements WHERE name LIKE 'headgate%'";
    return (await given.query<{ name: string }>(text)).rows.map(({ name }) => name);
  };

  it('64 decisions of a turn: two texts of at most eight statements, which the server neither parses nor plans', async () => {
    const own = server.pool({ max: 1 });
    const sent = noteTexts(own);
    const limiter = limiterOver(own);
    const turn = () => Promise.all(Array.from({ length: 64 }, (_, i) => limiter.consume(`key ${i}`)));
    for (let i = 0; i < 4; i++) await turn();
    sent.length = 0;
    await turn();
    expect(sent).to.have.length(2);
    const statements = sent.map(({ text }) =>
      text.split(/;\s*/).map((each) => each.trim().split(/ |\s/, 1)[0]),
    );
    expect(statements[0]).to.deep.equal(['BEGIN', ...Array<string>(6).fill('SET'), 'EXECUTE']);
    expect(statements[1]!.filter((each) => each !== 'EXECUTE')).to.deep.equal(['COMMIT']);
    expect(statements[1]!.length).to.be.at.most(3);
    // The keys are sent twice, and each state once.
    expect(sent.reduce((bytes, { text }) => bytes + text.length, 0) / 64).to.be.below(200);
    await own.end();
  });

  it('new keys among others that are settled: the transaction begins anew, and charges each key once', async () => {
    const own = server.pool({ max: 1 });
    const sent = noteTexts(own);
    const limiter = limiterOver(own);
    const turn = async (keys: readonly string[]) =>
      (await Promise.all(keys.map((key) => limiter.consume(key)))).map(
        ({ remaining }) => 1_000_000 - remaining,
      );
    for (let i = 1; i < 6; i++) expect(await turn(['b', 'd'])).to.deep.equal([i, i]);
    sent.length = 0;
    expect(await turn(['d', 'c', 'b', 'a'])).to.deep.equal([6, 1, 6, 1]);
    expect(sent.map(({ text }) => text.slice(0, 8))).to.deep.equal(['BEGIN IS', 'ROLLBACK', 'EXECUTE ']);
    sent.length = 0;
    // After new keys, the next transactions expect others.
    expect(await turn(['e', 'b'])).to.deep.equal([1, 7]);
    expect(sent).to.have.length(2);
    for (const key of ['b', 'f']) await limiter.peek(key);
    for (let i = 1; i < 6; i++) expect(await turn(['b'])).to.deep.equal([7 + i]);
    sent.length = 0;
    expect(await turn(['g'])).to.deep.equal([1]);
    expect(sent.map(({ text }) => text.slice(0, 8))).to.deep.equal(['BEGIN IS', 'ROLLBACK', 'EXECUTE ']);
    await own.end();
  });

  it('one hot key: the rows and the texts of 64 decisions are those of one', async () => {
    const own = server.pool({ max: 1 });
    const sent = noteTexts(own);
    const limiter = limiterOver(own);
    const turn = () => Promise.all(Array.from({ length: 64 }, () => limiter.consume('key')));
    for (let i = 0; i < 4; i++) await turn();
    sent.length = 0;
    await turn();
    expect(sent).to.have.length(2);
    expect(sent.reduce((bytes, { text }) => bytes + text.length, 0)).to.be.below(700);
    await own.end();
  });

  it('a session that loses its statements decides on, without them', async () => {
    const own = server.pool({ max: 1 });
    const limiter = limiterOver(own);
    for (let i = 0; i < 3; i++) await limiter.consume('key');
    expect(await prepared(own)).to.have.length(10);
    await own.query('DISCARD ALL');
    expect((await limiter.consume('key')).remaining).to.equal(1_000_000 - 4);
    expect((await limiter.consume('key')).remaining).to.equal(1_000_000 - 5);
    expect(await prepared(own)).to.deep.equal([]);
    await own.end();
  });

  it('a table that is created anew, and two tables of one session', async () => {
    const own = server.pool({ max: 1 });
    const [limiter, other] = [
      limiterOver(own),
      createLimiter({ ...many, store: postgresStore(own, { table: 'other' }) }),
    ];
    await postgresStore(own, { table: 'other' }).setup();
    for (let i = 1; i < 5; i++) {
      expect((await limiter.consume('key')).remaining).to.equal(1_000_000 - i);
      expect((await other.consume('key')).remaining).to.equal(1_000_000 - i);
    }
    await own.query('DROP TABLE other, other_log, other_crossings, other_readers');
    await postgresStore(own, { table: 'other' }).setup();
    expect((await other.consume('key')).remaining).to.equal(1_000_000 - 1);
    expect((await limiter.consume('key')).remaining).to.equal(1_000_000 - 5);
    await own.end();
  });

  it('PgBouncer in transaction mode: no session of the server keeps a statement', async () => {
    const bouncer = await startPgBouncer(server, 2);
    const own = server.pool({ connectionString: bouncer.url, max: 4 });
    const sent = noteTexts(own);
    const limiter = limiterOver(own);
    for (let i = 0; i < 50; i++) await Promise.all([1, 2, 3].map((n) => limiter.consume(`key ${n}`)));
    expect((await limiter.peek('key 1')).remaining).to.equal(1_000_000 - 50);
    expect(sent.filter(({ text }) => /PREPARE|EXECUTE/.test(text))).to.deep.equal([]);
    for (let i = 0; i < 4; i++) expect(await prepared(own)).to.deep.equal([]);
    await own.end();
    await bouncer.stop();
  });

  it('a pooler that passes on the id of a process: decisions stay exact, and the client learns', async () => {
    const bouncer = await startPgBouncer(server, 3);
    const own = server.pool({ connectionString: bouncer.url, max: 4 });
    const { rows } = await own.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    own.on('connect', (client) => Object.assign(client, { processID: rows[0]!.pid }));
    const blocker = await own.connect();
    const sent = noteTexts(own);
    const limiter = limiterOver(own);
    for (let i = 1; i < 30; i++) {
      expect((await limiter.consume('key')).remaining).to.equal(1_000_000 - i);
      // While this transaction keeps the session of the prepared statements, decisions get another one.
      if (i > 2) await blocker.query(i % 2 === 0 ? 'COMMIT' : 'BEGIN; SELECT 1');
    }
    const used = sent.map(({ text }) => text.includes('EXECUTE'));
    expect(used).to.include(true);
    expect(used.slice(-20)).to.not.include(true);
    blocker.release();
    await own.end();
    await bouncer.stop();
  });

  it('new keys are locked, too: processes admit exactly the limit of each', async () => {
    const children = await Promise.all(
      [1, 2, 3, 4].map(() => startChild('postgres-child.ts', server.url, table)),
    );
    try {
      for (let round = 0; round < 8; round++) {
        const options: CreateLimiterOptions = { ...many, name: `new ${round}`, limit: 50 };
        const answers = children.map((child) => once(child, 'message'));
        for (const child of children) child.send({ options, requests: 30 } satisfies PostgresTask);
        const admitted = (await Promise.all(answers)).flatMap(([remaining]) => remaining as number[]);
        expect(admitted.sort((a, b) => b - a)).to.deep.equal(Array.from({ length: 50 }, (_, i) => 49 - i));
      }
    } finally {
      await Promise.all(children.map(killChild));
    }
  });

  it('rows that another program has written count as no state or as the same state', async () => {
    const limiter = limiterOver(pool);
    await limiter.consume('a');
    await limiter.consume('b');
    const spaced = `state = replace(convert_from(state, 'UTF8'), ',', E',\\n')::bytea`;
    await pool.query(`UPDATE ${table} SET ${spaced} WHERE key LIKE '%:a}%'`);
    await pool.query(`UPDATE ${table} SET state = '\\x00ff0a5c0d' WHERE key LIKE '%:b}%'`);
    const answers = await Promise.all(['a', 'b', 'c'].map((key) => limiter.consume(key)));
    expect(answers.map(({ remaining }) => 1_000_000 - remaining)).to.deep.equal([2, 1, 1]);
  });

  it('any bytes as text, in one line of ASCII, as the server writes and reads it', async () => {
    for (const bytes of [
      ...Array.from({ length: 50 }, () => randomBytes(40)),
      Buffer.from('\\\\012\\"é\n'),
    ]) {
      const text = escaped(bytes);
      expect(text).to.match(/^[\x20-\x7e]*$/);
      expect(Buffer.from(unescaped(text))).to.deep.equal(bytes);
      const { rows } = await pool.query<{ bytes: Buffer; text: string }>(
        `SELECT decode($1, 'escape') AS bytes, encode($2::bytea, 'escape') AS text`,
        [text, bytes],
      );
      expect(rows[0]!.bytes).to.deep.equal(bytes);
      expect(Buffer.from(unescaped(rows[0]!.text))).to.deep.equal(bytes);
    }
    expect(escaped(Buffer.from(`${LAYOUT_VERSION} 1 [[0],[],[]]`))).to.equal(
      `${LAYOUT_VERSION} 1 [[0],[],[]]`,
    );
  });

  it('a statement that arrives in the session of another client is never the statement of another table', () => {
    const nameFor = (tableName: string): string => {
      const session = new Session('1');
      session.answeredBy('1');
      return /^PREPARE (\S+)/.exec(session.textsOf(tableName).prepare())![1]!;
    };
    expect(nameFor('"one"')).to.equal(nameFor('"one"')).and.not.equal(nameFor('"two"'));
  });

  it('no plan reads the whole table, also if it was made while the table was empty', async () => {
    const own = server.pool({ max: 1 });
    await own.query('SET plan_cache_mode = force_generic_plan');
    const limiter = limiterOver(own);
    for (let i = 0; i < 3; i++) await limiter.consume('key');
    const names = await prepared(own);
    expect(names).to.have.length(10);
    const given = { text: "E'\\na'", 'bigint[]': "'{1}'", bigint: '1' } as const;
    for (const [statement, { types }] of Object.entries(STATEMENTS)) {
      const name = names.find((each) => each.includes(`_${statement.toLowerCase()}_`))!;
      const values = types.split(', ').map((type) => given[type as keyof typeof given]);
      const { rows } = await own.query<Record<string, string>>(
        `EXPLAIN EXECUTE ${name} (${values.join(',')})`,
      );
      const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
      expect(plan).to.not.match(/Seq Scan on t_/);
      const scans = plan.match(/Index (Only )?Scan/g) ?? [];
      expect(plan.match(/Index Cond/g) ?? [], plan).to.have.length(scans.length);
    }
    await own.end();
  });

  it('a client without the id of its process never prepares', () => {
    const session = new Session(undefined);
    session.answeredBy('1');
    expect(session.textsOf('t').prepare()).to.equal('');
    expect(session.textsOf('t').run('lock', "'a'")).to.match(/^INSERT/);
    expect(session.lose()).to.equal(false);
  });
});
