import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { createLimiter, type Policy } from '../../../src/index.js';
import { redisStore } from '../../../src/redis.js';
import type { Random } from '../lib/random.js';
import { worstWindow } from '../../../packages/testing/src/worst-window.js';
import { barOf, redisPart, type Bar, type Section } from '../lib/part.js';
import { scriptsRun } from '../lib/redis-rigs.js';
import { count, fixed } from '../lib/figures.js';
import { live, type Outcome, type World } from '../lib/slice-world.js';
import { sample } from '../lib/stats.js';

const SEEDS = Number(process.env['SLICE_SEEDS'] ?? 1000);

/** Draws 0 to `n` - 1, the i-th in proportion to 1 / i^s. */
function zipf(n: number, s: number): (random: Pick<Random, 'fraction'>) => number {
  let sum = 0;
  const sums = Array.from({ length: n }, (_, i) => (sum += (i + 1) ** -s));
  return (random) => {
    const drawn = random.fraction() * sum;
    let [low, high] = [0, n - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sums[middle]! < drawn) low = middle + 1;
      else high = middle;
    }
    return low;
  };
}

/** A process that asks as fast as possible. */
async function fullLoad(port: number): Promise<Section> {
  const redis = new Redis(port);
  const rows: string[][] = [];
  const bars: Bar[] = [];
  try {
    for (const algorithm of ['fixed-window', 'sliding-window', 'token-bucket'] as const) {
      const store = redisStore(redis, { prefix: algorithm, slices: true, publish: false });
      const policies: Policy[] = [{ name: 'p', algorithm, limit: 1e8, window: '1m' }];
      const limiter = createLimiter({ name: 'bench', store, policies, timeout: '10s' });
      for (const [keys, least] of [
        [1, 50],
        [2000, 20],
      ] as const) {
        const draw = zipf(keys, 1);
        const names = Array.from({ length: 1 << 16 }, () => `key-${draw({ fraction: Math.random })}`);
        const before = await scriptsRun(redis);
        const times: number[] = [];
        let decisions = 0;
        const began = performance.now();
        await Promise.all(
          Array.from({ length: 64 }, async () => {
            while (performance.now() < began + 2000) {
              const name = names[decisions++ & 0xffff]!;
              const sentAt = decisions % 64 === 0 ? performance.now() : 0;
              await limiter.consume(name);
              if (sentAt > 0) times.push(performance.now() - sentAt);
            }
          }),
        );
        const perSecond = decisions / ((performance.now() - began) / 1000);
        const perCall = decisions / ((await scriptsRun(redis)) - before);
        const p50 = 1000 * sample(times).median;
        const what = keys === 1 ? 'one key' : `${count(keys)} keys by Zipf`;
        rows.push([algorithm, what, count(Math.round(perSecond)), fixed(perCall, 0), fixed(p50, 1)]);
        const bar = `${algorithm}, ${what}: >= ${least} decisions a call`;
        bars.push(barOf(bar, fixed(perCall, 0), perCall >= least));
        await sleep(300);
      }
      await limiter.close();
      await store.close?.();
    }
  } finally {
    redis.disconnect();
  }
  return {
    title: 'Slices: one process, 64 in flight, limits far away',
    columns: ['algorithm', 'keys', 'decisions a second', 'decisions a call', 'p50 us'],
    rows,
    bars,
    data: rows,
  };
}

const NEAR = Array.from({ length: 8 }, () => 0.2);

