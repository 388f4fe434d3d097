import { exactMilliseconds, toText } from '../common/duration.js';
import { checkInteger } from '../common/validate.js';
import {
  areNumbers,
  MemoryColumn,
  type Adjustment,
  type AlgorithmDefinition,
  type WindowPolicy,
  type Saved,
} from './algorithm.js';

/**
 * At most `limit` units in any window, exactly, because each admission is remembered. Admissions of the same millisecond share 8 bytes.
 * `limit` up to 1,000,000.
 */
export interface SlidingLogPolicy extends WindowPolicy {
  /** Remembers each admission, so a unit is free exactly one window after its use. Takes 8 bytes a unit. */
  algorithm: 'sliding-log';
}

type SlidingLogParams = {
  readonly limit: number;
  readonly window: number;
};

/** The most units in a log, including debts: the Lua file stores counts in three bytes. */
const MAX_LOG_UNITS = 2 ** 23;

/** The runs of a key, oldest first. A run is the units admitted in one millisecond. The ring of runs grows as needed. */
interface Log {
  times: Float64Array;
  /** For each run: the units since the log began, including the run's units. */
  ends: Float64Array;
  head: number;
  runs: number;
  /** Units of the runs before the head, which no longer count. */
  before: number;
  /** When the log expires. */
  stop: number;
}

/** Runs of admission times. It is exact: the worst case in any window is the limit. */
class SlidingLogColumn extends MemoryColumn<SlidingLogParams> {
  readonly #logs: (Log | undefined)[];
  /** The log found by `#read`, or undefined if there is no log. */
  #log: Log | undefined;
  /** The oldest counted run, the number of counted runs, the units before the oldest, and the units in the counted runs. */
  #head = 0;
  #runs = 0;
  #before = 0;
  #live = 0;

  constructor(rows: number) {
    super();
    this.#logs = new Array<Log | undefined>(rows + 1).fill(undefined);
  }

  /** The position in the ring of the i-th run that counts. */
  #at(i: number): number {
    return (this.#head + i) % this.#log!.times.length;
  }

