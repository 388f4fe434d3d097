import { fingerprint, hasFingerprint, takeFingerprint, VACANT } from '../../fingerprint.js';
import { isBannedAlike } from '../../../features/bans/ban-waits.js';
import type { Reply } from '../../../contract/reply.js';
import {
  addVerdict,
  countOf,
  remainingOf,
  resetOf,
  soleVerdict,
  waitOf,
} from '../../../contract/verdicts.js';

/** A denial of the store, and its duration. Times are by the clock of `RememberedDenials`. */
export interface Denial {
  readonly policies: string;
  /** For a denial by keys of several dimensions: all keys. Undefined if the denial does not depend on further keys. */
  readonly keys?: string | undefined;
  /** A text if the cost differs by policy. */
  readonly cost: number | string;
  readonly reply: Reply;
  /** The time of the reply, which is not earlier than the beginning of the wait. */
  readonly received: number;
  readonly until: number;
}

/** The size of a record in integers and in floating-point numbers, which is one line of the processor's cache. */
const INTEGERS_PER_ROW = 16;
const FLOATS_PER_ROW = 8;

/** Positions among the integers, after the key's fingerprint (4): the next record of the bucket, and the content of a denial by one policy. */
const LINK = 4;
const COST = 5;
const WAIT = 6;
const REMAINING = 7;
const RESET = 8;

/** Positions among the floating-point numbers. */
const RECEIVED = 5;
const UNTIL = 6;
const NOW = 7;

/** The wait in a record if the denial did not fit and is stored in a map. */
const ELSEWHERE = -1;

const MIN_ROWS = 64;

/**
 * Remembers denials by key. A denial by one policy is a record, found by the key's fingerprint. A lookup reads a single line of memory; a
 * map of objects reads ten. Row 0 is not used.
 */
export class DeniedKeys {
  /** The policies of all denials in records. */
  readonly #policies: string;
  readonly #most: number;
  #integers = new Int32Array(INTEGERS_PER_ROW);
  #numbers = new Float64Array(this.#integers.buffer);
  /** The denials that do not fit into records. */
  readonly #elsewhere = new Map<number, Denial>();
  /** The first row of each bucket. The count of buckets is a power of two, and at least twice the count of rows. */
  #heads = new Int32Array(1);
  #rows = 0;
  /** The row of the last stored key. The next row is the oldest. */
  #hand = 0;
  size = 0;

  /** @param policies the policies of most denials @param most the most keys; beyond that the oldest are replaced */
  constructor(policies: string, most: number) {
    this.#policies = policies;
    this.#most = most;
  }

  find(key: string): number {
    // Skips the fingerprint, which takes most of the time.
    if (this.size === 0) return 0;
    takeFingerprint(key);
    return this.#find();
  }

