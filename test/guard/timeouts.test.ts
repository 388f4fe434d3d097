import assert from 'node:assert/strict';
import fc from 'fast-check';
import { performance } from '../../src/common/real-time.js';
import { newCall, type Subject } from '../../src/contract/store.js';
import { Timeouts, type Question } from '../../src/limiter/guard/question.js';
import { runs } from '../support/random.js';

const TIMEOUT_MS = 20;

const NEVER = new Promise<never>(() => {});

/** The parts of a question that the timeouts use. The store never answers. */
const question = (expire: Question<Subject, never>['expire'], until = 0) =>
  ({ call: { ...newCall(), until }, expire }) as Question<Subject, never>;

describe('timeouts', () => {
  it('keep the process alive as long as a call is awaited', async () => {
    const told: string[] = [];
    const timer = {
      ref: () => told.push('ref'),
      unref: () => told.push('unref'),
    } as unknown as NodeJS.Timeout;
    const timeouts = new Timeouts(TIMEOUT_MS, undefined, () => timer);
    const calls = Array.from({ length: 2 }, () => question(() => {}));
    for (let i = 0; i < 2; i++) {
      for (const each of calls) timeouts.wait(each, NEVER);
      let isIdle = false;
      void timeouts.idle().then(() => (isIdle = true));
      timeouts.finish(calls[0]!);
      await new Promise(setImmediate);
      assert.equal(isIdle, false);
      timeouts.finish(calls[1]!);
      await new Promise(setImmediate);
      assert.equal(isIdle, true);
    }
    // The first timer keeps the process alive by default.
    assert.deepEqual(told, ['unref', 'ref', 'unref']);
    await timeouts.idle();
  });

  it('expire only the questions without an answer, in the order of the questions', () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(fc.option(fc.nat(1000), { nil: undefined }), { maxLength: 30 }),
        async (plan) => {
          const timeouts = new Timeouts(TIMEOUT_MS);
          const expired: number[] = [];
          const calls = plan.map((_, i) =>
            question(({ code }) => {
              assert.equal(code, 'HEADGATE_STORE_TIMEOUT');
              expired.push(i);
            }),
          );
          for (const call of calls) timeouts.wait(call, NEVER);
          // In the order of their numbers. Calls without a number stall.
          const stalled = [...plan.keys()].filter((i) => plan[i] === undefined);
          const settled = [...plan.keys()].filter((i) => !stalled.includes(i));
          for (const i of settled.sort((a, b) => plan[a]! - plan[b]!)) {
            const call = calls[i]!;
            timeouts.finish(call);
            // No reference remains from the calls that stall.
            assert.ok(!call.previous && !call.next && !calls.some((other) => other.next === call));
          }
          await timeouts.idle();
          assert.deepEqual(expired, stalled);
        },
      ),
      runs('memory', 40, 40),
    ));

  it('are armed anew for the rest of the next, however long the process has run', async () => {
    const { now } = performance;
    // Longer than a timer can be: a timer for the absolute time instead of the difference would never fire, or at once.
    let time = 2 ** 33 + 0.3;
    const armed: number[] = [];
    let fire = (): void => {};
    const expired: string[] = [];
    const wait = (name: string): void =>
      timeouts.wait(
        question(() => void expired.push(name)),
        NEVER,
      );
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
    const timeouts = new Timeouts(TIMEOUT_MS, () => TIMEOUT_MS, startTimer);
    try {
      wait('first');
      time += 8;
      wait('second');
      await pass(TIMEOUT_MS - 8);
      assert.deepEqual(expired, ['first']);
      // A timer may fire a little early.
      await pass(7.8);
      assert.deepEqual(expired, ['first']);
      await pass(1);
      assert.deepEqual(expired, ['first', 'second']);
      assert.deepEqual(armed, [TIMEOUT_MS, 8, 1]);
    } finally {
      performance.now = now;
    }
  });

  it('begin when a call is written, wait longer before that, and end at the given moment', async () => {
    const { now } = performance;
    let time = 1000.5;
    performance.now = () => time;
    const armed: number[] = [];
    let fire = (): void => {};
    const startTimer = (run: () => void, ms: number) => {
      armed.push(ms);
      fire = run;
      return { ref() {}, unref() {} } as NodeJS.Timeout;
    };
    const errors: string[] = [];
    const call = (until: number) =>
      question(({ message }) => void errors.push(/ (\d+ ms)/.exec(message)![1]!), until);
    try {
      for (const [at, isWrittenOverdue, isWaitingOverdue] of [
        // In an idle process a timer may be 5 ms late.
        [1020.5, false, false],
        [1025.4, false, false],
        [1025.5, true, false],
        [1105.4, true, false],
        [1105.5, true, true],
      ] as const) {
        time = 1000.5;
        const finished = new Timeouts(TIMEOUT_MS, () => 100, startTimer);
        const questions = [call(1020.5), call(0)];
        for (const each of questions) finished.wait(each, NEVER);
        time = at;
        assert.deepEqual(
          questions.map((each) => finished.finish(each)),
          [isWrittenOverdue, isWaitingOverdue],
        );
      }
      time = 1000.5;
      armed.length = 0;
      const timeouts = new Timeouts(TIMEOUT_MS, () => 100, startTimer);
      for (const each of [call(1020.5), call(0)]) timeouts.wait(each, NEVER);
      for (const at of [1020, 1020.5, 1100, 1100.5]) {
        time = at;
        fire();
        await new Promise(setImmediate);
      }
      assert.deepEqual(errors, [`${TIMEOUT_MS} ms`, '100 ms']);
      // Never longer than the time of a call that is written meanwhile.
      assert.deepEqual(armed, [TIMEOUT_MS, 1, TIMEOUT_MS, 1]);
    } finally {
      performance.now = now;
    }
  });
});