  /** The units of the runs that count, up to and including the i-th. */
  #through(i: number): number {
    return this.#log!.ends[this.#at(i)]! - this.#before;
  }

  /** The first run that passes a test, which the last run must pass. */
  #first(test: (i: number) => boolean): number {
    if (test(0)) return 0;
    let first = 1;
    let last = this.#runs - 1;
    while (first < last) {
      const middle = Math.floor((first + last) / 2);
      if (test(middle)) last = middle;
      else first = middle + 1;
    }
    return first;
  }

  /** Repairs a log after the clock went back: no unit may lie in the future. */
  #healed(log: Log, now: number, window: number): Log {
    const times = log.times.map((time) => Math.min(time, now));
    return { ...log, times, ends: log.ends.slice(), stop: now + window };
  }

  #read(row: number, { window }: SlidingLogParams, now: number): void {
    let log = this.#logs[row];
    this.#log = undefined;
    this.isStale = false;
    this.#live = 0;
    if (!log || log.stop <= now) return;
    this.isStale = log.stop > now + window;
    if (this.isStale) log = this.#healed(log, now, window);
    this.#log = log;
    this.#head = log.head;
    this.#runs = log.runs;
    this.#before = log.before;
    const oldest = this.#first((i) => log.times[this.#at(i)]! + window > now);
    if (oldest > 0) {
      this.#before = log.ends[this.#at(oldest - 1)]!;
      this.#head = this.#at(oldest);
      this.#runs -= oldest;
    }
    this.#live = this.#through(this.#runs - 1);
  }

  look(row: number, p: SlidingLogParams, cost: number, now: number): void {
    const { limit, window } = p;
    this.#read(row, p, now);
    const log = this.#log;
    const live = this.#live;
    this.wait = 0;
    if (cost > limit) {
      this.wait = -1;
    } else if (log && cost > 0 && live + cost > limit) {
      // Find how many of the oldest units must leave first. The last of them gives the wait.
      const leaving = live + cost - limit;
      const last = this.#first((i) => this.#through(i) >= leaving);
      this.wait = log.times[this.#at(last)]! + window - now;
    }
    this.remaining = live < limit ? limit - live : 0;
    this.reset = log ? log.stop - now : 0;
  }

  override refresh(row: number): void {
    this.#logs[row] = this.#log;
  }

  commit(row: number, p: SlidingLogParams, cost: number, now: number): void {
    const { limit, window } = p;
    const log = (this.#log ??= this.#begin(row));
    const newest = this.#runs > 0 ? this.#at(this.#runs - 1) : -1;
    if (newest >= 0 && log.times[newest] === now) {
      log.ends[newest]! += cost;
    } else {
      if (this.#runs === log.times.length) this.#grow(log, limit);
      const at = this.#at(this.#runs++);
      log.times[at] = now;
      log.ends[at] = this.#before + this.#live + cost;
    }
    this.#live += cost;
    this.#keep(log, now + window);
    this.remaining = limit > this.#live ? limit - this.#live : 0;
    this.reset = window;
  }

  #begin(row: number): Log {
    const log = {
      times: new Float64Array(1),
      ends: new Float64Array(1),
      head: 0,
      runs: 0,
      before: 0,
      stop: 0,
    };
    this.#head = this.#runs = this.#before = 0;
    return (this.#logs[row] = log);
  }

  /**
   * Grows the ring by half, but not beyond the limit's need. Runs without remaining units are dropped. If runs were dropped, the ring has
   * room beyond the limit, so that not every charge rewrites it.
   */
  #grow(log: Log, limit: number): void {
    const kept: number[] = [];
    for (let i = 0; i < this.#runs; i++)
      if (i === 0 || this.#through(i) > this.#through(i - 1)) kept.push(this.#at(i));
    const most = kept.length < this.#runs ? MAX_LOG_UNITS : limit;
    const room = Math.max(kept.length + 1, Math.min(most, Math.ceil(1.5 * kept.length) + 2));
    const times = new Float64Array(room);
    const ends = new Float64Array(room);
    for (const [i, at] of kept.entries()) {
      times[i] = log.times[at]!;
      ends[i] = log.ends[at]!;
    }
    log.times = times;
    log.ends = ends;
    this.#head = 0;
    this.#runs = kept.length;
  }

  #keep(log: Log, stop: number): void {
    log.head = this.#head;
    log.runs = this.#runs;
    log.before = this.#before;
    log.stop = stop;
  }

  adjust(row: number, p: SlidingLogParams, { units, now, of }: Adjustment): number {
    this.#read(row, p, now);
    if (this.isStale) this.refresh(row);
    const log = this.#log;
    const charged = Math.max(0, Math.min(units, MAX_LOG_UNITS - this.#live));
    if (charged > 0) this.commit(row, p, charged, now);
    else if (log && !of) this.#giveBackOldest(log, -units);
    else if (log && of) this.#giveBack(log, Math.min(of.mark - p.window, now), -units);
    if (log && charged === 0) {
      if (this.#live === 0) this.clear(row);
      else this.#keep(log, log.times[this.#at(this.#runs - 1)]! + p.window);
    }
    this.wait = 0;
    this.remaining = Math.max(0, p.limit - this.#live);
    this.reset = this.#live > 0 ? this.#logs[row]!.stop - now : 0;
    return charged;
  }

  /** Gives back the oldest units if the caller does not know which ones. The remaining units then count longest. */
  #giveBackOldest(log: Log, units: number): void {
    const back = Math.min(units, this.#live);
    if (back < this.#live) {
      const head = this.#first((i) => this.#through(i) > back);
      this.#head = (this.#head + head) % log.times.length;
      this.#runs -= head;
    }
    this.#before += back;
    this.#live -= back;
  }

  /** Gives back units that were admitted at a certain time. */
  #giveBack(log: Log, time: number, units: number): void {
    const run = this.#first((i) => i === this.#runs - 1 || log.times[this.#at(i)]! >= time);
    if (log.times[this.#at(run)] !== time) return;
    const back = Math.min(units, this.#through(run) - (run > 0 ? this.#through(run - 1) : 0));
    for (let i = run; i < this.#runs; i++) log.ends[this.#at(i)]! -= back;
    this.#live -= back;
    // The log ends with the last unit that is left.
    while (this.#runs > 1 && this.#through(this.#runs - 2) === this.#live) this.#runs--;
  }

  until(row: number): number {
    return this.#logs[row]?.stop ?? 0;
  }

  clear(row: number): void {
    this.#logs[row] = undefined;
  }

  /** The log's end; then for each run, the time since the previous run, and the run's units. */
  save(row: number): Saved {
    const log = this.#logs[row];
    if (!log) return [];
    const saved = [log.stop];
    let time = 0;
    let end = log.before;
    for (let i = 0; i < log.runs; i++) {
      const at = (log.head + i) % log.times.length;
      saved.push(log.times[at]! - time, log.ends[at]! - end);
      time = log.times[at]!;
      end = log.ends[at]!;
    }
    return saved;
  }

  load(row: number, saved: Saved): void {
    const runs = (saved.length - 1) / 2;
    if (!(runs >= 1 && Number.isInteger(runs)) || !areNumbers(saved)) return;
    const times = new Float64Array(runs);
    const ends = new Float64Array(runs);
    for (let i = 0; i < runs; i++) {
      times[i] = (i === 0 ? 0 : times[i - 1]!) + saved[1 + 2 * i]!;
      ends[i] = (i === 0 ? 0 : ends[i - 1]!) + saved[2 + 2 * i]!;
    }
    this.#logs[row] = { times, ends, head: 0, runs, before: 0, stop: saved[0]! };
  }

  sibling(rows: number): SlidingLogColumn {
    return new SlidingLogColumn(rows);
  }

  take(from: SlidingLogColumn, theirs: number, ours: number): void {
    this.#logs[ours] = from.#logs[theirs];
  }
}

/** The largest limit, because a log has an entry for each unit. */
const MAX_LOGGED_UNITS = 1e6;

export const slidingLog: AlgorithmDefinition<SlidingLogParams, SlidingLogPolicy> = {
  tag: 'l2',
  names: { 'sliding-log': ['window'] },
  luaParams: { limit: 3, window: 5 },
  compile(what, { limit: given, window: span }) {
    const window = exactMilliseconds(`${what}.window`, span);
    const limit = checkInteger(`${what}.limit`, given, 1, MAX_LOGGED_UNITS);
    return {
      params: { limit, window },
      window,
      shape: toText(window),
      life: window,
      traits: {
        capacity: limit,
        paceMs: undefined,
        // A unit counts from the ms of its charge, so no unit can be spent later.
        slices: undefined,
        unit: undefined,
        nextUnitMs: (remaining, resetMs) => (remaining === 0 ? resetMs : 0),
      },
    };
  },
  createColumn: (rows) => new SlidingLogColumn(rows),
};
