// Requests of several processes that wait for one quota, at any distance from the store.
import { expect } from 'chai';
import type { Policy } from 'headgate';
import { Fleet, sequence } from '../../support/fleet.js';

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
  // The time is the test's, so only the processor limits the simulations.
  this.timeout(120_000);

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
      const { share, calls, used } = await figures(policy, 30, 25);
      expect(share).to.be.within(0.8, 1.2);
      expect(calls).to.be.below(1.5);
      expect(used).to.be.above(0.99);
    });
  }

  // `limitFetch` decides by a leaky bucket with turns two seconds ahead.
  const ahead: Policy = { algorithm: 'leaky-bucket', limit: 50, window: '1s', burst: 1, maxDelay: '2s' };
  for (const [name, policy] of Object.entries({ ...buckets, 'a bucket of turns two seconds ahead': ahead })) {
    for (const processes of [1, 2]) {
      it(`${name} uses every turn while ${processes} of the processes ask, however long their lines are`, async () => {
        for (const each of [60, 300]) {
          const fleet = new Fleet(policy, new Array<number>(processes).fill(0));
          await fleet.keepWaiting(each, 20_000);
          // The questions of one call arrive here in any order, and a charge behind a denied one is given back, which leaves a gap.
          expect(fleet.went(3000, 20_000), `${each} waiting`).to.be.at.least(0.95 * 17 * 50);
        }
      });
    }
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
    const slots = (limit: number) => ({ algorithm: 'concurrency', limit, lease: '1m' }) as const;
    const steady = () => 150;
    const random = () => -150 * Math.log(1 - Math.random());

    for (const [kind, time] of Object.entries({ steady, random })) {
      for (const [limit, ...workers] of [
        [2, 10, 10],
        [2, 10, 10, 10],
        [2, 10, 10, 10, 10],
        [1, 1, 1],
        [1, 5, 5, 5, 5],
        [4, 10, 10, 10, 10],
      ] as const) {
        it(`each process gets its share, with few questions: ${workers.join(', ')} workers, ${limit} slots, ${kind} work`, async () => {
          const fleet = new Fleet(
            slots(limit),
            workers.map(() => 0),
          );
          let busy = 0;
          const work = () => {
            const ms = time();
            busy += ms;
            return ms;
          };
          await fleet.keepWorking(workers, work, 30_000);
          const { length } = fleet.grants;
          for (const process of workers.keys()) expect(fleet.shareOf(process, 2000)).to.be.within(0.8, 1.2);
          // The end of random work cannot be predicted.
          expect(fleet.calls / length).to.be.at.most(kind === 'steady' ? 2 : 3);
          expect(busy / limit / 30_000).to.be.above(kind === 'steady' ? 0.75 : 0.65);
        });
      }
    }

    for (const [work, time] of Object.entries({ steady, random })) {
      for (const limit of [1, 2, 4, 6]) {
        it(`tenants get equal parts of ${limit} shared slots, however they are spread over processes: ${work} work`, async () => {
          const fleet = new Fleet({ ...slots(limit), share: 'tenant' }, [0, 0, 0]);
          const crew = (process: number, tenant: string) => ({
            process,
            key: { key: 'k', tenant },
            count: 5,
          });
          // One process waits for both tenants, two others for the second tenant alone.
          const crews = [crew(0, 'a'), crew(0, 'b'), crew(1, 'b'), crew(2, 'b')];
          await fleet.keepCrewsWorking(crews, time, 25_000);
          const grants = fleet.grants.filter(({ went }) => went > 5000);
          const ofA = grants.filter(({ key }) => (key as Record<string, string>)['tenant'] === 'a');
          expect((2 * ofA.length) / grants.length).to.be.within(0.8, 1.2);
          expect((grants.length * 150) / limit / 20_000).to.be.above(work === 'steady' ? 0.85 : 0.6);
        });
      }
    }

    const WORK_MS = 20;
    /** The part of the time in which slots are used, from the second second to the eighth. */
    const used = ({ grants }: Fleet, limit: number) =>
      (grants.filter(({ went }) => went > 2000).length * WORK_MS) / limit / 6000;

    it('all of ten slots are used for short work, with a call a turn, and each process gets its share', async () => {
      for (const seed of [1, 2]) {
        Math.random = sequence(seed);
        const fleet = new Fleet(slots(10), [0, 0, 0]);
        await fleet.keepWorking([20, 20, 20], () => WORK_MS, 8000);
        expect(used(fleet, 10), `seed ${seed}`).to.be.above(0.9);
        for (const process of [0, 1, 2]) expect(fleet.shareOf(process, 2000)).to.be.within(0.8, 1.2);
        expect(fleet.calls / fleet.grants.length).to.be.at.most(1.2);
      }
    });

    for (const limit of [2, 4, 10]) {
      it(`tenants get equal parts of ${limit} shared slots for short work, which are all used, with few calls`, async () => {
        for (const seed of limit === 10 ? [1] : [1, 2]) {
          Math.random = sequence(seed);
          const fleet = new Fleet({ ...slots(limit), share: 'tenant' }, [0, 0, 0]);
          const crew = (process: number, tenant: string) => ({
            process,
            key: { key: 'k', tenant },
            count: 20,
          });
          const crews = [crew(0, 'a'), crew(0, 'b'), crew(1, 'b'), crew(2, 'b')];
          await fleet.keepCrewsWorking(crews, () => WORK_MS, 8000);
          const grants = fleet.grants.filter(({ went }) => went > 2000);
          const ofA = grants.filter(({ key }) => (key as Record<string, string>)['tenant'] === 'a').length;
          expect((grants.length - ofA) / ofA, `seed ${seed}`).to.be.within(0.9, 1.1);
          expect(used(fleet, limit), `seed ${seed}`).to.be.above(0.9);
          expect(fleet.calls / fleet.grants.length).to.be.at.most(2);
        }
      });
    }

    it('forty tenants get equal parts of shared slots in four processes, which are all used, with few calls', async () => {
      const fleet = new Fleet({ ...slots(4), share: 'tenant' }, [0, 0, 0, 0]);
      const crews = Array.from({ length: 160 }, (_, i) => ({
        process: i % 4,
        key: { key: 'k', tenant: `t${i >> 2}` },
        count: 1,
      }));
      await fleet.keepCrewsWorking(crews, steady, 9000);
      const turns = new Map<string, number>();
      for (const { key } of fleet.grants) {
        const { tenant } = key as { tenant: string };
        turns.set(tenant, (turns.get(tenant) ?? 0) + 1);
      }
      const { length } = fleet.grants;
      expect(turns.size).to.equal(40);
      for (const count of turns.values()) expect((count * 40) / length).to.be.within(0.8, 1.2);
      expect(fleet.calls / length).to.be.below(5);
      expect((length * 150) / 4 / 9000).to.be.above(0.85);
    });

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
