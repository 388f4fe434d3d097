// Several processes on one table: races, keys of several dimensions, and processes that are killed or stalled while holding locks.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { Pool } from 'pg';
import type { Algorithm, CreateLimiterOptions } from 'headgate';
import { postgresStore } from 'headgate/postgres';
import type { PostgresTask } from '../../support/postgres-child.js';
import { type PostgresServer, usePostgres } from '../../support/postgres.js';
import { windowed as algorithms } from '../../support/policies.js';
import { killChild, startChild } from '../../support/processes.js';
import { limiterOn } from '../../support/stores.js';

/** The decisions by keys of several dimensions. `HEADGATE_DECISIONS=1000000` takes many minutes. */
const DECISIONS = Number(process.env['HEADGATE_DECISIONS'] ?? 8000);

/** A policy with a window so long that no unit comes back meanwhile. */
const policyFor = (algorithm: Algorithm, limit: number) =>
  (algorithm === 'concurrency'
    ? { name: algorithm, algorithm, limit, lease: '30d' }
    : { name: algorithm, algorithm, limit, window: '30d' }) as CreateLimiterOptions;

describe('PostgreSQL, several processes', function () {
  this.timeout(120_000 + 2 * DECISIONS);
  let server: PostgresServer;
  let pool: Pool;
  let table: string;
  let children: ChildProcess[];

  usePostgres((rig) => ({ server, pool, table } = rig));
  beforeEach(async () => {
    children = await Promise.all([1, 2, 3, 4].map(start));
  });
  afterEach(() => Promise.all(children.map(killChild)));

  const start = () => startChild('postgres-child.ts', server.url, table);

  const peekAt = (options: CreateLimiterOptions) =>
    limiterOn(postgresStore(pool, { table }), options).peek('key');

  it('law 7, race: of each algorithm', async () => {
    for (const algorithm of algorithms) {
      const task: PostgresTask = { options: policyFor(algorithm, 100), requests: 60 };
      const answers = children.map((child) => once(child, 'message'));
      for (const child of children) child.send(task);
      const admitted = (await Promise.all(answers)).flatMap(([remaining]) => remaining as number[]);
      const each = Array.from({ length: 100 }, (_, i) => 99 - i);
      expect(
        admitted.sort((a, b) => b - a),
        algorithm,
      ).to.deep.equal(each);
    }
  });

  it('keys of several dimensions, in any order, never wait for each other in a circle', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'headgate-'));
    const log = join(directory, 'admitted');
    writeFileSync(log, '');
    const policy = { limit: 1_000_000, window: '30d', algorithm: 'fixed-window' } as const;
    const policies = [
      { name: 'own', ...policy },
      { name: 'account', by: 'account', ...policy },
      { name: 'org', by: 'org', ...policy },
    ];
    for (const child of children)
      child.send({
        options: { name: 'circle', policies },
        requests: 32,
        log,
        keys: 20,
      } satisfies PostgresTask);
    // A line has at least seven characters.
    while (statSync(log).size < 7 * DECISIONS) await sleep(200);
    await Promise.all(children.map(killChild));
    const { rows } = await pool.query<{ deadlocks: string }>(
      'SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()',
    );
    rmSync(directory, { recursive: true });
    expect(rows[0]!.deadlocks).to.equal('0');
  });

  it('no two processes get the same unit, and no unit that a killed process got is lost', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'headgate-'));
    const log = join(directory, 'admitted');
    const limit = 1_000_000;
    const options: CreateLimiterOptions = { name: 'kill', algorithm: 'fixed-window', limit, window: '30d' };
    writeFileSync(log, '');
    const task: PostgresTask = { options, requests: 8, log };
    for (const child of children) child.send(task);
    for (let i = 0; i < 3; i++) {
      await sleep(200 + Math.random() * 200);
      await killChild(children[i]!);
      children[i] = await start();
      children[i]!.send(task);
    }
    await Promise.all(children.map(killChild));
    const logged = readFileSync(log, 'utf8').trim().split('\n').map(Number);
    rmSync(directory, { recursive: true });
    expect(logged.length).to.be.above(100);
    expect(new Set(logged).size, 'admitted twice').to.equal(logged.length);
    const spent = limit - (await peekAt(options)).remaining;
    expect(spent, 'lost').to.be.at.least(logged.length);
    // A killed process has at most its open requests.
    expect(spent - logged.length, 'spent and not logged').to.be.at.most(7 * 8);
  });

  it('a process that stalls in a transaction holds up the others for half a second at most', async () => {
    const options: CreateLimiterOptions = { algorithm: 'fixed-window', limit: 1_000_000, window: '30d' };
    const directory = mkdtempSync(join(tmpdir(), 'headgate-'));
    const log = join(directory, 'admitted');
    writeFileSync(log, '');
    const [child] = children as [ChildProcess];
    // Stalls until a stall hits a transaction that holds the lock of the key's row.
    child.send({ options, requests: 8, log } satisfies PostgresTask);
    while (readFileSync(log).length === 0) await sleep(20);
    const waits: number[] = [];
    for (let i = 0; i < 20; i++) {
      child.kill('SIGSTOP');
      const asked = performance.now();
      await peekAt(options);
      waits.push(performance.now() - asked);
      child.kill('SIGCONT');
      await sleep(20);
    }
    // Without the server's limit, a question would wait until the process goes on, and this test would never end.
    expect(waits).to.have.length(20);
    // The process decided its questions again by another connection.
    const size = readFileSync(log).length;
    while (readFileSync(log).length === size) await sleep(20);
    rmSync(directory, { recursive: true });
  });
});
