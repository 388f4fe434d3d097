import {
  addDenial,
  DENIALS_LIFE_MS,
  hourOf,
  leastOf,
  MAX_KEYS_PER_HOUR,
  type DenialCount,
  type DenialCounts,
  type KeyDenials,
} from './denials.js';
import { DAY_LIFE_MS, HISTORY_LIFE_MS, isOfDay, join, MAX_HISTORIES, SECONDS_LIFE_MS } from './history.js';
import type { Counted, CountSink, MinuteFields } from './sink.js';
import { HOUR_MS, MINUTE_MS, STEP_MS } from './times.js';

/** The denied keys of an hour, with a number for each: that of its denials, or more if it took the place of another key. */
interface DeniedKeys {
  readonly records: Map<string, KeyDenials>;
  readonly numbers: Map<string, number>;
}

/** Counts by the start of their time, then by limiter and by field. */
type Times = Map<number, Map<string, Map<string, number>>>;

/** The counts of this process, in its memory. */
export class KeptCounts implements CountSink {
  readonly isPermitted = true;
  readonly isReady = true;
  readonly now: () => number;
  #seconds: { readonly at: number; readonly counted: Counted }[] = [];
  /** The counts of minutes, and those of ten minutes. */
  readonly #minutes: Times = new Map();
  readonly #steps: Times = new Map();
  /** By the start of the hour. */
  readonly #hours = new Map<number, DeniedKeys>();

  constructor(now: () => number) {
    this.now = now;
  }

  /** The counts of the last minute, the oldest first. */
  get seconds(): readonly { readonly at: number; readonly counted: Counted }[] {
    return this.#seconds;
  }

  /** The fields of a limiter in a minute, or in ten minutes. @param length MINUTE_MS or STEP_MS */
  fieldsOf(name: string, start: number, length: number): ReadonlyMap<string, number> | undefined {
    return this.#timesOf(length).get(start)?.get(name);
  }

  /** The limiters with counts. @param length MINUTE_MS or STEP_MS */
  namesOf(length: number): string[] {
    return [...new Set([...this.#timesOf(length).values()].flatMap((limiters) => [...limiters.keys()]))];
  }

  #timesOf(length: number): Times {
    return length === MINUTE_MS ? this.#minutes : this.#steps;
  }

  denialsOf(owner: string, hour: number): KeyDenials | undefined {
    return this.#hours.get(hour)?.records.get(owner);
  }

  write(counted: Counted, minutes: MinuteFields, denials: DenialCounts, start = this.now()): void {
    const at = this.now();
    this.#seconds = [
      ...this.#seconds.filter((each) => each.at > at - SECONDS_LIFE_MS && each.at <= at),
      { at, counted },
    ];
    join(limitersAt(this.#minutes, start - (start % MINUTE_MS)), minutes, MAX_HISTORIES);
    join(limitersAt(this.#steps, start - (start % STEP_MS)), minutes, MAX_HISTORIES, isOfDay);
    for (const each of this.#minutes.keys())
      if (each < at - HISTORY_LIFE_MS - MINUTE_MS) this.#minutes.delete(each);
    for (const each of this.#steps.keys()) if (each < at - DAY_LIFE_MS - STEP_MS) this.#steps.delete(each);
    for (const denial of denials) this.#addDenial(denial);
    for (const hour of this.#hours.keys())
      if (hour <= at - DENIALS_LIFE_MS - HOUR_MS) this.#hours.delete(hour);
  }

  #addDenial(denial: DenialCount): void {
    const hour = hourOf(denial.minute);
    const keys: DeniedKeys = this.#hours.get(hour) ?? { records: new Map(), numbers: new Map() };
    this.#hours.set(hour, keys);
    const { records, numbers } = keys;
    const { owner } = denial;
    let before = numbers.get(owner) ?? 0;
    if (before === 0 && numbers.size >= MAX_KEYS_PER_HOUR) {
      const [least, number] = leastOf(numbers);
      numbers.delete(least);
      records.delete(least);
      before = number;
    }
    numbers.set(owner, before + denial.count);
    records.set(owner, addDenial(records.get(owner), denial));
  }
}

function limitersAt(times: Times, start: number): Map<string, Map<string, number>> {
  const limiters = times.get(start) ?? new Map<string, Map<string, number>>();
  times.set(start, limiters);
  return limiters;
}
