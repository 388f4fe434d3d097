import assert from 'node:assert/strict';
import fc from 'fast-check';
import { performance } from '../../src/common/real-time.js';
import type { Subject } from '../../src/contract/store.js';
import { Timeouts, type Awaited } from '../../src/stores/guard/timeouts.js';
import { runs } from '../support/random.js';

const MS = 20;

// No store says when it wrote it.
const subject = {} as Subject;

describe('timeouts', () => {
  it('expire what was not settled, and nothing else, in the order in which it was added', () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(fc.option(fc.nat(1000), { nil: undefined }), { maxLength: 30 }),
        async (plan) => {
          const timeouts = new Timeouts(MS);
          const expired: number[] = [];
          const calls = plan.map((_, i): Awaited & { i: number } => ({
            i,
            subject,
            asked: 0,
            open: false,
            previous: undefined,
            next: undefined,
            expire: ({ code }) => {
              assert.equal(code, 'HEADGATE_STORE_TIMEOUT');
              expired.push(i);
            },
          }));
          for (const call of calls) timeouts.add(call);
          // In the order of their numbers; what has none stalls.
          const settled = calls
            .filter(({ i }) => plan[i] !== undefined)
            .sort((a, b) => plan[a.i]! - plan[b.i]!);
          for (const call of settled) {
            assert.equal(timeouts.settle(call), true);
            assert.equal(timeouts.settle(call), false);
            // Nothing of it is kept for those that stall.
            assert.ok(!call.previous && !call.next && !calls.some((other) => other.next === call));
          }
          await timeouts.idle();
          const stalled = calls.filter(({ i }) => plan[i] === undefined);
          assert.deepEqual(
            expired,
            stalled.map(({ i }) => i),
          );
          for (const call of stalled) assert.equal(timeouts.settle(call), false);
        },
      ),
      runs('memory', 40, 40),
    ));

  it('are armed anew for what is left of the next, however long the process has run', async () => {
    const { now } = performance;
    // Longer than a timer can be: whoever takes a moment for a time waits for ever, or not at all.
    let time = 2 ** 33 + 0.3;
    const armed: number[] = [];
    let fire = (): void => {};
    const expired: string[] = [];
    const await_ = (name: string): Awaited => ({
      ...{ subject, asked: 0, open: false, previous: undefined, next: undefined },
      expire: () => expired.push(name),
    });
    const pass = async (ms: number): Promise<void> => {
      time += ms;
      fire();
      await new Promise(setImmediate);
    };
    performance.now = () => time;
    const startTimer = (run: () => void, ms: number) => {
      armed.push(ms);
      fire = run;
      return { ref() {}, unref() {} } as NodeJS.Timeout;
    };
    try {
      const timeouts = new Timeouts(MS, () => MS, startTimer);
      timeouts.add(await_('first'));
      time += 8;
      timeouts.add(await_('second'));
      await pass(MS - 8);
      assert.deepEqual(expired, ['first']);
      // A timer may come a little early.
      await pass(7.8);
      assert.deepEqual(expired, ['first']);
      await pass(1);
      assert.deepEqual(expired, ['first', 'second']);
      assert.deepEqual(armed, [MS, 8, 1]);
    } finally {
      performance.now = now;
    }
  });
});
