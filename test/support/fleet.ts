// Processes that wait for one quota, at different distances from the store, in a test's time.
import { memoryStore, type CreateLimiterOptions, type Decision, type Key, type Limiter } from 'headgate';
import { subjectOf } from '../../src/contract/dimensions.js';
import { idsOf } from '../../src/contract/dimension-sets.js';
import type { LimiterDecision } from '../../src/limiter/decision.js';
import { HoldQueue, holdRequestOf } from '../../src/limiter/waiting/hold-queue.js';
import { WaitingRoom } from '../../src/limiter/waiting/waiting-room.js';
import { limiterOn } from './clock.js';
import { waitRequest } from './requests.js';
import { TestTiming } from './timing.js';

/** An admitted request: its process, and its times of arrival and admission, ms. */
export interface Grant {
  readonly process: number;
  readonly key: Key;
  readonly came: number;
  readonly went: number;
}

/** Numbers from 0 to 1 that look random and are the same each time. */
export function sequence(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}

export class Fleet {
  readonly grants: Grant[] = [];
  /** The processes that were killed. */
  readonly dead = new Set<number>();
  /** The number of script calls. The calls of one process at one moment count once. */
  calls = 0;
  readonly #timing = new TestTiming();
  readonly #limiter: Limiter;
  readonly #rooms: WaitingRoom[];
  readonly #distances: readonly number[];
  /** The mean time for which each process holds a slot, ms. */
  readonly #holdMs: number[] = [];

  /** @param distances the time that a message takes from each process to the store, ms */
  constructor(policy: CreateLimiterOptions, distances: readonly number[]) {
    this.#limiter = limiterOn(memoryStore({ clock: this.#timing.clock }), policy);
    this.#distances = distances;
    this.#rooms = distances.map((distance, process) => this.#roomOf(process, distance));
  }

  #roomOf(process: number, distance: number): WaitingRoom {
    // Node's timers fire a little late.
    const timing = {
      now: () => this.#timing.now(),
      after: (ms: number, run: () => void) => this.#timing.after(Math.ceil(ms) + Math.random(), run),
    };
    const held = new HoldQueue(1000, 1000, timing);
    let askedAt = -1;
    const hold = () => this.#holdMs[process];
    return new WaitingRoom(1000, 1000, timing, {
      hasPeers: true,
      process: () => process + 1,
      get holdMs() {
        return hold();
      },
      decide: async ({ key, cost, set, peek }) => {
        if (this.dead.has(process)) return new Promise(() => {});
        if (askedAt !== timing.now()) this.calls++;
        askedAt = timing.now();
        await this.#passed(distance + 0.1 + 0.2 * Math.random());
        const decision = peek ? this.#limiter.peek(key, { cost }) : this.#limiter.decide(key, cost, set);
        const answer = (await decision) as LimiterDecision;
        await this.#passed(distance + 0.1);
        return answer;
      },
      hold: async (decision, signal) => {
        const outcome = await held.hold(holdRequestOf(decision), signal, { isLast: true });
        if (outcome !== 'turn') throw new Error(outcome);
        return this.dead.has(process) ? new Promise(() => {}) : decision;
      },
    });
  }

  #passed(ms: number): Promise<void> {
    return new Promise((resolve) => this.#timing.after(ms, resolve));
  }

  async #wait(process: number, key: Key = 'k'): Promise<Decision> {
    const came = this.#timing.now();
    const { set } = this.#limiter;
    const ids = idsOf(subjectOf(set, key, []));
    const decision = await this.#rooms[process]!.wait(waitRequest(key, set), ids);
    this.grants.push({ process, key, came, went: this.#timing.now() });
    return decision;
  }

  /** Keeps workers of each process at work: each waits for a slot, works for some time (ms), and releases the slot. */
  async keepWorking(workers: readonly number[], work: () => number, ms: number): Promise<void> {
    await this.keepCrewsWorking(
      workers.map((count, process) => ({ process, key: 'k', count })),
      work,
      ms,
    );
  }

  /** The same for workers with keys of their own. */
  async keepCrewsWorking(
    crews: readonly { process: number; key: Key; count: number }[],
    work: () => number,
    ms: number,
  ): Promise<void> {
    for (const { process, key, count } of crews) {
      const ids = idsOf(subjectOf(this.#limiter.set, key, []));
      for (let i = 0; i < count; i++) {
        void this.#passed(100 * Math.random()).then(async () => {
          while (!this.dead.has(process)) {
            const slot = await this.#wait(process, key);
            const taken = this.#timing.now();
            await this.#passed(work());
            const held = this.#timing.now() - taken;
            this.#holdMs[process] = ((this.#holdMs[process] ?? held) * 3 + held) / 4;
            if (this.dead.has(process)) return;
            await this.#passed(this.#distances[process]! + 0.1);
            await slot.release();
            await this.#passed(this.#distances[process]! + 0.1);
            this.#rooms[process]!.wake(ids);
          }
        });
      }
    }
    await this.#timing.advance(ms);
  }

  /** Advances the time by `ms`. */
  async pass(ms: number): Promise<void> {
    await this.#timing.advance(ms);
  }

  /** The number of requests admitted from one time to another, ms. */
  went(from: number, to: number): number {
    return this.grants.filter(({ went }) => went >= from && went < to).length;
  }

  /** Keeps `count` requests of each process waiting: when one is admitted, another arrives. */
  async keepWaiting(count: number, ms: number): Promise<void> {
    for (const process of this.#rooms.keys()) {
      for (let i = 0; i < count; i++) {
        void this.#passed(100 * Math.random()).then(async () => {
          for (;;) await this.#wait(process);
        });
      }
    }
    await this.#timing.advance(ms);
  }

  /** The part of the admitted requests since `from` that belongs to the process, as a multiple of its share. */
  shareOf(process: number, from: number): number {
    const all = this.grants.filter(({ went }) => went >= from);
    const ofProcess = all.filter((grant) => grant.process === process);
    return (ofProcess.length * this.#rooms.length) / all.length;
  }

  /** The longest time by which a request arrived later than another and was admitted before it, ms. */
  overtaking(): number {
    let longest = 0;
    for (const one of this.grants)
      for (const other of this.grants)
        if (other.went < one.went) longest = Math.max(longest, other.came - one.came);
    return longest;
  }
}
