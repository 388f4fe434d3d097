// Plays a drawn site with several processes, kills some of them, and checks the laws on their records.
import type { ChildProcess } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLimiter, HeadgateError, memoryStore, type CreateLimiterOptions, type Limiter } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { killChild, startChild } from '../../support/processes.js';
import { makeDirectory } from '../../support/sqlite.js';
import { checkBounds } from './check-bounds.js';
import { checkBans, checkOverrides } from './check-changes.js';
import { checkIds, checkLedger, killedCharges, openIds } from './check-charges.js';
import { checkThresholds } from './check-thresholds.js';
import { checkReturns, checkWaits } from './check-waits.js';
import { sequence } from './random.js';
import { answerOf, readRecords, type Entry, type Report } from './record.js';
import { siteOf } from './site.js';
import { openerOf } from './store.js';
import {
  GROUP,
  realOptions,
  REDELIVER_MS,
  type Place,
  type ProcessSite,
  type StoreKind,
  type Task,
} from './task.js';

/** Processes that have started and wait for a task, because a start takes longer than a site. */
export class Spares {
  readonly #kind: StoreKind;
  readonly #ready: Promise<ChildProcess>[] = [];

  constructor(kind: StoreKind, count: number) {
    this.#kind = kind;
    for (let i = 0; i < count; i++) this.replace();
  }

