import { access, constants, stat, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { failure, usageError } from '../errors.js';
import type { Io } from '../io.js';
import { shownKeys } from './dimensions.js';
import type { Engine } from './engine.js';
import type { Entry } from './line.js';
import { forEachRequest, type Logs } from './logs.js';
import type { Results } from './replay.js';
import { Timeline } from './timeline.js';

export interface Report extends Results {
  readonly command: string;
  readonly denied: DeniedRequests;
  /** The requests of the clients denied most. Undefined if the log cannot be read twice. */
  readonly clients: ClientTimes | undefined;
}

/** Checks, before the work is done, whether a report can be written. @throws CliError */
export async function checkReportPath(path: string, logs: readonly string[], { cwd }: Io): Promise<string> {
  const file = resolve(cwd, path);
  const found = await stat(file).catch(() => undefined);
  for (const log of logs) {
    // A link is another name of the same file.
    const logStat = found && (await stat(resolve(cwd, log)).catch(() => undefined));
    const isSame = logStat !== undefined && logStat.dev === found!.dev && logStat.ino === found!.ino;
    if (isSame || resolve(cwd, log) === file)
      throw usageError(
        `--report: ${path} is one of the logs. Pass the name of a new file: --report report.html.`,
      );
  }
  if (found?.isDirectory()) {
    throw usageError(
      `--report: ${path} is a directory. Pass the name of a file in it: --report ${path}/report.html.`,
    );
  }
  try {
    await access(found ? file : dirname(file), constants.W_OK);
  } catch (error) {
    throw usageError(`--report: ${path} cannot be written: ${(error as Error).message}. Pass another path.`);
  }
  return file;
}

/** Writes the page. @throws CliError `FAILED` */
export async function writeReport(file: string, page: string): Promise<void> {
  try {
    await writeFile(file, page);
  } catch (error) {
    throw failure(
      `--report: ${file} cannot be written: ${(error as Error).message}. Pass another path.`,
      error,
    );
  }
}

/** The number of times that each of many names occurred. */
export type Tally = ReturnType<Counter['tally']>;

/** The number of different names that are counted separately. */
const MOST = 10_000;

class Counter {
  readonly #times = new Map<string, number>();
  #others = 0;

  add(name: string): void {
    const times = this.#times.get(name);
    if (times !== undefined) this.#times.set(name, times + 1);
    else if (this.#times.size === MOST) this.#others += 1;
    // Copy the name: a part of a text keeps the whole text in memory.
    else this.#times.set(Buffer.from(name).toString(), 1);
  }

  /** `others` is the sum of all names that are not among the rows. */
  tally(top: number) {
    const sorted = [...this.#times].sort(([, a], [, b]) => b - a);
    const rest = sorted.slice(top).reduce((sum, [, times]) => sum + times, 0);
    return { rows: sorted.slice(0, top), others: this.#others + rest };
  }
}

/** The requests that a replay denies: their paths, and their original statuses in the log. */
export class DeniedRequests {
  readonly paths = new Counter();
  readonly statuses = new Counter();

  add({ path, status }: Entry): void {
    this.paths.add(path ?? '(no path)');
    this.statuses.add(status === undefined ? '(no status)' : String(status));
  }
}

export type ClientTimes = NonNullable<Awaited<ReturnType<typeof timesOf>>>;

/**
 * Reads logs again, for a few of the clients, because only the end shows which clients are of interest. With a single key, clients do not
 * affect each other, so the others need not be decided again. Undefined if a log cannot be read twice, or has changed.
 */
export async function timesOf(keys: readonly string[], logs: Logs, engine: Engine, io: Io) {
  const again = logs.again();
  if (!again) return undefined;
  const numbers = new Map(keys.map((key, i) => [key, i]));
  const timeline = new Timeline(2 * keys.length);
  await forEachRequest(again, io, 'looking at the clients denied most', ({ key, time }) => {
    // The intervals include all requests, so that they are the same as before.
    const counts = timeline.at(time);
    if (typeof key === 'string' && !numbers.has(key)) return;
    const isDenied = engine.decide(key, time)?.allowed === false;
    for (const shown of shownKeys(key)) {
      const number = numbers.get(shown);
      if (number !== undefined) counts[2 * number + Number(isDenied)]! += 1;
    }
  });
  if (again.changed) return undefined;
  const intervals = [...timeline.intervals()];
  return {
    /** The length of an interval, ms. */
    width: timeline.width,
    /** When each interval begins, ms since the epoch. */
    starts: intervals.map(([start]) => start),
    clients: keys.map((key, i) => ({
      key,
      admitted: intervals.map(([, counts]) => counts[2 * i]!),
      denied: intervals.map(([, counts]) => counts[2 * i + 1]!),
    })),
  };
}
