// npm run soak sqlite: processes on one file that are killed again and again, and more keys than the file could hold.
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLimiter, type CreateLimiterOptions } from 'headgate';
import { TestClock } from 'headgate/testing';
import { TYPESCRIPT } from '../../scripts/lib/run.mjs';
import { makeDirectory, openDatabase, storeOn } from '../support/sqlite.js';
import type { SqliteTask } from './processes.test.js';

const PROCESSES = 4;
const IN_FLIGHT = 16;
const KEYS = 50;
const LIMIT = 100_000;

export interface Killed {
  readonly admitted: number;
  readonly kills: number;
  /** Units that two callers got, or more than the limit. */
  readonly overAdmitted: number;
  /** Units granted to a caller and missing in the file. */
  readonly lost: number;
  /** Units that were spent without an answer: the units of open requests at a process's death. */
  readonly unlogged: number;
  /** The largest possible number of such units. */
  readonly maxUnlogged: number;
  readonly integrity: string;
}

/** Sends requests from several processes for `minutes`. About each second one of the processes is killed. */
export async function killed(minutes: number): Promise<Killed> {
  const directory = makeDirectory();
  const path = join(directory, 'limits.db');
  const options: CreateLimiterOptions = {
    name: 'soak',
    algorithm: 'fixed-window',
    limit: LIMIT,
    window: '30d',
  };
  const logs: string[] = [];
  const begin = async (): Promise<ChildProcess> => {
    const log = join(directory, `admitted ${logs.length}`);
    logs.push(log);
    writeFileSync(log, '');
    const script = join(import.meta.dirname, '../support/sqlite-child.ts');
    const child = fork(script, [path], { execArgv: TYPESCRIPT });
    await once(child, 'message');
    child.send({ options, requests: IN_FLIGHT, log, keys: KEYS } satisfies SqliteTask);
    return child;
  };
  const end = async (child: ChildProcess): Promise<void> => {
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  };
  const children = await Promise.all(Array.from({ length: PROCESSES }, begin));
  let kills = 0;
  for (const until = Date.now() + 60_000 * minutes; Date.now() < until; kills++) {
    await sleep(300 + 1000 * Math.random());
    const i = Math.floor(Math.random() * PROCESSES);
    await end(children[i]!);
    children[i] = await begin();
  }
  await Promise.all(children.map(end));

  const admitted = Array.from({ length: KEYS }, () => new Set<number>());
  let logged = 0;
  let overAdmitted = 0;
  for (const log of logs) {
    // A killed process may leave a part of a line.
    for (const [, key, remaining] of readFileSync(log, 'utf8').matchAll(/^(\d+) (\d+)\n/gm)) {
      const units = admitted[Number(key)]!;
      if (units.has(Number(remaining))) overAdmitted++;
      units.add(Number(remaining));
      logged++;
    }
  }
  const limiter = createLimiter({ ...options, store: storeOn(path), onStoreError: 'throw', timeout: '1m' });
  let lost = 0;
  let unlogged = 0;
  for (const [key, units] of admitted.entries()) {
    const { remaining } = await limiter.peek(`key ${key}`);
    for (const unit of units) if (unit < remaining) lost++;
    unlogged += LIMIT - remaining - units.size;
  }
  const check = openDatabase(path).prepare('PRAGMA integrity_check').get() as { integrity_check: string };
  const maxUnlogged = (kills + PROCESSES) * IN_FLIGHT;
  return {
    admitted: logged,
    kills,
    overAdmitted,
    lost,
    unlogged,
    maxUnlogged,
    integrity: check.integrity_check,
  };
}

export interface Filled {
  readonly keys: number;
  readonly perSecond: number;
  /** The sizes of file and log at each tenth, MB. */
  readonly files: readonly number[];
  readonly logs: readonly number[];
}

/** Sends one request for each of `keys` keys, some 10,000 of which are alive at a time; or does so for `minutes`. */
export async function filled(keys: number, minutes: number): Promise<Filled> {
  const path = join(makeDirectory(), 'limits.db');
  const clock = new TestClock();
  const limiter = createLimiter({
    store: storeOn(path, { clock: () => clock.now }),
    ...{ limit: 5, window: '1m', algorithm: 'fixed-window', onStoreError: 'throw', timeout: '1m' },
  });
  const [files, logs]: [number[], number[]] = [[], []];
  const began = performance.now();
  const sizeOf = (file: string): number => (statSync(file, { throwIfNoEntry: false })?.size ?? 0) / 2 ** 20;
  let n = 0;
  while (n < keys && performance.now() - began < 60_000 * minutes) {
    await Promise.all(Array.from({ length: 100 }, () => limiter.consume(`key ${n++}`)));
    clock.advance(600);
    const done = Math.max(n / keys, (performance.now() - began) / (60_000 * minutes));
    if (done * 10 >= files.length + 1) {
      files.push(sizeOf(path));
      logs.push(sizeOf(`${path}-wal`));
    }
  }
  const perSecond = (1000 * n) / (performance.now() - began);
  await limiter.close();
  return { keys: n, perSecond, files, logs };
}
