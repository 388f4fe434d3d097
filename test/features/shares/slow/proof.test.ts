// Law 18 over many steps: an oracle, equal decisions on Redis, the table of the model, and processes that are killed.
// HEADGATE_STEPS=1000000 is the full run.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLimiter } from 'headgate';
import {
  deniedOfLight,
  jain,
  lightTenants,
  numbers,
  serve,
  type Demand,
  type Served,
} from '../../../../scripts/bench/lib/share-world.js';
import { startServer } from '../../../support/servers.js';
import { killChild, startChild } from '../../../support/processes.js';
import { ShareOracle } from '../oracle.js';
import { START, stores, TestClock, type CreateStore } from '../../../support/stores.js';

const STEPS = Number(process.env['HEADGATE_STEPS'] ?? 20_000);
const [LIMIT, WINDOW_MS, SEGMENTS] = [1000, 10_000, 10];
const POLICY = `${LIMIT}/${WINDOW_MS}ms segments ${SEGMENTS} by provider share tenant`;

const open = (create: CreateStore, policies = POLICY) => {
  const clock = new TestClock();
  return { clock, limiter: createLimiter({ store: create(clock.read), policies, timeout: '1m' }) };
};

/** Random requests: twelve tenants, the first ones more often, which ask for 2.5 times the limit; rarely, a long silence. */
function* requests(steps: number, seed: number) {
  const random = numbers(seed);
  let at = 0;
  for (let i = 0; i < steps; i++) {
    at += random() < 0.0005 ? 25_000 : Math.floor(random() * 40);
    const tenant = Math.floor(random() ** 2 * 12);
    const cost = random() < 0.05 ? 1 + Math.floor(random() * 40) : 1 + Math.floor(random() * 8);
    yield { at, tenant: `${tenant}`, cost, weight: [1, 1, 2, 5][tenant % 4]! };
  }
}

/** Compares a limiter with the oracle, or another limiter. @returns the counts of differences and of windows above the limit */
async function compare(steps: number, create: CreateStore, other?: CreateStore) {
  const { clock, limiter } = open(create);
  const second = other && open(other);
  const oracle = new ShareOracle(LIMIT, WINDOW_MS, SEGMENTS);
  const admitted: { at: number; cost: number }[] = [];
  let [first, used, above, differences, allowed] = [0, 0, 0, 0, 0];
  for (const { at, tenant, cost, weight } of requests(steps, 7)) {
    clock.now = START + at;
    const key = { provider: 'p', tenant };
    const decision = await limiter.consume(key, { cost, weight });
    let same: boolean;
    if (second) {
      second.clock.now = START + at;
      const { policies, retryAfterMs } = await second.limiter.consume(key, { cost, weight });
      same =
        retryAfterMs === decision.retryAfterMs &&
        JSON.stringify(policies) === JSON.stringify(decision.policies);
    } else {
      const expected = oracle.decide(at, tenant, cost, weight);
      same = expected.allowed === decision.allowed && expected.share === decision.policies[0]!.share;
    }
    if (!same) differences++;
    while (first < admitted.length && admitted[first]!.at <= at - WINDOW_MS) used -= admitted[first++]!.cost;
    if (!decision.allowed) continue;
    allowed++;
    admitted.push({ at, cost });
    used += cost;
    if (used > LIMIT) above++;
  }
  await limiter.close();
  await second?.limiter.close();
  return { differences, above, part: allowed / steps };
}

describe(`law 18, ${STEPS} random steps`, function () {
  this.timeout(60_000 + STEPS * 3);

  it('memory decides as an oracle that keeps every request, and is never above the limit', async () => {
    const { differences, above, part } = await compare(STEPS, stores.memory);
    assert.deepEqual({ differences, above }, { differences: 0, above: 0 });
    assert.ok(part > 0.2 && part < 0.8, `${part}`);
  });

  for (const [name, create] of Object.entries(stores))
    if (name !== 'memory' && name !== 'map')
      it(`${name} decides as memory`, async () => {
        const { differences, above } = await compare(STEPS, stores.memory, create);
        assert.deepEqual({ differences, above }, { differences: 0, above: 0 });
      });
});

const units = (served: ReadonlyMap<string, Served>, tenant: string): number => served.get(tenant)!.units;

/** A cost with a heavy tail: median 245, up to 8,000. */
const tail = (random: () => number): number =>
  Math.ceil(Math.min(8000, 245 * Math.exp(1.2 * normal(random))));
const normal = (random: () => number): number =>
  Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random());

