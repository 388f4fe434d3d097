import { inBackground } from '../../common/background.js';
import { within } from '../../common/within.js';
import type { UpdateRows } from '../state/configurations.js';
import {
  addDenial,
  DENIALS_LIFE_MS,
  hourOf,
  leastOf,
  MAX_KEYS_PER_HOUR,
  parseDenials,
  denialsText,
  type DenialCount,
  type DenialCounts,
} from './denials.js';
import { DAY_LIFE_MS, HISTORY_LIFE_MS, isOfDay, SECONDS_LIFE_MS } from './history.js';
import type { Counted, CountSink, MinuteFields } from './sink.js';
import { HOUR_MS, MINUTE_MS, STEP_MS } from './times.js';

/** A row of a second: the counts of one process. */
export interface SecondRow {
  readonly at: number;
  readonly counted: Counted;
}

/** The prefixes of rows of counts. No state has a key without a colon between the braces. */
export const SECONDS_ROW = '{counts}second:';
const MINUTE_ROW = '{counts}minute:';
const STEP_ROW = '{counts}step:';
const DENIED_ROW = '{counts}denied:';

/** The longest wait for a write before the store is closed, ms. */
const MAX_IDLE_MS = 500;

const SECONDS = SECONDS_LIFE_MS / 1000;

/** The rows of an hour of denied keys, so that a write changes a small part of them. */
const DENIED_ROWS = 60;
const MAX_KEYS_PER_ROW = MAX_KEYS_PER_HOUR / DENIED_ROWS;

export const minuteRow = (minute: number): string => `${MINUTE_ROW}${minute / MINUTE_MS}`;

/** The row of ten minutes, with the decisions of all limiters. */
export const stepRow = (start: number): string => `${STEP_ROW}${start / STEP_MS}`;

export function deniedRow(owner: string, hour: number): string {
  let hash = 0;
  for (let i = 0; i < owner.length; i++) hash = (31 * hash + owner.charCodeAt(i)) >>> 0;
  return `${DENIED_ROW}${hour / HOUR_MS}:${hash % DENIED_ROWS}`;
}

export type MinuteRow = Record<string, Record<string, number>>;

/** The record of each key in an hour, and its number: see `kept-counts.ts`. */
export type DeniedRow = Record<string, readonly [record: string, number: number]>;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Parses a row. Empty if there is none. */
export function parseRow<Row extends object>(bytes: Uint8Array | undefined): Row {
  try {
    return (bytes?.length ? JSON.parse(decoder.decode(bytes)) : {}) as Row;
  } catch {
    return {} as Row;
  }
}

/** Writes the counts of a process to rows beside the state of a database, in transactions of their own. */
export class CountRows implements CountSink {
  readonly isPermitted = true;
  readonly now: () => number;
  readonly #update: UpdateRows;
  /** The number of the next row of a second. After a minute, the first row is written again. */
  #next = 0;
  /** The end of the present write. Undefined if none is under way. */
  #written: Promise<void> | undefined;

  constructor(update: UpdateRows, now: () => number) {
    this.#update = update;
    this.now = now;
  }

  get isReady(): boolean {
    return !this.#written;
  }

  /** Resolves after the present write, or a moment later if the database does not answer. */
  async idle(): Promise<void> {
    await within(MAX_IDLE_MS, this.#written ?? Promise.resolve(), () => {});
  }

  write(counted: Counted, minutes: MinuteFields, denials: DenialCounts, start = this.now()): void {
    const at = this.now();
    // A database that does not answer gets no queue of counts.
    if (this.#written) return;
    const writes = [
      this.#set(
        `${SECONDS_ROW}${counted.id}:${this.#next++ % SECONDS}`,
        () => ({ at, counted }),
        SECONDS_LIFE_MS,
      ),
      ...(minutes.size > 0 ? this.#addMinutes(minutes, start) : []),
      ...[...byRow(denials)].map(([key, own]) => this.#addDenials(key, own)),
    ];
    const done = Promise.all(writes).finally(() => (this.#written = undefined));
    this.#written = inBackground('Counts for operators were not written', done);
  }

  /** Replaces a row. @param change makes the value from the value before */
  async #set<Row extends object>(key: string, change: (before: Row) => object, life: number): Promise<void> {
    await this.#update(
      [key],
      ([bytes], now) => {
        const text = JSON.stringify(change(parseRow<Row>(bytes)));
        return [{ changed: true, bytes: encoder.encode(text), expiresAt: now + life }];
      },
      [],
    );
  }

  #addMinutes(added: MinuteFields, at: number): Promise<void>[] {
    const adding =
      (isKept: (field: string) => boolean) =>
      (row: MinuteRow): MinuteRow => {
        for (const [name, fields] of added) {
          const own = (row[name] ??= {});
          for (const [field, by] of fields) if (isKept(field)) own[field] = (own[field] ?? 0) + by;
        }
        return row;
      };
    const all = adding(() => true);
    return [
      this.#set(minuteRow(at - (at % MINUTE_MS)), all, HISTORY_LIFE_MS + MINUTE_MS),
      this.#set(stepRow(at - (at % STEP_MS)), adding(isOfDay), DAY_LIFE_MS + STEP_MS),
    ];
  }

  #addDenials(key: string, denials: DenialCounts): Promise<void> {
    const add = (row: DeniedRow): DeniedRow => {
      for (const denial of denials) addTo(row, denial);
      return row;
    };
    return this.#set(key, add, DENIALS_LIFE_MS + HOUR_MS);
  }
}

function byRow(denials: DenialCounts): Map<string, DenialCounts> {
  const rows = new Map<string, DenialCounts>();
  for (const denial of denials) {
    const key = deniedRow(denial.owner, hourOf(denial.minute));
    rows.set(key, [...(rows.get(key) ?? []), denial]);
  }
  return rows;
}

function addTo(row: DeniedRow, denial: DenialCount): void {
  const { owner } = denial;
  const hour = hourOf(denial.minute);
  let [text, number] = row[owner] ?? ['', 0];
  const all = Object.entries(row);
  if (number === 0 && all.length >= MAX_KEYS_PER_ROW) {
    const [least, inherited] = leastOf(all.map(([key, [, its]]) => [key, its]));
    delete row[least];
    number = inherited;
  }
  text = denialsText(addDenial(parseDenials(text, hour), denial), hour);
  row[owner] = [text, number + denial.count];
}
