// Law 17 between processes: several processes with slices of a hot key together admit no more than the limit.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { expect } from 'chai';
import type { CreateLimiterOptions } from 'headgate';
import { redisStore, type SliceOptions } from 'headgate/redis';
import { startChild } from '../../../support/processes.js';
import { servers } from '../../../support/shared-servers.js';
import { clients, freshPrefix, limiterOn } from '../../../support/stores.js';

/** The task of an asking process. */
export interface Heat {
  readonly options: CreateLimiterOptions;
  readonly slices: SliceOptions;
  /** ms */
  readonly duration: number;
  /** The number of decisions in a turn. */
  readonly turn: number;
  /** The longest pause between two turns, ms. */
  readonly pause: number;
}

/** The number of admissions with the same times of request and answer, ms. */
interface Admissions {
  readonly asked: number;
  readonly answered: number;
  readonly count: number;
}

const PROCESSES = 3;

describe('slices, between processes', function () {
  this.timeout(60_000);
  // Slices end by real time, so a machine that pauses for a moment may end a slice early. Then fewer requests are admitted, never more.
  this.retries(2);
  const prefix = freshPrefix();
  let children: ChildProcess[] = [];
  beforeEach(async () => {
    const args = [String(servers.redis.port), prefix];
    children = await Promise.all(
      Array.from({ length: PROCESSES }, () => startChild('slice-child.ts', ...args)),
    );
  });
  afterEach(() =>
    Promise.all(
      children
        .filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null)
        .map((child) => (child.disconnect(), once(child, 'exit'))),
    ),
  );

  /** The admissions of all processes. @param kills whether one process is killed half-way */
  async function play(heat: Heat, kills = false): Promise<Admissions[]> {
    const all: Admissions[] = [];
    const ends = children.map(
      (child) =>
        new Promise<void>((resolve) => {
          child.on('exit', () => resolve());
          child.on('message', (message: { admitted: Record<string, number> } | 'done') => {
            if (message === 'done') return resolve();
            for (const [when, count] of Object.entries(message.admitted)) {
              const [asked, answered] = when.split(' ').map(Number);
              all.push({ asked: asked!, answered: answered!, count });
            }
          });
        }),
    );
    for (const child of children) child.send(heat);
    if (kills) setTimeout(() => children[0]!.kill('SIGKILL'), heat.duration / 2);
    await Promise.all(ends);
    return all;
  }

  const sum = (all: readonly Admissions[]): number => all.reduce((total, { count }) => total + count, 0);

  /** The largest number of admissions within `ms`: requested after one moment, and answered less than `ms` later. */
  function largestIn(all: readonly Admissions[], ms: number): number {
    const inOrder = all.toSorted((a, b) => a.asked - b.asked);
    let worst = 0;
    inOrder.forEach(({ asked: start }, i) => {
      let count = 0;
      for (let j = i; j < inOrder.length && inOrder[j]!.asked < start + ms; j++)
        if (inOrder[j]!.answered < start + ms) count += inOrder[j]!.count;
      worst = Math.max(worst, count);
    });
    return worst;
  }

  const late = { turn: 120, pause: 60, duration: 2_500 };

  it('a fixed window admits its limit, no more, and unused units come back', async () => {
    const options: CreateLimiterOptions = {
      name: 'fixed',
      algorithm: 'fixed-window',
      limit: 20_000,
      window: '1h',
    };
    const heat = { options, slices: { size: 500 }, duration: 1_500, turn: 200, pause: 0 };
    const admitted = sum(await play(heat));
    const limiter = limiterOn(redisStore(clients.redis, { prefix }), options);
    const { remaining } = await limiter.peek('hot');
    expect(admitted + remaining).to.equal(20_000);
  });

  it('a fixed window that ends every second admits at most twice its limit, and its limit in each', async () => {
    const options: CreateLimiterOptions = {
      name: 'short',
      algorithm: 'fixed-window',
      limit: 2_000,
      window: 500,
    };
    const all = await play({ options, slices: { hold: '200ms' }, ...late });
    expect(largestIn(all, 499)).to.be.at.most(4_000);
    expect(sum(all)).to.be.within(2_000, 2_000 * 7);
  });

  for (const kills of [false, true]) {
    const title = kills ? 'also if one of them is killed' : 'however late slices are spent';

    it(`a sliding window admits at most its limit in any window, ${title}`, async () => {
      const options: CreateLimiterOptions = { name: `sliding ${kills}`, limit: 2_000, window: 1_000 };
      const all = await play({ options, slices: { hold: '200ms' }, ...late }, kills);
      expect(largestIn(all, 999)).to.be.at.most(2_000);
      expect(sum(all)).to.be.above(3_000);
    });

    it(`a bucket admits at most its burst and what flows into it, ${title}`, async () => {
      const name = `bucket ${kills}`;
      const [limit, window, burst] = [1_000, 1_000, 1_500];
      const options: CreateLimiterOptions = { name, algorithm: 'token-bucket', limit, window, burst };
      const all = await play({ options, slices: { hold: '200ms' }, ...late }, kills);
      for (const ms of [1, 10, 50, 100, 200, 400, 800, 1_600])
        expect(largestIn(all, ms), `${ms} ms`).to.be.at.most(burst + (ms * limit) / window);
      expect(sum(all)).to.be.above(3_000);
    });
  }

  it('the units of a killed process count as spent until its window ends, and no longer', async () => {
    const options: CreateLimiterOptions = {
      name: 'killed',
      algorithm: 'fixed-window',
      limit: 3_000,
      window: '5s',
    };
    const heat = { options, slices: { hold: '1s' }, duration: 1_200, turn: 20, pause: 10 };
    const admitted = sum(await play(heat, true));
    const limiter = limiterOn(redisStore(clients.redis, { prefix }), options);
    const { remaining, resetAfterMs } = await limiter.peek('hot');
    expect(admitted + remaining).to.be.within(3_000 - 300, 3_000);
    await new Promise((resolve) => setTimeout(resolve, resetAfterMs + 5));
    expect((await limiter.peek('hot')).remaining).to.equal(3_000);
  });
});