for (const [name, create] of Object.entries(stores)) {
  if (name === 'map' || name === 'valkey') continue;
  describe(`the table of the model, on ${name}`, function () {
    this.timeout(600_000);
    // A server needs a millisecond for each decision beside other tests.
    const seconds = name === 'memory' ? 100 : 40;

    const measure = async (demands: readonly Demand[], since: number, limit = LIMIT, until = seconds) => {
      const { clock, limiter } = open(create, `${limit}/10s by provider share tenant`);
      const ask = async ({ at, tenant, cost, weight }: Parameters<Parameters<typeof serve>[1]['ask']>[0]) => {
        clock.now = START + at;
        return (await limiter.consume({ provider: 'p', tenant }, { cost, weight })).allowed;
      };
      const { served, most } = await serve(demands, { limit, window: WINDOW_MS, seconds: until, since, ask });
      assert.ok(most <= limit, `${most} units in a window`);
      await limiter.close();
      const all = [...served.values()].reduce((sum, each) => sum + each.units, 0);
      return { served, utilisation: (all * WINDOW_MS) / (limit * (until - since) * 1000) };
    };

    it('one tenant, three times the limit: all of it', async () => {
      const { utilisation } = await measure([{ tenant: 'a', rate: 300 }], 11);
      // A segment more than the window counts.
      assert.ok(utilisation >= (0.98 * SEGMENTS) / (SEGMENTS + 1), `${utilisation}`);
    });

    it('backlogged, weights 1, 2, 5, twice: the same units by weight', async () => {
      const weights = [1, 2, 5, 1, 2, 5];
      const { served } = await measure(
        weights.map((weight, i) => ({ tenant: `${i}`, rate: 150, weight })),
        15,
      );
      const shares = weights.map((weight, i) => units(served, `${i}`) / weight);
      assert.ok(jain(shares) >= 0.999, `${jain(shares)}`);
    });

    it('50 light tenants and a hog of 11 times the limit', async () => {
      const hog = { tenant: 'hog', rate: name === 'memory' ? 1100 : 400, from: 15 };
      const { served, utilisation } = await measure([...lightTenants(50, 44), hog], 16);
      assert.ok(deniedOfLight(served) <= 0.01, `${deniedOfLight(served)}`);
      assert.ok(utilisation >= 0.8, `${utilisation}`);
    });

    it('a second hog comes: as much as the first in its first window', async () => {
      const hogs = [
        { tenant: 'a', rate: 400 },
        { tenant: 'b', rate: 400, from: 15 },
      ];
      const { served } = await measure(hogs, 15, LIMIT, 26);
      const ratio = units(served, 'b') / units(served, 'a');
      assert.ok(ratio >= 0.95 && ratio <= 1.08, `${ratio}`);
    });

    it('tokens with a heavy tail, ten tenants of 4 % and a hog', async () => {
      const mean = 245 * Math.exp(1.2 ** 2 / 2);
      const limit = 1_000_000;
      const perSecond = limit / 10;
      const hog = { tenant: 'hog', rate: (5 * perSecond) / mean, cost: tail };
      const { served } = await measure([...lightTenants(10, (0.4 * perSecond) / mean, tail), hog], 12, limit);
      assert.ok(deniedOfLight(served) <= 0.05, `${deniedOfLight(served)}`);
    });
  });
}

describe('a shared limit of four processes, of which two are killed again and again', function () {
  this.timeout(120_000);
  const tenants = ['a', 'b', 'c', 'd'];

  /** Runs a process for each tenant, and kills the first two in turn. `counts` are the admitted requests that processes have logged. */
  async function run(policies: string, end: (counts: () => number[]) => Promise<void>): Promise<number[]> {
    const server = await startServer('redis');
    const directory = mkdtempSync(join(tmpdir(), 'headgate-shares-'));
    const logOf = (tenant: string) => join(directory, tenant);
    const counts = () => tenants.map((tenant) => readFileSync(logOf(tenant), 'utf8').split('\n').length - 1);
    const start = (tenant: string) =>
      startChild('shares-child.ts', String(server.port), policies, tenant, logOf(tenant));
    try {
      for (const tenant of tenants) writeFileSync(logOf(tenant), '');
      const children = await Promise.all(tenants.map(start));
      const killing = (async () => {
        for (let kill = 0; kill < 4; kill++) {
          await sleep(300);
          await killChild(children[kill % 2]!);
          children[kill % 2] = await start(tenants[kill % 2]!);
        }
      })();
      await end(counts);
      await killing;
      await Promise.all(children.map(killChild));
      return counts();
    } finally {
      rmSync(directory, { recursive: true, force: true });
      await server.stop();
    }
  }

  const sum = (numbers: readonly number[]) => numbers.reduce((all, each) => all + each, 0);

  it('is never exceeded, and is used up', async () => {
    const limit = 8000;
    const admitted = await run(`${limit}/1h by provider share tenant`, async (counts) => {
      let before = -1;
      for (let same = 0; same < 6;) {
        await sleep(500);
        const now = sum(counts());
        same = now === before ? same + 1 : 0;
        before = now;
      }
    });
    assert.ok(sum(admitted) <= limit, admitted.join());
    // A process that is killed loses at most its four calls in flight.
    assert.ok(sum(admitted) >= 0.99 * limit - 16, admitted.join());
  });

  it('gives the tenants of the others their shares', async () => {
    let before: number[] = [];
    const admitted = await run('300/2s by provider share tenant', async (counts) => {
      await sleep(4000);
      before = counts();
      await sleep(8000);
    });
    const [, , c, d] = admitted.map((count, i) => count - before[i]!) as [number, number, number, number];
    assert.ok(Math.abs(c / d - 1) < 0.1, `${c} ${d}`);
  });
});
