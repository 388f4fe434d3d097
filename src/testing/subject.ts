import { createLimiter } from '../limiter/create-limiter.js';
import type { CreateLimiterOptions } from '../limiter/options.js';
import type { Limiter } from '../limiter/limiter.js';
import type { Algorithm } from '../contract/policy.js';
import type { Clock, MaybePromise, Store } from '../contract/store.js';
import { ALGORITHMS } from './algorithms.js';
import { makeCheck, makeRandomCheck, type Check, type Randomness } from './check.js';
import { TestClock } from './clock.js';
import type { Random } from './random.js';

/** Something that a store keeps. */
export interface StoreEntry {
  /** Names it in a failure's message. */
  readonly name: string;
  /** When the store removes it by itself, ms since the epoch on the store's clock; undefined: never. */
  readonly expiresAt: number | undefined;
}

/** A store to be tested. */
export interface StoreUnderTest extends Randomness {
  /**
   * Makes a store without state. It decides by `clock`, in which time passes only when a check says so; it starts ten days ahead of
   * real time. Each check makes stores of its own and closes them, so what is expensive (a client, a table) is made once and shared.
   */
  createStore(clock: Clock): MaybePromise<Store>;
  /** Another store on the state of `store`, as another process would make it. With it, the race is run between both. */
  createSibling?(store: Store, clock: Clock): MaybePromise<Store>;
  /** All that a store keeps now. With it, law 5 (life) looks at the time to live of every entry. */
  entries?(store: Store): MaybePromise<readonly StoreEntry[]>;
  /** Requests that are made at once are decided in their order. Default `false`. With it, identity compares those as well. */
  readonly ordered?: boolean;
  /**
   * Policies may be by keys of several dimensions. Default `true`. For a store of several servers: the options with which limiters are made
   * then, of which `slotBy` is `'org'`.
   */
  readonly dimensions?: boolean | { readonly slotBy: 'org' } | { readonly acrossSlots: true };
  /** The algorithms to check. Default: all. */
  readonly algorithms?: readonly Algorithm[];
}

/** A store, the limiter on it and its time. */
export interface World {
  readonly clock: TestClock;
  readonly store: Store;
  readonly limiter: Limiter;
}

/** Makes what a check needs, and closes it. */
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

  /** Another store on the same state; the same store if the subject has none. */
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

/** A limiter whose store's failures are the test's, however slow the machine is. */
export function limiterOn(store: Store, options: CreateLimiterOptions): Limiter {
  return createLimiter({ onStoreError: 'throw', timeout: '1m', ...options, store });
}

/** Collects the checks of one suite for a store. */
export class Suite {
  readonly checks: Check[] = [];
  readonly algorithms: readonly Algorithm[];
  readonly subject: StoreUnderTest;
  readonly #name: string;

  constructor(name: string, subject: StoreUnderTest) {
    this.#name = name;
    this.subject = subject;
    this.algorithms = subject.algorithms ?? ALGORITHMS;
  }

  /** One case. */
  add(name: string, body: (lab: Lab) => Promise<void>): void {
    this.checks.push(makeCheck(this.#name, name, () => inLab(this.subject, body)));
  }

  /** Random cases: `make` draws one, `holds` plays it. */
  addRandom<T extends { readonly steps: readonly unknown[] }>(
    name: string,
    make: (random: Random) => T,
    holds: (each: T, lab: Lab) => Promise<void>,
  ): void {
    const play = (each: T) => inLab(this.subject, (lab) => holds(each, lab));
    this.checks.push(makeRandomCheck(this.subject, this.#name, name, make, play));
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