  #find(): number {
    const integers = this.#integers;
    let row = this.#heads[fingerprint[0]! & (this.#heads.length - 1)]!;
    while (row !== 0 && !hasFingerprint(integers, row * INTEGERS_PER_ROW)) {
      row = integers[row * INTEGERS_PER_ROW + LINK]!;
    }
    return row;
  }

  keysOf(row: number): string | undefined {
    return this.#elsewhere.get(row)?.keys;
  }

  policiesOf(row: number): string {
    return this.#integers[row * INTEGERS_PER_ROW + WAIT] === ELSEWHERE
      ? this.#elsewhere.get(row)!.policies
      : this.#policies;
  }

  /**
   * The answer to a query of this cost now. Undefined if the denial was for a different cost, which may have another answer. Deletes a denial
   * that is over.
   */
  reply(row: number, cost: Denial['cost'], time: number): Reply | undefined {
    const integers = this.#integers;
    const numbers = this.#numbers;
    const at = row * INTEGERS_PER_ROW;
    const numbersAt = row * FLOATS_PER_ROW;
    if (time >= numbers[numbersAt + UNTIL]!) {
      this.delete(row);
      return undefined;
    }
    const passed = Math.floor(time - numbers[numbersAt + RECEIVED]!);
    const wait = integers[at + WAIT]!;
    if (wait === ELSEWHERE) {
      const denial = this.#elsewhere.get(row)!;
      return denial.cost === cost || isBannedAlike(denial.reply, denial.cost, cost)
        ? later(denial.reply, passed)
        : undefined;
    }
    if (integers[at + COST] !== cost) return undefined;
    return {
      now: numbers[numbersAt + NOW]! + passed,
      // A denial charges nothing, so its step is never used.
      step: 0,
      ban: 0,
      verdicts: soleVerdict(
        Math.max(0, wait - passed),
        integers[at + REMAINING]!,
        Math.max(0, integers[at + RESET]! - passed),
      ),
    };
  }

  set(key: string, denial: Denial): void {
    const { cost, reply, received, until } = denial;
    takeFingerprint(key);
    const row = this.#find() || this.#takeRow(received);
    const at = row * INTEGERS_PER_ROW;
    if (this.#fits(denial)) {
      this.#integers[at + COST] = cost as number;
      this.#integers[at + WAIT] = waitOf(reply.verdicts, 0);
      this.#integers[at + REMAINING] = remainingOf(reply.verdicts, 0);
      this.#integers[at + RESET] = resetOf(reply.verdicts, 0);
      this.#elsewhere.delete(row);
    } else {
      this.#integers[at + WAIT] = ELSEWHERE;
      this.#elsewhere.set(row, denial);
    }
    this.#numbers[row * FLOATS_PER_ROW + RECEIVED] = received;
    this.#numbers[row * FLOATS_PER_ROW + UNTIL] = until;
    this.#numbers[row * FLOATS_PER_ROW + NOW] = reply.now;
  }

  delete(row: number): void {
    const integers = this.#integers;
    const at = row * INTEGERS_PER_ROW;
    if (row === 0 || integers[at] === VACANT) return;
    const bucket = this.#bucketOf(row);
    let before = this.#heads[bucket]!;
    if (before === row) {
      this.#heads[bucket] = integers[at + LINK]!;
    } else {
      while (integers[before * INTEGERS_PER_ROW + LINK] !== row)
        before = integers[before * INTEGERS_PER_ROW + LINK]!;
      integers[before * INTEGERS_PER_ROW + LINK] = integers[at + LINK]!;
    }
    integers[at] = VACANT;
    this.#elsewhere.delete(row);
    this.size--;
  }

  #fits({ policies, keys, cost, reply: { ban, verdicts } }: Denial): boolean {
    if (
      keys !== undefined ||
      policies !== this.#policies ||
      ban !== 0 ||
      countOf(verdicts) !== 1 ||
      typeof cost === 'string' ||
      !isSmall(cost)
    )
      return false;
    return verdicts.every(isSmall);
  }

  /** Returns a row for a key without a row: the next row if free or over, a new row, or the oldest row. */
  #takeRow(time: number): number {
    const next = this.#hand === this.#rows ? 1 : this.#hand + 1;
    const isFree =
      next <= this.#rows &&
      (this.#integers[next * INTEGERS_PER_ROW] === VACANT ||
        this.#numbers[next * FLOATS_PER_ROW + UNTIL]! <= time);
    let row = next;
    if (!isFree && this.#rows < this.#most) {
      row = this.#rows + 1;
      this.#grow();
    }
    this.#hand = row;
    this.delete(row);
    this.#integers.set(fingerprint, row * INTEGERS_PER_ROW);
    this.#link(row);
    this.size++;
    return row;
  }

  #grow(): void {
    const rows = Math.min(this.#most, Math.max(MIN_ROWS, 2 * this.#rows));
    const { length } = this.#integers;
    const integers = new Int32Array((rows + 1) * INTEGERS_PER_ROW).fill(VACANT, length);
    integers.set(this.#integers);
    this.#integers = integers;
    this.#numbers = new Float64Array(integers.buffer);
    this.#heads = new Int32Array(2 ** Math.ceil(Math.log2(2 * rows)));
    for (let row = 1; row <= this.#rows; row++) {
      if (integers[row * INTEGERS_PER_ROW] !== VACANT) this.#link(row);
    }
    this.#rows = rows;
  }

  #bucketOf(row: number): number {
    return this.#integers[row * INTEGERS_PER_ROW]! & (this.#heads.length - 1);
  }

  #link(row: number): void {
    const bucket = this.#bucketOf(row);
    this.#integers[row * INTEGERS_PER_ROW + LINK] = this.#heads[bucket]!;
    this.#heads[bucket] = row;
  }
}

/** Whether a value is a whole number of at most 31 bits. */
function isSmall(value: number): boolean {
  return value >= 0 && (value | 0) === value;
}

/** The reply of a denial `passed` ms later. */
function later({ now, ban, verdicts }: Reply, passed: number): Reply {
  const copy: number[] = [];
  for (let i = 0; i < countOf(verdicts); i++) {
    const wait = waitOf(verdicts, i);
    const left = wait > 0 ? Math.max(0, wait - passed) : wait;
    addVerdict(copy, left, remainingOf(verdicts, i), Math.max(0, resetOf(verdicts, i) - passed));
  }
  return { now: now + passed, step: 0, ban: ban === 0 ? 0 : ban - passed, verdicts: copy };
}
