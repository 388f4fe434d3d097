// Requests of several processes that wait for one quota, at any distance from the store.
import { expect } from 'chai';
import type { Policy } from 'headgate';
import { Fleet, sequence } from '../support/fleet.js';

/** The distance of each process from the store, ms each way. The last process is farther than the others. */
const DISTANCES = [0, 0, 0, 8];
const FAR = 3;

const buckets: Readonly<Record<string, Policy>> = {
  'a bucket': { algorithm: 'token-bucket', limit: 50, window: '1s', burst: 1 },
  'a bucket of a minute': { algorithm: 'gcra', limit: 3000, window: '1m', burst: 20 },
  'a leaky bucket': { algorithm: 'leaky-bucket', limit: 50, window: '1s' },
};
const windows: Readonly<Record<string, Policy>> = {
  'a sliding window': { limit: 50, window: '1s' },
  'a log': { algorithm: 'sliding-log', limit: 50, window: '1s' },
  'a fixed window': { algorithm: 'fixed-window', limit: 50, window: '1s' },
};

describe('waiting in several processes', function () {
  // The order of the first questions is random, and therefore the shares are, too.
  this.retries(2);

  const { random } = Math;
  beforeEach(() => (Math.random = sequence(1)));
  afterEach(() => (Math.random = random));

  /** The figures of `each` waiting requests in each process, for some seconds. */
  async function figures(policy: Policy, each: number, seconds = 15) {
    const fleet = new Fleet(policy, DISTANCES);
    await fleet.keepWaiting(each, 1000 * seconds);
    const { length } = fleet.grants;
    return {
      overtaking: fleet.overtaking(),
      // The first window has units for all requests, so no request waits.
      share: fleet.shareOf(FAR, 1100),
      calls: fleet.calls / length,
      used: length / (seconds * 50),
    };
  }

  for (const [name, policy] of Object.entries(buckets)) {
    for (const each of [1, 5, 9]) {
      it(`${name} serves in the order of arrival, with about one call a request, ${each} waiting in each process`, async () => {
        const { overtaking, share, calls, used } = await figures(policy, each);
        // A request that arrives while an earlier request is on its way to the store may overtake.
        expect(overtaking).to.be.below(30);
        expect(share).to.be.within(0.95, 1.05);
        expect(calls).to.be.below(1.2);
        expect(used).to.be.above(0.99);
      });
    }

    it(`${name} gives each process its share, with one call a request, when the lines are longer than a second`, async () => {
      const { share, calls, used } = await figures(policy, 30, 40);
      expect(share).to.be.within(0.8, 1.2);
      expect(calls).to.be.below(1.5);
      expect(used).to.be.above(0.99);
    });
  }

  it('the turns of a process that dies are over within a second', async () => {
    for (const each of [9, 30]) {
      const fleet = new Fleet(buckets['a bucket']!, DISTANCES);
      await fleet.keepWaiting(each, 5000);
      fleet.dead.add(0);
      await fleet.pass(5000);
      expect(fleet.went(5000, 6000)).to.be.above(20);
      expect(fleet.went(6000, 10_000)).to.be.above(195);
    }
  });

  for (const [name, policy] of Object.entries(windows)) {
    for (const each of [5, 10, 30]) {
      it(`${name} gives each process its share, with one call a request, ${each} waiting in each process`, async () => {
        const { share, calls, used } = await figures(policy, each);
        expect(share).to.be.within(0.8, 1.2);
        expect(calls).to.be.below(1.5);
        // A sliding window counts its oldest segment fully.
        expect(used).to.be.above(0.9);
      });
    }
  }

  describe('for slots', () => {
    const slots = (limit: number): Policy => ({ algorithm: 'concurrency', limit, lease: '1m' });
    const steady = () => 150;
    const random = () => -150 * Math.log(1 - Math.random());

    for (const [work, time] of Object.entries({ steady, random })) {
      for (const [limit, ...workers] of [
        [2, 10, 10],
        [2, 10, 10, 10],
        [2, 10, 10, 10, 10],
        [1, 1, 1],
        [1, 5, 5, 5, 5],
        [4, 10, 10, 10, 10],
      ] as const) {
        it(`each process gets its share, with few questions: ${workers.join(', ')} workers, ${limit} slots, ${work} work`, async () => {
          const fleet = new Fleet(
            slots(limit),
            workers.map(() => 0),
          );
          await fleet.keepWorking(workers, time, 30_000);
          const { length } = fleet.grants;
          for (const process of workers.keys()) expect(fleet.shareOf(process, 2000)).to.be.within(0.8, 1.2);
          // The end of random work cannot be predicted.
          expect(fleet.calls / length).to.be.at.most(work === 'steady' ? 2 : 2.5);
          expect((length * 150) / limit / 30_000).to.be.above(0.75);
        });
      }
    }

    it('a process that dies holds up others for at most two seconds', async () => {
      // The process dies without a slot, while it is first in line.
      for (let seed = 1; seed <= 20; seed++) {
        Math.random = sequence(seed);
        const fleet = new Fleet(slots(1), [0, 0, 0]);
        await fleet.keepWorking([5, 5, 5], steady, 3000 + 10 * seed);
        const holder = fleet.grants.at(-1)!.process;
        const dead = (holder + 1) % 3;
        fleet.dead.add(dead);
        await fleet.pass(10_000);
        const went = fleet.grants.filter(({ process }) => process !== dead).map((grant) => grant.went);
        const gaps = went.slice(1).map((at, i) => at - went[i]!);
        expect(Math.max(...gaps)).to.be.below(2000 + 150 + 250);
      }
    });
  });
});