/** Calls per decision on realistic load, in a simulated world, and the price of saving them. */
async function callsSaved(): Promise<Section> {
  const rows: string[][] = [];
  const bars: Bar[] = [];
  for (const algorithm of ['fixed-window', 'sliding-window', 'token-bucket'] as const) {
    for (const limit of [100_000, 1000]) {
      for (const skew of [1, 1.2]) {
        const world = (hold: number): Promise<Outcome> =>
          live({
            ...{ seed: 1, policy: { algorithm, limit, window: 2000 }, window: 2000, hold },
            ...{ distances: NEAR, rate: 20, duration: 4000, faults: false, key: zipf(10_000, skew) },
            process: (random) => random.integer(0, 7),
          });
        const direct = await world(0);
        const row = [algorithm, `${count(limit)} in 2 s`, String(skew)];
        for (const hold of [100, 1000]) {
          const { requests, calls, falselyDenied, admissions } = await world(hold);
          const falsely = (100 * falselyDenied) / requests;
          const used = (100 * admissions.length) / direct.admissions.length;
          row.push(fixed(calls / requests, 2), `${fixed(falsely, 2)} %`, `${fixed(used, 1)} %`);
          const what = `${algorithm}, ${count(limit)} in 2 s, Zipf ${skew}, hold ${hold} ms`;
          bars.push(
            barOf(`${what}: <= 0.1 % falsely denied`, `${fixed(falsely, 2)} %`, falsely <= 0.1),
            barOf(`${what}: >= 98 % of what single calls admit`, `${fixed(used, 1)} %`, used >= 98),
          );
        }
        rows.push(row);
      }
    }
  }
  return {
    title: 'Slices: calls a decision, 8 processes, 20,000 requests a second over 10,000 keys',
    note: 'Simulated, without local denials. Falsely denied: while another process held units of the key. Used: what is admitted, of what is admitted with a call each.',
    columns: [
      ...['algorithm', 'limit', 'Zipf', 'calls, hold 100 ms', 'falsely', 'used'],
      ...['calls, hold 1 s', 'falsely', 'used'],
    ],
    rows,
    bars,
    data: rows,
  };
}

const WINDOW = 1000;
const LIMIT = 600;
const DURATION = 3000;

/** Five regions of 20 processes, which crash and are cut off. */
async function regions(): Promise<Section> {
  const distances = Array.from({ length: 100 }, (_, i) => [10, 35, 60, 100, 150][i % 5]!);
  const draw = zipf(100, 1);
  const rows: string[][] = [];
  const bars: Bar[] = [];
  for (const algorithm of ['fixed-window', 'sliding-window', 'token-bucket'] as const) {
    for (const hold of [0, 1000, -1]) {
      let [above, requests, calls, admitted, denied, falsely] = [0, 0, 0, 0, 0, 0];
      const bound = algorithm === 'sliding-window' ? LIMIT : 2 * LIMIT;
      for (let seed = 1; seed <= SEEDS; seed++) {
        const world: World = {
          ...{ seed, policy: { algorithm, limit: LIMIT, window: WINDOW }, window: WINDOW, hold },
          ...{ distances, rate: (1.2 * LIMIT) / WINDOW, duration: DURATION, faults: true },
          ...{ process: draw, key: () => 0 },
        };
        const outcome = await live(world);
        const at = outcome.admissions.map((each) => ({ at: Math.floor(each.at), units: 1 }));
        if (hold >= 0 && worstWindow(at, WINDOW) > bound) above++;
        requests += outcome.requests;
        calls += outcome.calls;
        admitted += outcome.admissions.length;
        denied += outcome.denied;
        falsely += outcome.falselyDenied;
      }
      const how = hold < 0 ? 'a share of the limit each' : hold === 0 ? 'a call each' : 'slices, hold 1 s';
      const percent = (part: number): string => `${fixed((100 * part) / requests, 1)} %`;
      rows.push([
        ...[algorithm, how, count(SEEDS), hold < 0 ? '' : String(above), fixed(calls / requests, 2)],
        ...[percent(admitted), percent(denied), hold < 0 ? '' : percent(falsely)],
      ]);
      if (hold > 0) bars.push(barOf(`${algorithm}: no world above its bound`, String(above), above === 0));
    }
  }
  return {
    title: 'Slices: 5 regions of 20 processes, 20 to 300 ms from the server and back',
    note: `Simulated: ${LIMIT} a second for one key, 1.2 times as many requests, spread over the processes by Zipf; a tenth of them crash, all are cut off now and then.`,
    columns: [
      ...['algorithm', 'how', 'worlds', 'above the bound'],
      ...['calls a decision', 'admitted', 'denied', 'falsely'],
    ],
    rows,
    bars,
    data: rows,
  };
}

/** The calls saved by slices, and the price. */
export const slices = redisPart('slices', async (_, port) => [
  await fullLoad(port),
  await callsSaved(),
  await regions(),
]);
