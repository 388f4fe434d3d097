// Slices in a simulated world with its own time: processes near and far, which crash and are cut off. Keys and slices are those of the package,
// and the server is a memory store, which decides like Redis. Each seed gives the same world.
import { createLimiter, memoryStore, type Policy } from '../../../src/index.js';
import { performance } from '../../../src/common/real-time.js';
import type { Reply } from '../../../src/contract/reply.js';
import { newCall, type ChargeChange, type Query } from '../../../src/contract/store.js';
import { admits, waitOf } from '../../../src/contract/verdicts.js';
import { HotKey, SWEEPS_PER_HOLD } from '../../../src/stores/redis/local/hot-key.js';
import { Random } from './random.js';

export interface World {
  readonly seed: number;
  readonly policy: Policy & { readonly limit: number };
  /** The window of the policy, ms. */
  readonly window: number;
  /** Hold time, ms. 0: no slices, each decision is a call. -1: no calls, each process has its share of the limit. */
  readonly hold: number;
  /** The time that a message takes from each process to the server, ms. */
  readonly distances: readonly number[];
  /** The process of the next request. */
  process(random: Random): number;
  /** The key of the next request. */
  key(random: Random): number;
  /** Requests a ms. */
  readonly rate: number;
  /** ms */
  readonly duration: number;
  /** Whether processes crash, and are cut off from the server for a while. */
  readonly faults: boolean;
}

export interface Outcome {
  readonly requests: number;
  readonly calls: number;
  readonly admissions: readonly { readonly at: number; readonly key: number }[];
  readonly denied: number;
  /** Requests that the server denied while other processes held units of the key. */
  readonly falselyDenied: number;
  /** Units that were held, spent and given back so far, sampled. */
  readonly history: readonly { at: number; held: number; spent: number; back: number }[];
}

/** The time that a caller waits for an answer that does not come, ms. */
const MAX_WAIT_MS = 1000;

const ONE = { cost: 1, peek: false, lease: '' };

/** The start of the world, by the server's clock. */
const START_MS = 1e12;

interface Process {
  ask(key: number): void;
  /** The units that the process holds of a key, or of all keys. */
  held(key?: number): number;
  end(): void;
}