  /** Resolves when all processes have started. */
  async ready(): Promise<void> {
    await Promise.all(this.#ready);
  }

  async take(): Promise<ChildProcess> {
    if (this.#ready.length === 0) this.replace();
    return this.#ready.shift()!;
  }

  giveBack(child: ChildProcess): void {
    this.#ready.push(Promise.resolve(child));
  }

  replace(): void {
    this.#ready.push(startChild('together-child.ts', this.#kind));
  }

  async stop(): Promise<void> {
    await Promise.all(this.#ready.map(async (child) => killChild(await child)));
  }
}

export interface Played {
  readonly seed: number;
  readonly faults: readonly string[];
  readonly calls: number;
  readonly kills: number;
  /** The ids that were charged for a process that was killed before its answer. */
  readonly killedCharges: number;
  readonly crossings: number;
}

/** The first site from a seed on that options accept. */
function acceptedSite(seed: number): { site: ProcessSite; seed: number } {
  for (let at = seed; ; at++) {
    const site = siteOf(at);
    try {
      site.limiters.forEach((drawn, i) =>
        createLimiter({ ...realOptions(drawn, i), store: memoryStore() } as never),
      );
      return { site, seed: at };
    } catch (error) {
      if (!(error instanceof HeadgateError)) throw error;
    }
  }
}

/** The error codes of calls whose effect is unknown, because a busy machine was late. They count like those of a killed process. */
const UNKNOWN_EFFECT = /^HEADGATE_STORE_/;

/** The error codes of calls that change nothing, such as a request without the key of any policy. */
const REFUSALS = /^HEADGATE_(INVALID|UNKNOWN|OVERRIDES|DIMENSIONS)/;

export async function play(place: Place, spares: Spares, from: number, ms: number): Promise<Played> {
  const { site, seed } = acceptedSite(from);
  const random = sequence(seed);
  const { entries, reports, kills, late } = await traffic(site, place, spares, random, ms);
  const openStore = await openerOf(place[0]);
  const { store, close } = await openStore(place);
  const limiters = site.limiters.map((drawn, at) =>
    createLimiter({ ...realOptions(drawn, at), store } as CreateLimiterOptions),
  );
  try {
    const open = await repeatIds(limiters, entries);
    const admin = createAdmin(store);
    const stream = await admin.thresholds({ group: 'audit' }).read({ count: 1000 });
    // The crossings that killed readers left.
    const reader = admin.thresholds({ group: GROUP, redeliverAfter: REDELIVER_MS });
    await sleep(REDELIVER_MS + 20);
    for (;;) {
      const at = Date.now();
      const read = await reader.read({ count: 1000 });
      if (read.length === 0) break;
      reports.push(...read.map(({ id }): Report => ({ process: 'end', read: id, at })));
      await reader.ack(...read);
    }
    const all = [...entries, ...open];
    const faults = [
      ...(2 * late > entries.length ? [`the store failed in ${late} of ${entries.length} calls`] : []),
      ...all
        .filter(({ error }) => error !== undefined && !REFUSALS.test(error))
        .map((entry) => `${entry.call} failed: ${JSON.stringify(entry)}`),
      ...checkIds(all),
      ...(await checkLedger(site, all, limiters)),
      ...checkBounds(site, entries),
      ...checkOverrides(site, entries),
      ...checkBans(site, entries),
      ...checkWaits(site, entries),
      ...checkThresholds(site, entries, reports, stream),
      ...(await checkReturns(site, entries, limiters)),
    ];
    const file = process.env['HEADGATE_PROCESSES_RECORDS'];
    if (file && faults.length > 0)
      writeFileSync(file, JSON.stringify({ site, entries: all, reports, stream, faults }));
    return {
      seed,
      faults,
      calls: all.length,
      kills,
      killedCharges: killedCharges(all),
      crossings: stream.length,
    };
  } finally {
    await Promise.all(limiters.map((limiter) => limiter.close()));
    await close();
  }
}

/** Repeats the ids of which killed processes had no answer. */
async function repeatIds(limiters: readonly Limiter[], entries: readonly Entry[]): Promise<Entry[]> {
  const made: Entry[] = [];
  const open = new Map(openIds(entries).map((entry) => [entry.id!, entry]));
  for (const [id, { limiter, keys, cost, tier }] of open) {
    const before = Date.now();
    const decision = await limiters[limiter]!.consume(keys!, { id, cost: cost as number });
    made.push({
      ...{ process: 'end', n: made.length, call: 'consume', before, after: Date.now() },
      ...{ limiter, keys: keys!, cost: cost!, id, answer: answerOf(decision), ...(tier ? { tier } : {}) },
    });
  }
  return made;
}

/** Lets a process kill itself between a charge and its answer, if it soon charges an id. */
async function dies(child: ChildProcess, end: Promise<unknown>): Promise<void> {
  child.send('die', () => {});
  await Promise.race([end, sleep(100)]);
}

async function traffic(site: ProcessSite, place: Place, spares: Spares, random: () => number, ms: number) {
  const directory = makeDirectory();
  const entries: Entry[] = [];
  const reports: Report[] = [];
  const processes = 2 + Math.floor(random() * 3);
  let [started, kills, late] = [0, 0, 0];
  await spares.ready();
  const end = Date.now() + ms;

  /** Runs one process, and a further one whenever it is killed. */
  const run = async (role: Task['role'], killAfter: readonly number[]): Promise<void> => {
    const [next, ...later] = killAfter;
    const child = await spares.take();
    const name = `${role}${started++}`;
    const log = join(directory, name);
    writeFileSync(log, '');
    const left = end - Date.now();
    const done = new Promise<string>((resolve) => {
      child.once('message', (message) => resolve(message as string));
      child.once('exit', () => resolve('killed'));
    });
    child.send({ role, site, place, log, seed: Math.floor(random() * 2 ** 31), ms: left } satisfies Task);
    if (next !== undefined) {
      await sleep(Math.min(next, Math.max(0, left)));
      spares.replace();
      if (role === 'worker') await dies(child, done);
      await killChild(child);
      kills++;
    }
    const outcome = await done;
    if (outcome === 'done') {
      child.removeAllListeners('message');
      if (next === undefined) spares.giveBack(child);
    } else if (outcome !== 'killed') throw new Error(outcome);
    const records = readRecords(log, name);
    for (const { error, ...asked } of records.entries) {
      const isLate = error !== undefined && UNKNOWN_EFFECT.test(error);
      if (isLate) late++;
      const outcome = error === undefined ? {} : { error };
      entries.push(isLate ? { ...asked, after: Infinity } : { ...asked, ...outcome });
    }
    reports.push(...records.reports);
    if (later.length > 0 || (next !== undefined && Date.now() < end - 50)) await run(role, later);
  };

  const killTimes = (most: number) =>
    Array.from({ length: Math.floor(random() * (most + 1)) }, () => ms * (0.1 + 0.5 * random()));
  await Promise.all([
    run('reader', [ms * (0.3 + 0.5 * random())]),
    run('worker', [ms * (0.2 + 0.7 * random())]),
    ...Array.from({ length: processes - 1 }, () => run('worker', killTimes(2))),
  ]);
  return { entries, reports, kills, late };
}
