import type fc from 'fast-check';
import {
  createLimiter,
  type Algorithm,
  type Clock,
  type CreateLimiterOptions,
  type Decision,
  type Limiter,
  type Store,
} from 'headgate';
import type { MaybePromise } from 'headgate/stores';
import { TestClock } from 'headgate/testing';
import { ALGORITHMS, countsSlots, plainPolicy } from './algorithms.js';
import { makeCheck, makeRandomCheck, type Check, type Randomness } from './check.js';
import { expectFields } from './expect.js';

/** An entry in a store. */
export interface StoreEntry {
  /** Identifies the entry in error messages. */
  readonly name: string;
  /** The time at which the store removes it by itself, ms since the epoch by the store's clock. Undefined if never. */
  readonly expiresAt: number | undefined;
}

/** A store to test. */
export interface StoreUnderTest extends Randomness {
  /**
   * Makes a store without state. The store must decide by `clock`, which starts ten days ahead of real time and moves only when a check
   * advances it. Each check makes and closes stores, so anything expensive (a client, a table) should be made once and shared.
   */
  createStore(clock: Clock): MaybePromise<Store>;
  /** Makes another store on the state of `store`, like another process. If given, the race, bans and overrides run between both. */
  createSibling?(store: Store, clock: Clock): MaybePromise<Store>;
  /** All entries in a store now. If given, law 5 (life) checks the time to live of every entry. */
  entries?(store: Store): MaybePromise<readonly StoreEntry[]>;
  /** Whether simultaneous requests are decided in order. If so, identity compares simultaneous requests, too. @default false */
  readonly ordered?: boolean;
  /**
   * Whether policies may count by keys of several dimensions. For a store of several servers, the options for limiters, where `slotBy` is
   * `'org'`. @default true
   */
  readonly dimensions?: boolean | { readonly slotBy: 'org' } | { readonly acrossSlots: true };
  /** Whether the store keeps overrides (`Store.overrides`). If not, limiters with the option must be refused. @default true */
  readonly overrides?: boolean;
  /** The algorithms to check. @default all */
  readonly algorithms?: readonly Algorithm[];
}

export interface World {
  readonly clock: TestClock;
  readonly store: Store;
  readonly limiter: Limiter;
}

/** Makes the limiters and stores of a check, and closes them afterwards. */
export class Lab {
  readonly subject: StoreUnderTest;
  readonly #stores = new Set<Store>();

  constructor(subject: StoreUnderTest) {
    this.subject = subject;
  }

  async createStore(clock: TestClock): Promise<Store> {
    const store = await this.subject.createStore(clock.read);
    this.#stores.add(store);
    return store;
  }

  /** Makes another store on the same state, or returns the same store if the subject cannot. */
  async createSibling(store: Store, clock: TestClock): Promise<Store> {
    const sibling = (await this.subject.createSibling?.(store, clock.read)) ?? store;
    this.#stores.add(sibling);
    return sibling;
  }

  async open(options: CreateLimiterOptions, clock = new TestClock()): Promise<World> {
    const store = await this.createStore(clock);
    return { clock, store, limiter: limiterOn(store, options) };
  }

  async close(): Promise<void> {
    for (const store of this.#stores) await store.close?.();
  }
}

/** A limiter that throws its store's errors in the test, and has no timeout for slow machines to exceed. */
export function limiterOn(store: Store, options: CreateLimiterOptions): Limiter {
  return createLimiter({ onStoreError: 'throw', timeout: '1m', ...options, store });
}

/** Expects a denial to last exactly until its retryAfter, and moves the clock there. */
export async function expectExactWait(
  clock: TestClock,
  { retryAfterMs }: Decision,
  ask: () => Promise<Decision>,
): Promise<void> {
  clock.now += retryAfterMs! - 1;
  expectFields('1 ms before', await ask(), { allowed: false, retryAfterMs: 1 });
  clock.now += 1;
  expectFields('at retryAfter', await ask(), { allowed: true });
}

/** @throws RangeError for an unknown name, because its checks would be missing */
export function checkNames(option: string, names: readonly string[], known: readonly string[]): void {
  const unknown = names.find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const list = known.map((name) => `'${name}'`).join(', ');
  throw new RangeError(`${option}: '${unknown}' is unknown. Pass some of: ${list}.`);
}

export class Suite {
  readonly checks: Check[] = [];
  readonly algorithms: readonly Algorithm[];
  readonly subject: StoreUnderTest;
  readonly #name: string;

  constructor(name: string, subject: StoreUnderTest) {
    this.#name = name;
    this.subject = subject;
    this.algorithms = subject.algorithms ?? ALGORITHMS;
    checkNames('algorithms', this.algorithms, ALGORITHMS);
  }

  /** The algorithms whose units are not held. */
  get quotas(): readonly Algorithm[] {
    return this.algorithms.filter((each) => !countsSlots(plainPolicy(each)));
  }

  add(name: string, body: (lab: Lab) => Promise<void>): void {
    this.checks.push(makeCheck(this.#name, name, () => inLab(this.subject, body)));
  }

  /** Adds a check of random cases: `holds` plays a case. */
  addRandom<T>(name: string, cases: fc.Arbitrary<T>, holds: (each: T, lab: Lab) => Promise<void>): void {
    const play = (each: T) => inLab(this.subject, (lab) => holds(each, lab));
    this.checks.push(makeRandomCheck(this.subject, [this.#name, name], cases, play));
  }
}

async function inLab(subject: StoreUnderTest, body: (lab: Lab) => Promise<void>): Promise<void> {
  const lab = new Lab(subject);
  try {
    await body(lab);
  } finally {
    await lab.close();
  }
}