export async function live(world: World): Promise<Outcome> {
  const { policy, hold, distances, rate, duration, faults } = world;
  const random = new Random(world.seed);
  let time = 0;
  /** The events in each 10 us. Requests in one slot share a turn. */
  const events = new Array<(() => void)[] | undefined>(100 * (duration + 3 * MAX_WAIT_MS) + 1).fill(
    undefined,
  );
  const at = (when: number, run: () => void): void => {
    const step = Math.ceil(when * 100);
    if (step < events.length) (events[step] ??= []).push(run);
  };
  const { now } = performance;
  performance.now = () => time;
  try {
    const clock = (): number => START_MS + Math.floor(time);
    const server = memoryStore({ clock });
    const { set } = createLimiter({ policies: [policy] });
    const limit = Math.max(1, Math.floor(policy.limit / distances.length));
    const { set: share } = createLimiter({ policies: [{ ...policy, limit }] });
    const admissions: Outcome['admissions'][number][] = [];
    let [requests, calls, denied, falselyDenied, spent, back] = [0, 0, 0, 0, 0, 0];
    const history: Outcome['history'][number][] = [];

    const start = (distance: number): Process => {
      let isAlive = true;
      const keys = new Map<number, HotKey>();
      const alone = memoryStore({ clock });
      // Each process is cut off now and then, for up to 2 s.
      const cuts = faults
        ? [0, 0]
            .map(() => random.fraction() * duration * 4)
            .map((from) => ({ from, to: from + random.fraction() * 2_000 }))
        : [];
      const reaches = (): boolean => isAlive && !cuts.some(({ from, to }) => time >= from && time < to);
      const far = <T>(run: () => T): Promise<T> => {
        calls++;
        return new Promise((resolve, reject) => {
          if (!isAlive) return;
          const fails = (): void => reject(new Error('no answer'));
          at(time + MAX_WAIT_MS, fails);
          if (!reaches()) return;
          at(time + distance, () => {
            const answer = run();
            if (reaches()) at(time + distance, () => isAlive && resolve(answer));
          });
        });
      };
      const store = {
        decide: (query: Query): Promise<Reply> => far(() => server.decide(query) as Reply),
        giveBack: async (rests: readonly ChargeChange[]): Promise<void> => {
          for (const { units } of rests) back -= units[0]!;
          await far(() => rests.forEach((rest) => void server.adjust(rest)));
        },
      };
      let rests: ChargeChange[] = [];
      const giveBack = (rest: ChargeChange): void => void rests.push(rest);
      const connection = { isLost: false };
      const others = { holds: () => {}, giveBack, connectionOf: () => connection };
      const keeping = { ...others, store: store as never, size: 10_000, hold };
      const sweep = (): void => {
        if (!isAlive || time > duration) return;
        for (const hot of keys.values()) hot.sweep(time);
        for (let i = 0; i < rests.length; i += 32) store.giveBack(rests.slice(i, i + 32)).catch(() => {});
        rests = [];
        at(time + hold / SWEEPS_PER_HOLD, sweep);
      };
      if (hold > 0) at(time + hold / SWEEPS_PER_HOLD, sweep);
      return {
        ask(key) {
          if (!isAlive) return;
          requests++;
          if (hold < 0) {
            const { verdicts } = alone.decide({ set: share, key: String(key), ...ONE }) as Reply;
            if (admits(waitOf(verdicts, 0))) admissions.push({ at: time, key });
            else denied++;
            return;
          }
          const subject = { set, key: String(key) };
          const query: Query = { ...subject, ...ONE, call: newCall() };
          let hot = keys.get(key);
          if (!hot) keys.set(key, (hot = new HotKey(keeping)));
          hot.ask(set, 1, time);
          const slice = hold > 0 ? hot.take(set, 1, time) : undefined;
          if (slice) {
            slice.spend(set, 1, time);
            spent++;
            admissions.push({ at: time, key });
            if (hot.isLow(time)) hot.refill(subject, 1, time);
            return;
          }
          const answer = hold > 0 ? hot.decide(query, subject, time) : store.decide(query);
          Promise.resolve(answer).then(
            ({ now, verdicts }) => {
              if (admits(waitOf(verdicts, 0))) {
                spent++;
                admissions.push({ at: now - START_MS, key });
              } else {
                denied++;
                if (processes.some((process) => process.held(key) > 0)) falselyDenied++;
              }
            },
            () => {},
          );
        },
        held(key) {
          const chosen = key === undefined ? [...keys.values()] : [keys.get(key)];
          return isAlive ? chosen.reduce((sum, hot) => sum + (hot?.held(time) ?? 0), 0) : 0;
        },
        end: () => (isAlive = false),
      };
    };

    const processes = distances.map(start);
    // Steps are rounded up. Without a running sum, the roundings would add up.
    let arrival = 0;
    const arrive = (): void => {
      if (time > duration) return;
      processes[world.process(random)]!.ask(world.key(random));
      arrival -= Math.log(1 - random.fraction()) / rate;
      at(arrival, arrive);
    };
    at(0, arrive);
    if (faults) {
      for (let i = 0; i < processes.length / 10; i++) {
        const victim = random.integer(0, processes.length - 1);
        at(random.fraction() * duration, () => {
          processes[victim]!.end();
          processes[victim] = start(distances[victim]!);
        });
      }
    }
    const look = (): void => {
      if (time > duration) return;
      const held = processes.reduce((sum, process) => sum + process.held(), 0);
      history.push({ at: time, held, spent, back });
      at(time + duration / 200, look);
    };
    at(0, look);
    for (let step = 0; step < events.length; step++) {
      for (let runs = events[step]; runs; runs = events[step]) {
        events[step] = undefined;
        time = step / 100;
        for (const run of runs) run();
        // Promises settle before the time goes on.
        for (let i = 0; i < 12; i++) await Promise.resolve();
      }
    }
    return { requests, calls, admissions, denied, falselyDenied, history };
  } finally {
    performance.now = now;
  }
}
