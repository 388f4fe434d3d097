// Plays a scene under load, and checks law 8.
import assert from 'node:assert/strict';
import type { Store } from 'headgate';
import {
  eventLoopDelay,
  LIMIT,
  Load,
  LOCAL_SHARE,
  MODES,
  percentile,
  sleep,
  TIMEOUT,
  until,
} from './load.js';
import { noteFault } from './report.js';
import type { Breakable } from './scenes.js';

const STORE_CODES = new Set(['HEADGATE_STORE_ERROR', 'HEADGATE_STORE_TIMEOUT', 'HEADGATE_STORE_AWAY']);

/** The second accepted code if the process is late by half of its timeout: such a process may misjudge the server's clock by as much. */
const LATE = 'HEADGATE_PROCESS_LATE';

/** The time for which a scene stays broken, ms. */
const BROKEN_MS = 700;

export interface Outcome {
  readonly loads: readonly Load[];
  readonly brokenAt: number;
  readonly mendedAt: number;
  readonly lateBy: number;
  readonly longestQueue: number;
}

/** Puts all modes under load, breaks the scene and mends it, and waits until the store decides again. */
export async function play(
  scene: Breakable,
  stores: readonly Store[],
  queue: () => number,
): Promise<Outcome> {
  const delay = eventLoopDelay();
  const loads = MODES.map((mode, i) => new Load(mode, stores[i]!));
  let longestQueue = 0;
  const sampler = setInterval(() => (longestQueue = Math.max(longestQueue, queue())), 5);
  for (const load of loads) load.start();
  try {
    await sleep(250);
    // A call waits longer until a store has answered once.
    if (!scene.isDown)
      await until(() => loads.every(({ answers }) => answers.some((each) => !each.degraded)));
    const brokenAt = performance.now();
    await scene.break();
    await sleep(BROKEN_MS);
    await scene.mend();
    const mendedAt = performance.now();
    await untilBack(loads);
    await sleep(150);
    return { loads, brokenAt, mendedAt, lateBy: delay.stop(), longestQueue };
  } finally {
    delay.stop();
    clearInterval(sampler);
    await Promise.all(loads.map((load) => load.stop()));
  }
}

/** Resolves when the store answers each load again. A machine that is too busy for this process is too busy for the servers as well. */
async function untilBack(loads: readonly Load[]): Promise<void> {
  const start = performance.now();
  const { lag } = loads[0]!;
  while (!loads.every((load) => load.isBack())) {
    if (performance.now() - start - (loads[0]!.lag - lag) > 10_000)
      throw new Error(`Not back after 10 s: ${loads.map((load) => load.told()).join('; ')}`);
    await sleep(5);
  }
}

/** The charges of the keys that a load requested once, from the store. */
async function charges(load: Load, store: Store): Promise<Map<string, number>> {
  const { set } = load.limiter;
  const keys = load.answers.map(({ key }) => key).filter((key) => key !== 'hot');
  const asked = { set: { ...set, timeout: 10_000 }, cost: 1, peek: true, lease: '' };
  const replies = await Promise.all(keys.map(async (key) => store.decide({ ...asked, key })));
  return new Map(keys.map((key, i) => [key, LIMIT - replies[i]!.verdicts[1]!]));
}

export async function check(
  what: string,
  scene: Breakable,
  stores: readonly Store[],
  outcome: Outcome,
  /** The factor by which other work on the machine may lengthen each call. */
  patience = 1,
): Promise<void> {
  const { loads, brokenAt, mendedAt, lateBy, longestQueue } = outcome;
  const line = { fault: what, decisions: 0, degraded: 0, doubled: 0, lost: 0, p99: 0, backAfter: 0, lateBy };
  for (const [i, load] of loads.entries()) {
    const { answers, degraded, mode } = load;
    const where = `${what}, ${mode}`;

    // Without the delay that a busy machine adds.
    const p99 = percentile(
      answers.map(({ ms, lag }) => ms - lag),
      99,
    );
    assert.ok(
      p99 <= patience * (TIMEOUT + 20 + lateBy),
      `${where}: p99 is ${p99} ms, this process was late by ${lateBy} ms`,
    );

    const hot = answers.filter(({ key, allowed }) => key === 'hot' && allowed);
    const byStore = hot.filter((answer) => !answer.degraded).length;
    assert.ok(byStore <= LIMIT * (scene.forgets ? 2 : 1), `${where}: the store admitted ${byStore}`);
    if (mode === 'local') assert.ok(hot.length - byStore <= LIMIT * LOCAL_SHARE, where);
    if (mode === 'allow')
      assert.ok(
        degraded.every(({ allowed }) => allowed),
        where,
      );
    if (mode === 'deny' || mode === 'throw') assert.ok(!degraded.some(({ allowed }) => allowed), where);
    for (const { code } of answers) {
      const isExpected =
        code !== undefined && (STORE_CODES.has(code) || (code === LATE && lateBy > TIMEOUT / 2));
      assert.ok(
        code === undefined || (mode === 'throw' && isExpected),
        `${where}: ${code}, late by ${lateBy}`,
      );
    }
    assert.ok(scene.mayGoUnnoticed || degraded.length > 0, `${where}: nobody noticed`);

    const back = answers.filter((answer) => !answer.degraded && answer.at + answer.ms >= mendedAt);
    const backAfter = Math.min(...back.map(({ at, ms }) => at + ms)) - mendedAt;
    assert.ok(backAfter <= 1000 + 2 * lateBy, `${where}: back after ${backAfter} ms`);
    assert.equal(load.limiter.health.state, 'up', where);

    const charged = await charges(load, stores[i]!);
    const doubled = [...charged.values()].filter((units) => units > 1).length;
    assert.equal(doubled, 0, `${where}: ${doubled} counted twice`);
    const since = scene.forgets ? mendedAt : 0;
    const lost = answers.filter(
      ({ key, at, allowed, degraded }) => allowed && !degraded && at > since && charged.get(key) === 0,
    ).length;
    assert.equal(lost, 0, `${where}: ${lost} decisions of the store were lost`);
    // Requests during the outage were decided by onStoreError, and are not counted later.
    if (what.startsWith('stalled')) {
      const counted = degraded.filter(({ key, at }) => at > brokenAt + 10 && charged.get(key) === 1);
      assert.ok(
        counted.every(({ at, ms }) => at + ms >= mendedAt),
        `${where}: counted afterwards`,
      );
    }

    line.decisions += answers.length;
    line.degraded += degraded.length;
    line.doubled += doubled;
    line.lost += lost;
    line.p99 = Math.max(line.p99, p99);
    line.backAfter = Math.max(line.backAfter, backAfter);
  }
  assert.ok(longestQueue < 1000, `${what}: ${longestQueue} commands queued`);
  noteFault(line);
}
