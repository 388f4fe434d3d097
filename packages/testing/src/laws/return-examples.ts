import type { Algorithm, Decision } from 'headgate';
import { drains, plainPolicy } from '../algorithms.js';
import { expectEqual, expectFields } from '../expect.js';
import type { Suite } from '../subject.js';

/** Examples of law 13 that random traces rarely contain. */
export function examplesOfReturn(suite: Suite): void {
  for (const algorithm of suite.quotas) {
    const plain = (limit: number) => plainPolicy(algorithm, limit);

    suite.add(`${algorithm}: after a reset, a refund gives back nothing of later charges`, async (lab) => {
      for (const later of [0, 1]) {
        const { clock, limiter } = await lab.open(plain(10));
        const mine = await limiter.consume('k', { cost: 10 });
        clock.now += later;
        await limiter.reset('k');
        const others = await limiter.consume('k', { cost: 10 });
        await mine.refund();
        expectFields('the old charge given back', await limiter.peek('k'), { remaining: 0 });
        await others.refund();
        expectFields('the new charge given back', await limiter.peek('k'), { remaining: 10 });
      }
    });

    suite.add(
      `${algorithm}: a charge of all remaining units, or more, is given back completely`,
      async (lab) => {
        for (const most of [100, 130]) {
          const { limiter } = await lab.open(plain(100));
          const decision = await limiter.consume('k');
          await decision.settle(most);
          expectFields(`settled at ${most}`, await limiter.peek('k'), { remaining: 0 });
          await decision.settle(10);
          expectEqual('charged', decision.charged, 10);
          expectFields('settled at 10', await limiter.peek('k'), { remaining: 90 });
        }
      },
    );

    if (drains(plain(1))) ofBucket(suite, algorithm);
    else ofDebts(suite, algorithm);
  }

  suite.add('a reset also covers the tiers', async (lab) => {
    const { limiter } = await lab.open({ limit: 5, window: 60_000 });
    const tier = limiter.compile([{ algorithm: 'token-bucket', limit: 10, window: 60_000 }]);
    await limiter.decide('k', 10, tier);
    await limiter.reset('k');
    expectFields('the tier', await limiter.decide('k', 0, tier), { remaining: 10 });
  });

  if (suite.algorithms.includes('sliding-log')) ofLog(suite);
}

function ofBucket(suite: Suite, algorithm: Algorithm): void {
  suite.add(
    `${algorithm}: the drained part of several charges is gone, whichever charge is given back`,
    async (lab) => {
      for (const later of [0, 1]) {
        const { clock, limiter } = await lab.open(plainPolicy(algorithm, 100, 100_000));
        const first = await limiter.consume('k', { cost: 50 });
        clock.now += later;
        const second = await limiter.consume('k', { cost: 50 });
        await first.cancel();
        clock.now += 50_000;
        await limiter.consume('k', { cost: 100 });
        await second.cancel();
        expectFields('after both are given back', await limiter.peek('k'), { remaining: 0 });
      }
    },
  );

  suite.add(`${algorithm}: a reset also counts if there was nothing to reset`, async (lab) => {
    const { limiter } = await lab.open(plainPolicy(algorithm, 5, 10_000));
    const mine = await limiter.consume('k', { cost: 3 });
    await limiter.refund('k', 3);
    await limiter.reset('k');
    await limiter.consume('k', { cost: 3 });
    await mine.cancel();
    expectFields('after the old charge is given back', await limiter.peek('k'), { remaining: 2 });
  });
}

/** A bucket keeps a debt of at most one window, and forgets anything beyond. */
function ofDebts(suite: Suite, algorithm: Algorithm): void {
  suite.add(`${algorithm}: two debts are given back independently`, async (lab) => {
    const { limiter } = await lab.open(plainPolicy(algorithm, 10, 60_000));
    const [one, two] = [await limiter.consume('k'), await limiter.consume('k')];
    await one.settle(1_000);
    await two.settle(12);
    await one.settle(0);
    expectFields('12 are left', await limiter.peek('k'), { remaining: 0 });
    await two.settle(9);
    expectFields('9 are left', await limiter.peek('k'), { remaining: 1 });
  });
}

function ofLog(suite: Suite): void {
  suite.add('sliding-log: the units of the charge are given back, not the oldest', async (lab) => {
    const { clock, limiter } = await lab.open(plainPolicy('sliding-log', 5, 1_000));
    await limiter.consume('k');
    clock.now += 900;
    await (await limiter.consume('k')).cancel();
    clock.now += 200;
    expectFields('once the older has left', await limiter.peek('k'), { remaining: 5 });
  });

  suite.add('sliding-log: gives back a unit from anywhere in a long log, and moves no other', async (lab) => {
    const { clock, limiter } = await lab.open(plainPolicy('sliding-log', 5_000, 60_000));
    const charged: Decision[] = [];
    for (let i = 0; i < 2_500; i++) {
      clock.now += i % 3 === 0 ? 0 : 1;
      charged.push(await limiter.consume('k', { cost: 2 }));
    }
    expectFields('a full log', await limiter.peek('k'), { remaining: 0 });
    for (const [i, which] of [0, 2_499, 700, 1_900, 1].entries()) {
      await charged[which]!.settle(1);
      expectFields(`${i + 1} given back`, await limiter.peek('k'), { remaining: i + 1 });
    }
    expectFields('the last', await limiter.peek('k', { cost: 0 }), { resetAfterMs: 60_000 });
    clock.now += 60_000 - 1;
    expectFields('when all but the last have left', await limiter.peek('k'), { remaining: 5_000 - 3 });
  });
}
