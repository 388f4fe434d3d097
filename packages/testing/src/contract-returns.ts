import type { Algorithm } from 'headgate';
import { countsSlots, plainPolicy as plain } from './algorithms.js';
import { expectEqual, expectFields } from './expect.js';
import type { Suite } from './subject.js';

/** Examples of refunds and later charges that every store must handle. */
export function contractOfReturns(suite: Suite): void {
  for (const algorithm of suite.algorithms) {
    if (countsSlots(plain(algorithm))) contractOfSlots(suite, algorithm);
    else contractOf(suite, algorithm);
  }
}

function contractOf(suite: Suite, algorithm: Algorithm): void {
  suite.add(`${algorithm}: gives a charge back, once, and no more than there is`, async (lab) => {
    const { limiter } = await lab.open(plain(algorithm, 6));
    const remains = async (what: string, remaining: number) =>
      expectFields(what, await limiter.peek('key'), { remaining });
    const first = await limiter.consume('key', { cost: 2 });
    await limiter.consume('key', { cost: 3 });
    await first.refund();
    await remains('after a refund of 2 of 5', 3);
    await first.refund();
    await remains('after the same refund again', 3);
    await limiter.refund('key', 1);
    await remains('after a refund of 1 of 3', 4);
    await limiter.refund('key', 100);
    await remains('after a refund of more than there is', 6);
  });

  suite.add(`${algorithm}: gives back nothing of a window that is over`, async (lab) => {
    const { clock, limiter } = await lab.open(plain(algorithm));
    const last = await limiter.consume('key');
    clock.now += last.resetAfterMs;
    await limiter.consume('key');
    await last.refund();
    expectFields('after the refund', await limiter.peek('key'), { remaining: 2 });
  });

  suite.add(`${algorithm}: charges the real cost of a request`, async (lab) => {
    const { limiter } = await lab.open(plain(algorithm, 6));
    const decision = await limiter.consume('key', { cost: 2 });
    await decision.settle(5);
    expectFields('settled at 5 instead of 2', await limiter.peek('key'), { remaining: 1 });
    await decision.settle(1);
    expectFields('settled at 1 instead of 5', await limiter.peek('key'), { remaining: 5 });
  });

  suite.add(
    `${algorithm}: charges beyond the remaining units, for no longer than the window`,
    async (lab) => {
      const { clock, limiter } = await lab.open(plain(algorithm));
      await (await limiter.consume('key')).settle(50);
      const { resetAfterMs, ...owing } = await limiter.peek('key');
      expectFields('in debt', owing, { allowed: false, remaining: 0 });
      clock.now += resetAfterMs;
      expectFields('afterwards', await limiter.peek('key'), { allowed: true, remaining: 3 });
    },
  );
}

function contractOfSlots(suite: Suite, algorithm: Algorithm): void {
  suite.add(`${algorithm}: holds slots until they are released or their lease ends`, async (lab) => {
    const { clock, limiter } = await lab.open(plain(algorithm, 2));
    const remains = async (what: string, remaining: number) =>
      expectFields(what, await limiter.peek('key'), { remaining });
    const [first, second] = [await limiter.consume('key'), await limiter.consume('key')];
    expectEqual('a release', await first.release(), true);
    expectEqual('the same release again', await first.release(), false);
    await remains('one released', 1);
    clock.now += 59_999;
    expectEqual('a renewal', await second.renew(), true);
    clock.now += 59_999;
    await remains('1 ms before the end of the renewed lease', 1);
    clock.now += 1;
    await remains('at the end of the lease', 2);
    expectEqual('a renewal after the end', await second.renew(), false);
    expectEqual('a release after the end', await second.release(), false);
  });

  suite.add(`${algorithm}: releases the slots of one request, and no others`, async (lab) => {
    const { limiter } = await lab.open(plain(algorithm, 6));
    const two = await limiter.consume('key', { cost: 2 });
    const three = await limiter.consume('key', { cost: 3 });
    await two.release();
    expectFields('2 of 5 released', await limiter.peek('key'), { remaining: 3 });
    await three.release();
    expectFields('all released', await limiter.peek('key'), { remaining: 6 });
  });
}
