// Slices in a world of its own time: processes near and far, that crash and are cut off. Keys and slices are those of the package, and the
// server is a memory store, which decides as Redis does. Each seed gives the same world.
import { createLimiter, memoryStore, type Policy } from '../../../src/index.js';
import { performance } from '../../../src/common/real-time.js';
import { newCall, type Change, type Query, type Reply } from '../../../src/contract/store.js';
import { admits, waitOf } from '../../../src/contract/verdicts.js';
import { HotKey, SWEEPS } from '../../../src/stores/redis/local/hot-key.js';
import { Random } from '../../../src/testing/random.js';

export interface World {
  readonly seed: number;
  readonly policy: Policy & { readonly limit: number };
  /** The window of the policy, ms. */
  readonly window: number;
  /** ms; 0: no slices, each decision is a call; -1: no calls, each process has its share of the limit. */
  readonly hold: number;
  /** For each process, how long a message to the server is on its way, ms. */
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

/** How long a caller waits for an answer that does not come, ms. */
const PATIENCE = 1000;

const ONE = { cost: 1, peek: false, lease: '' };

/** The world begins here, by the server's clock. */
const EPOCH = 1e12;

interface Process {
  ask(key: number): void;
  /** The units that it holds of a key; -1: of all. */
  held(key: number): number;
  end(): void;
}

class Agenda {
  readonly #events = new Map<number, (() => void)[]>();
  readonly #times: number[] = [];

  /** In steps of 10 us, so that events of one time share a turn. */
  at(time: number, run: () => void): void {
    const step = Math.ceil(time * 100);
    const there = this.#events.get(step);
    if (there) return void there.push(run);
    this.#events.set(step, [run]);
    let i = this.#times.push(step) - 1;
    for (; i > 0 && this.#times[(i - 1) >> 1]! > step; i = (i - 1) >> 1)
      this.#times[i] = this.#times[(i - 1) >> 1]!;
    this.#times[i] = step;
  }

  next(): { time: number; runs: (() => void)[] } | undefined {
    const [first] = this.#times;
    if (first === undefined) return undefined;
    const last = this.#times.pop()!;
    const { length } = this.#times;
    let i = 0;
    while (length > 0) {
      let child = 2 * i + 1;
      if (child >= length) break;
      if (child + 1 < length && this.#times[child + 1]! < this.#times[child]!) child++;
      if (this.#times[child]! >= last) break;
      this.#times[i] = this.#times[child]!;
      i = child;
    }
    if (length > 0) this.#times[i] = last;
    const runs = this.#events.get(first)!;
    this.#events.delete(first);
    return { time: first / 100, runs };
  }
}

export async function live(world: World): Promise<Outcome> {
  const { policy, hold, distances, rate, duration, faults } = world;
  const random = new Random(world.seed);
  const agenda = new Agenda();
  let time = 0;
  const { now } = performance;
  performance.now = () => time;
  try {
    const clock = (): number => EPOCH + Math.floor(time);
    const server = memoryStore({ clock });
    const { set } = createLimiter({ policies: [policy] });
    const limit = Math.max(1, Math.floor(policy.limit / distances.length));
    const { set: share } = createLimiter({ policies: [{ ...policy, limit }] });
    const admissions: { at: number; key: number }[] = [];
    let [requests, calls, denied, falselyDenied, spent, back] = [0, 0, 0, 0, 0, 0];
    const history: { at: number; held: number; spent: number; back: number }[] = [];

    const start = (distance: number): Process => {
      let isAlive = true;
      const keys = new Map<number, HotKey>();
      const alone = memoryStore({ clock });
      // Cut off now and then, for up to 2 s.
      const cuts = faults
        ? Array.from({ length: 2 }, () => random.fraction() * duration * 4).map((from) => [
            from,
            from + random.fraction() * 2_000,
          ])
        : [];
      const reaches = (): boolean => isAlive && !cuts.some(([from, to]) => time >= from! && time < to!);
      const far = <T>(run: () => T): Promise<T> => {
        calls++;
        return new Promise((resolve, reject) => {
          if (!isAlive) return;
          const fails = (): void => reject(new Error('no answer'));
          agenda.at(time + PATIENCE, fails);
          if (!reaches()) return;
          agenda.at(time + distance, () => {
            const answer = run();
            if (reaches()) agenda.at(time + distance, () => isAlive && resolve(answer));
          });
        });
      };
      const store = {
        decide: (query: Query): Promise<Reply> => far(() => server.decide(query) as Reply),
        giveBack: async (rests: readonly Change[]): Promise<void> => {
          for (const { units } of rests) back -= units[0]!;
          await far(() => rests.forEach((rest) => void server.adjust(rest)));
        },
      };
      let rests: Change[] = [];
      const keeping = {
        store: store as never,
        size: 10_000,
        hold,
        holds: () => {},
        giveBack: (rest: Change) => void rests.push(rest),
      };
      const sweep = (): void => {
        if (!isAlive || time > duration) return;
        for (const hot of keys.values()) hot.sweep(time);
        for (let i = 0; i < rests.length; i += 32) store.giveBack(rests.slice(i, i + 32)).catch(() => {});
        rests = [];
        agenda.at(time + hold / SWEEPS, sweep);
      };
      if (hold > 0) agenda.at(time + hold / SWEEPS, sweep);
      return {
        ask(key) {
          if (!isAlive) return;
          requests++;
          if (hold < 0) {
            const { verdicts } = alone.decide({ set: share, key: String(key), ...ONE }) as Reply;
            if (!admits(waitOf(verdicts, 0))) denied++;
            else admissions.push({ at: time, key });
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
          const asked = hold > 0 ? hot.decide(query, subject, time) : store.decide(query);
          Promise.resolve(asked).then(
            ({ now: at, verdicts }) => {
              if (admits(waitOf(verdicts, 0))) {
                spent++;
                admissions.push({ at: at - EPOCH, key });
              } else {
                denied++;
                if (processes.some((process) => process.held(key) > 0)) falselyDenied++;
              }
            },
            () => {},
          );
        },
        held(key) {
          if (!isAlive) return 0;
          if (key >= 0) return keys.get(key)?.held(time) ?? 0;
          return [...keys.values()].reduce((sum, hot) => sum + hot.held(time), 0);
        },
        end: () => (isAlive = false),
      };
    };

    const processes = distances.map(start);
    // Steps are rounded up, which must not add up.
    let arrival = 0;
    const arrive = (): void => {
      if (time > duration) return;
      processes[world.process(random)]!.ask(world.key(random));
      arrival -= Math.log(1 - random.fraction()) / rate;
      agenda.at(arrival, arrive);
    };
    agenda.at(0, arrive);
    if (faults) {
      for (let i = 0; i < processes.length / 10; i++) {
        const victim = random.integer(0, processes.length - 1);
        agenda.at(random.fraction() * duration, () => {
          processes[victim]!.end();
          processes[victim] = start(distances[victim]!);
        });
      }
    }
    const look = (): void => {
      if (time > duration) return;
      history.push({
        at: time,
        held: processes.reduce((sum, process) => sum + process.held(-1), 0),
        spent,
        back,
      });
      agenda.at(time + duration / 200, look);
    };
    agenda.at(0, look);
    for (let next = agenda.next(); next; next = agenda.next()) {
      if (next.time > duration + 3 * PATIENCE) break;
      time = next.time;
      for (const run of next.runs) run();
      // Promises go their way before time goes on.
      for (let i = 0; i < 12; i++) await Promise.resolve();
    }
    return { requests, calls, admissions, denied, falselyDenied, history };
  } finally {
    performance.now = now;
  }
}
