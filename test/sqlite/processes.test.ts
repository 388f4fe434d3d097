// Several processes on one SQLite file: races, and processes that are killed during a write.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { Algorithm, CreateLimiterOptions } from 'headgate';
import { killChild, startChild } from '../support/processes.js';
import { windowed as algorithms } from '../support/policies.js';
import { limiterOn } from '../support/stores.js';
import { makeDirectory, openDatabase, storeOn } from '../support/sqlite.js';

/** The task of a process. With `log` it sends requests without end, and appends the answer of each admitted request to the log. */
export interface SqliteTask {
  readonly options: CreateLimiterOptions;
  readonly requests: number;
  readonly log?: string;
  /** With `log`: the number of keys. Absent for one key and a log without keys. */
  readonly keys?: number;
}

/** A policy with a window so long that no unit comes back meanwhile. */
const policyFor = (algorithm: Algorithm, limit: number) =>
  (algorithm === 'concurrency'
    ? { name: algorithm, algorithm, limit, lease: '30d' }
    : { name: algorithm, algorithm, limit, window: '30d' }) as CreateLimiterOptions;

const start = (path: string) => startChild('sqlite-child.ts', path);

describe('SQLite, four processes', function () {
  this.timeout(60_000);
  const children: ChildProcess[] = [];
  let path: string;

  before(async () => {
    path = join(makeDirectory(), 'limits.db');
    children.push(...(await Promise.all([1, 2, 3, 4].map(() => start(path)))));
  });
  after(() => Promise.all(children.map(killChild)));

  for (const algorithm of algorithms) {
    it(`law 7, race: ${algorithm}`, async () => {
      const task: SqliteTask = { options: policyFor(algorithm, 100), requests: 60 };
      const answers = children.map((child) => once(child, 'message'));
      for (const child of children) child.send(task);
      const admitted = (await Promise.all(answers)).flatMap(([remaining]) => remaining as number[]);
      expect(admitted.sort((a, b) => b - a)).to.deep.equal(Array.from({ length: 100 }, (_, i) => 99 - i));
    });
  }
});

describe('SQLite, processes that are killed', function () {
  this.timeout(60_000);

  it('no two processes get the same unit, and no unit that a process got is lost', async () => {
    const directory = makeDirectory();
    const path = join(directory, 'limits.db');
    const log = join(directory, 'admitted');
    const limit = 1_000_000;
    const options: CreateLimiterOptions = { name: 'kill', algorithm: 'fixed-window', limit, window: '30d' };
    writeFileSync(log, '');
    const children = await Promise.all([1, 2, 3, 4].map(() => start(path)));
    const task: SqliteTask = { options, requests: 8, log };
    for (const child of children) child.send(task);
    for (let i = 0; i < 3; i++) {
      await sleep(100 + Math.random() * 200);
      await killChild(children[i % 4]!);
      const child = (children[i % 4] = await start(path));
      child.send(task);
    }
    await Promise.all(children.map(killChild));
    const logged = readFileSync(log, 'utf8').trim().split('\n').map(Number);
    expect(logged.length).to.be.above(100);
    expect(new Set(logged).size, 'admitted twice').to.equal(logged.length);
    const { remaining } = await limiterOn(storeOn(path), options).peek('key');
    const spent = limit - remaining;
    expect(spent, 'lost').to.be.at.least(logged.length);
    // A killed process has at most its open requests.
    expect(spent - logged.length, 'spent and not logged').to.be.at.most(7 * 8);
    expect(
      logged.reduce((least, each) => Math.min(least, each)),
      'lost',
    ).to.be.at.least(remaining);
    const check = openDatabase(path).prepare('PRAGMA integrity_check').get();
    expect(check).to.deep.include({ integrity_check: 'ok' });
  });
});
