import { fingerprint, hasFingerprint, takeFingerprint, VACANT } from '../fingerprint.js';
import type { Reply } from '../../contract/store.js';
import { addVerdict, countOf, remainingOf, resetOf, soleVerdict, waitOf } from '../../contract/verdicts.js';

/** What the store has denied, and for how long. Times are those of the memory's clock. */
export interface Denial {
  readonly policies: string;
  /** Of a denial by keys of several dimensions: all of them. Undefined: it denies whatever the other keys are. */
  readonly keys?: string | undefined;
  readonly cost: number;
  readonly reply: Reply;
  /** When the reply came: the wait that it tells began no later. */
  readonly received: number;
  readonly until: number;
}

/** A record is a line of the processor's cache: ten integers, then three floating-point numbers. */
const INTEGERS = 16;
const NUMBERS = 8;

/** Of its integers, after the key's fingerprint (4): the next record of its bucket, and what a denial by one policy says. */
const LINK = 4;
const COST = 5;
const WAIT = 6;
const REMAINING = 7;
const RESET = 8;

/** Of its numbers. */
const RECEIVED = 5;
const UNTIL = 6;
const NOW = 7;

/** Stands for the wait of a denial that does not fit into a record. */
const ELSEWHERE = -1;

const LEAST = 64;

/**
 * Remembers what was denied by key. A denial by one policy is a record, found by the key's fingerprint: it costs the wait for one line
 * of memory, where a map of objects costs ten. Slot 0 is none.
 */
export class DeniedKeys {
  /** Of what is in records. */
  readonly #policies: string;
  readonly #most: number;
  #integers = new Int32Array(INTEGERS);
  #numbers = new Float64Array(this.#integers.buffer);
  /** What does not fit into records. */
  readonly #elsewhere = new Map<number, Denial>();
  /** The first slot of each bucket: twice as many as slots, a power of two. */
  #heads = new Int32Array(1);
  #slots = 0;
  /** The slot that was given to a key last: the one after it is the oldest. */
  #hand = 0;
  #size = 0;

  /** @param policies of most denials @param most keys; then the oldest give way */
  constructor(policies: string, most: number) {
    this.#policies = policies;
    this.#most = most;
  }

  get size(): number {
    return this.#size;
  }

  /** A key's slot, or 0. */
  find(key: string): number {
    // Taking a fingerprint is most of it.
    if (this.#size === 0) return 0;
    takeFingerprint(key);
    return this.#find();
  }

  #find(): number {
    const integers = this.#integers;
    let slot = this.#heads[fingerprint[0]! & (this.#heads.length - 1)]!;
    while (slot !== 0 && !hasFingerprint(integers, slot * INTEGERS)) {
      slot = integers[slot * INTEGERS + LINK]!;
    }
    return slot;
  }

  keysOf(slot: number): string | undefined {
    return this.#elsewhere.get(slot)?.keys;
  }

  policiesOf(slot: number): string {
    return this.#integers[slot * INTEGERS + WAIT] === ELSEWHERE
      ? this.#elsewhere.get(slot)!.policies
      : this.#policies;
  }

  /**
   * What a denial of this cost says at this moment. Undefined if it was another cost that was denied; or if it is over, and then
   * it is forgotten.
   */
  reply(slot: number, cost: number, time: number): Reply | undefined {
    const integers = this.#integers;
    const numbers = this.#numbers;
    const at = slot * INTEGERS;
    const numbersAt = slot * NUMBERS;
    if (time >= numbers[numbersAt + UNTIL]!) {
      this.delete(slot);
      return undefined;
    }
    const passed = Math.floor(time - numbers[numbersAt + RECEIVED]!);
    const wait = integers[at + WAIT]!;
    if (wait === ELSEWHERE) {
      const denial = this.#elsewhere.get(slot)!;
      // A ban denies any cost.
      return denial.cost === cost || denial.reply.ban !== 0 ? later(denial.reply, passed) : undefined;
    }
    if (integers[at + COST] !== cost) return undefined;
    return {
      now: numbers[numbersAt + NOW]! + passed,
      // What is denied is not charged: nobody asks when it was.
      step: 0,
      ban: 0,
      verdicts: soleVerdict(
        rest(wait, passed),
        integers[at + REMAINING]!,
        rest(integers[at + RESET]!, passed),
      ),
    };
  }

