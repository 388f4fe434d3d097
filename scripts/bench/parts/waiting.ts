import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import type { Policy } from '../../../src/index.js';
import { barOf, redisPart, type Bar } from '../lib/part.js';
import { overtakingOf, scriptsRun } from '../lib/redis-rigs.js';
import { fixed } from '../lib/figures.js';
import type { Wait } from '../rigs/waiting.js';

const PROCESSES = 4;
/** The additional distance of the last process, ms each way. */
const DISTANCE_MS = 8;
/** The begin and end of the measurement, ms after the processes have begun to wait. */
const BEGIN_MS = 1500;
const END_MS = 9500;

const PER_SECOND = 50;
const policies: Readonly<Record<string, Policy>> = {
  gcra: { algorithm: 'gcra', limit: PER_SECOND, window: '1s', burst: 1 },
  'token-bucket': { algorithm: 'token-bucket', limit: PER_SECOND, window: '1s' },
  'sliding-window (default)': { limit: PER_SECOND, window: '1s' },
  'fixed-window': { algorithm: 'fixed-window', limit: PER_SECOND, window: '1s' },
  'sliding-log': { algorithm: 'sliding-log', limit: PER_SECOND, window: '1s' },
};

interface Figures {
  readonly overtaking: number;
  readonly share: number;
  readonly calls: number;
  readonly perSecond: number;
}

function figuresOf(waits: readonly (readonly Wait[])[], begin: number, calls: number): Figures {
  const measured = (list: readonly Wait[]) =>
    list.filter(([, went]) => went >= begin + BEGIN_MS && went < begin + END_MS);
  const all = measured(waits.flat()).sort(([, a], [, b]) => a - b);
  return {
    overtaking: overtakingOf(all.map(([came]) => came)),
    share: (measured(waits.at(-1)!).length * PROCESSES) / all.length,
    calls: calls / all.length,
    perSecond: (1000 * all.length) / (END_MS - BEGIN_MS),
  };
}

/** `limiter.wait` in several processes for the same quota, with a process farther from Redis. */
export const waiting = redisPart('waiting', async (bench, port) => {
  const redis = new Redis(port);
  try {
    const road = await bench.start('distance', { port, ms: DISTANCE_MS });
    const ports = [...Array<number>(PROCESSES - 1).fill(port), await road.port()];
    const rigs = await Promise.all(ports.map((port) => bench.start('waiting', { port })));
    const rows: string[][] = [];
    const bars: Bar[] = [];
    const data: Record<string, Figures> = {};
    for (const [name, policy] of Object.entries(policies)) {
      for (const each of [5, 9, 25]) {
        const what = `${name}, ${each} waiting in each process`;
        const begin = Date.now();
        const waits = Promise.all(rigs.map((rig) => rig.wait(what, policy, each, begin + END_MS)));
        await sleep(BEGIN_MS);
        const before = await scriptsRun(redis);
        await sleep(begin + END_MS - Date.now() - 10);
        // Requests that still wait at the end are given back by calls that do not count.
        const calls = (await scriptsRun(redis)) - before;
        const figures = figuresOf(await waits, begin, calls);
        const { overtaking, share, perSecond } = figures;
        data[what] = figures;
        const cells = [fixed(perSecond, 1), fixed(share, 2), fixed(overtaking, 0), fixed(figures.calls, 2)];
        rows.push([what, ...cells]);
        const add = (bar: string, measured: string, pass: boolean): void =>
          void bars.push(barOf(`${what}: ${bar}`, measured, pass));
        add('far process >= 0.8 of its share', fixed(share, 2), share >= 0.8);
        add('<= 1.5 calls a grant', fixed(figures.calls, 2), figures.calls <= 1.5);
        const isInOrder = /gcra|bucket/.test(name) && each * PROCESSES < 0.8 * PER_SECOND;
        if (isInOrder) add('overtaken by <= 100 ms', `${fixed(overtaking, 0)} ms`, overtaking <= 100);
      }
    }
    return [
      {
        title: `Waiting for ${PER_SECOND} a second in ${PROCESSES} processes, the last one ${DISTANCE_MS} ms farther each way`,
        columns: ['', 'a second', 'share of the far one', 'overtaken by, ms', 'calls a grant'],
        rows,
        bars,
        data,
      },
    ];
  } finally {
    redis.disconnect();
  }
});