  set(key: string, denial: Denial): void {
    const { cost, reply, received, until } = denial;
    takeFingerprint(key);
    const slot = this.#find() || this.#claim(received);
    const at = slot * INTEGERS;
    if (this.#fits(denial)) {
      this.#integers[at + COST] = cost;
      this.#integers[at + WAIT] = waitOf(reply.verdicts, 0);
      this.#integers[at + REMAINING] = remainingOf(reply.verdicts, 0);
      this.#integers[at + RESET] = resetOf(reply.verdicts, 0);
      this.#elsewhere.delete(slot);
    } else {
      this.#integers[at + WAIT] = ELSEWHERE;
      this.#elsewhere.set(slot, denial);
    }
    this.#numbers[slot * NUMBERS + RECEIVED] = received;
    this.#numbers[slot * NUMBERS + UNTIL] = until;
    this.#numbers[slot * NUMBERS + NOW] = reply.now;
  }

  delete(slot: number): void {
    const integers = this.#integers;
    const at = slot * INTEGERS;
    if (slot === 0 || integers[at] === VACANT) return;
    const bucket = this.#bucketOf(slot);
    let before = this.#heads[bucket]!;
    if (before === slot) {
      this.#heads[bucket] = integers[at + LINK]!;
    } else {
      while (integers[before * INTEGERS + LINK] !== slot) before = integers[before * INTEGERS + LINK]!;
      integers[before * INTEGERS + LINK] = integers[at + LINK]!;
    }
    integers[at] = VACANT;
    this.#elsewhere.delete(slot);
    this.#size--;
  }

  #fits({ policies, keys, cost, reply: { ban, verdicts } }: Denial): boolean {
    if (
      keys !== undefined ||
      policies !== this.#policies ||
      ban !== 0 ||
      countOf(verdicts) !== 1 ||
      !isSmall(cost)
    )
      return false;
    return verdicts.every(isSmall);
  }

  /** A slot for the key that was not found just now: the next one that is free or over, a new one, or the oldest. */
  #claim(time: number): number {
    const next = this.#hand === this.#slots ? 1 : this.#hand + 1;
    const isFree =
      next <= this.#slots &&
      (this.#integers[next * INTEGERS] === VACANT || this.#numbers[next * NUMBERS + UNTIL]! <= time);
    let slot = next;
    if (!isFree && this.#slots < this.#most) {
      slot = this.#slots + 1;
      this.#grow();
    }
    this.#hand = slot;
    this.delete(slot);
    this.#integers.set(fingerprint, slot * INTEGERS);
    this.#link(slot);
    this.#size++;
    return slot;
  }

  #grow(): void {
    const slots = Math.min(this.#most, Math.max(LEAST, 2 * this.#slots));
    const { length } = this.#integers;
    const integers = new Int32Array((slots + 1) * INTEGERS).fill(VACANT, length);
    integers.set(this.#integers);
    this.#integers = integers;
    this.#numbers = new Float64Array(integers.buffer);
    this.#heads = new Int32Array(2 ** Math.ceil(Math.log2(2 * slots)));
    for (let slot = 1; slot <= this.#slots; slot++) {
      if (integers[slot * INTEGERS] !== VACANT) this.#link(slot);
    }
    this.#slots = slots;
  }

  #bucketOf(slot: number): number {
    return this.#integers[slot * INTEGERS]! & (this.#heads.length - 1);
  }

  #link(slot: number): void {
    const bucket = this.#bucketOf(slot);
    this.#integers[slot * INTEGERS + LINK] = this.#heads[bucket]!;
    this.#heads[bucket] = slot;
  }
}

/** Whether it is a whole number of 31 bits. */
function isSmall(value: number): boolean {
  return value >= 0 && (value | 0) === value;
}

/** What is left of a time that many ms later; none if it was none. */
function rest(ms: number, passed: number): number {
  return ms > passed ? ms - passed : 0;
}

/** What a denial says `passed` ms later. */
function later({ now, ban, verdicts }: Reply, passed: number): Reply {
  const copy: number[] = [];
  for (let i = 0; i < countOf(verdicts); i++) {
    const wait = waitOf(verdicts, i);
    const left = wait > 0 ? rest(wait, passed) : wait;
    addVerdict(copy, left, remainingOf(verdicts, i), rest(resetOf(verdicts, i), passed));
  }
  return { now: now + passed, step: 0, ban: ban === 0 ? 0 : ban - passed, verdicts: copy };
}
