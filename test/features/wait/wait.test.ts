import { expect } from 'chai';
import fc from 'fast-check';
import {
  createLimiter,
  HeadgateError,
  type CreateLimiterOptions,
  type Decision,
  type Limiter,
  type Store,
} from 'headgate';
import { onAbort } from '../../../src/common/abort.js';
import type { LimiterDecision } from '../../../src/limiter/decision.js';
import { HoldQueue, holdRequestOf } from '../../../src/limiter/waiting/hold-queue.js';
import { WaitingRoom } from '../../../src/limiter/waiting/waiting-room.js';
import { idsOf } from '../../../src/contract/dimension-sets.js';
import { subjectOf } from '../../../src/contract/dimensions.js';
import { runs } from '../../support/random.js';
import { waitRequest } from '../../support/requests.js';
import { countedServer } from '../../support/counted-server.js';
import { freshPrefix, limiterOn, memory, START, stores } from '../../support/stores.js';
import { TestTiming } from '../../support/timing.js';
import { around } from '../../support/around.js';

interface Wish {
  key?: string;
  cost?: number;
  timeout?: number;
  signal?: AbortSignal;
  priority?: number;
  hopes?: boolean;
}

/**
 * A limiter and a waiting room on a clock of the test, with a log of the events.
 *
 * @param distance the time of a message to the store, ms; 0: a store in this process without other users
 */
function setup(options: CreateLimiterOptions, most = 100, distance = 0, store = memory) {
  const timing = new TestTiming();
  const limiter = limiterOn(store(timing.clock), options);
  const passed = () => distance > 0 && new Promise<void>((resolve) => timing.after(distance, resolve));
  const queue = new HoldQueue(most, most, timing);
  let calls = 0;
  let together = false;
  const room = new WaitingRoom(most, most, timing, {
    hasPeers: distance > 0,
    decide: async ({ key, cost, set, peek }) => {
      // Questions of the same moment count as a single call.
      if (!together) calls++;
      together = true;
      // Endless questions would keep the test from going on.
      expect(calls).to.be.below(10_000);
      await Promise.resolve();
      together = false;
      await passed();
      const decision = peek ? limiter.peek(key, { cost }) : limiter.decide(key, cost, set);
      await passed();
      return (await decision) as LimiterDecision;
    },
    hold: async (decision, signal) => {
      const outcome = await queue.hold(holdRequestOf(decision), signal, { isLast: true });
      if (outcome === 'turn') return decision;
      await decision.cancel();
      throw new HeadgateError('HEADGATE_QUEUE_FULL', outcome);
    },
  });
  const log: [name: string, outcome: string, at: number][] = [];
  const start = (name: string, wish: Wish = {}) => {
    const { key = 'k', ...terms } = wish;
    void room.wait(waitRequest(key, limiter.set, terms), [key]).then(
      () => log.push([name, 'admitted', timing.now()]),
      (error: HeadgateError) => log.push([name, error.code, timing.now()]),
    );
  };
  /** The outcomes as text, from the first or a later one on. */
  const told = (since = 0) =>
    log
      .slice(since)
      .map(([name, outcome, at]) => `${name}${outcome === 'admitted' ? '' : ` ${outcome}`} at ${at}`)
      .join(', ');
  return { timing, limiter, room, log, told, start, calls: () => calls };
}

const perSecond = { algorithm: 'token-bucket', limit: 10, window: '1s', burst: 2 } as const;

describe('waiting, in the test’s time', () => {
  it('admits in the order of arrival, as soon as the quota allows, and asks for all later requests together', async () => {
    const { timing, told, start, calls, room } = setup(perSecond);
    for (const name of ['a', 'b', 'c', 'd', 'e']) start(name);
    await timing.advance(1000);
    expect(told()).to.equal('a at 0, b at 0, c at 100, d at 200, e at 300');
    expect(calls()).to.equal(2);
    expect(room.size).to.equal(0);
    expect(timing.timers).to.equal(0);
  });

  it('lets no smaller cost overtake', async () => {
    const { timing, told, start } = setup({ limit: 10, window: '10s', algorithm: 'fixed-window' });
    start('first', { cost: 8 });
    start('large', { cost: 8 });
    start('small', { cost: 1 });
    await timing.advance(9_999);
    expect(told()).to.equal('first at 0');
    await timing.advance(1);
    expect(told(1)).to.equal('large at 10000, small at 10000');
  });

  it('serves the higher priority first, and equals in the order of arrival', async () => {
    const { timing, log, start } = setup({ limit: 1, window: 100, algorithm: 'fixed-window' });
    start('first', { priority: -5 });
    await timing.advance(0);
    start('a');
    start('b');
    await timing.advance(10);
    start('urgent', { priority: 5 });
    start('c');
    start('idle', { priority: -1 });
    await timing.advance(20);
    start('urgent, too', { priority: 5 });
    await timing.advance(1000);
    const names = ['first', 'urgent', 'urgent, too', 'a', 'b', 'c', 'idle'];
    expect(log).to.deep.equal(names.map((name, i) => [name, 'admitted', 100 * i]));
  });

  it('a smaller cost of a higher priority does not wait for the units of the larger cost that it passes', async () => {
    const { timing, told, start } = setup({ policies: 'token-bucket 10/10s' });
    start('all but two', { cost: 8 });
    await timing.advance(0);
    start('large', { cost: 9 });
    await timing.advance(100);
    start('urgent', { cost: 2, priority: 5 });
    start('urgent, too', { cost: 1, priority: 5 });
    await timing.advance(20_000);
    expect(told()).to.equal('all but two at 0, urgent at 100, urgent, too at 1000, large at 10000');
  });

  it('a higher priority takes neither a turn nor the place of a request that has a turn', async () => {
    const { timing, told, start, room } = setup({ ...perSecond, burst: 1 }, 3);
    for (const name of ['a', 'b', 'c', 'd']) start(name);
    await timing.advance(0);
    expect(room.size).to.equal(3);
    // The line is full.
    start('urgent', { priority: 5 });
    await timing.advance(1000);
    expect(told()).to.equal('a at 0, urgent HEADGATE_QUEUE_FULL at 0, b at 100, c at 200, d at 300');
    expect(room.size).to.equal(0);
  });

  it('any priorities: all requests are served, the highest priority first, and none is forgotten', async () => {
    const step = fc.record({ wait: fc.nat(150), priority: fc.integer({ min: -2, max: 2 }) });
    const property = fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
      const { timing, log, start, room } = setup({ limit: 1, window: 100, algorithm: 'fixed-window' });
      const came: number[] = [];
      for (const [i, { wait, priority }] of steps.entries()) {
        came.push(timing.now());
        start(String(i), { priority });
        await timing.advance(wait);
      }
      await timing.advance(5000);
      expect(log).to.have.length(steps.length);
      expect(room.size).to.equal(0);
      expect(timing.timers).to.equal(0);
      log.forEach(([name, , at], n) => {
        const { priority } = steps[Number(name)]!;
        // A request that went later had not arrived, is not more urgent, or arrived at the moment of this request's call.
        for (const [other] of log.slice(n + 1))
          expect(came[Number(other)]! >= at || steps[Number(other)]!.priority <= priority).to.equal(true);
      });
    });
    await fc.assert(property, runs('memory', 100, 0));
  });

  it('keeps the lines of keys apart', async () => {
    const { timing, log, start } = setup({ ...perSecond, burst: 1 });
    for (const key of ['x', 'x', 'y']) start(key, { key });
    await timing.advance(50);
    expect(log.map(([name]) => name)).to.deep.equal(['x', 'y']);
  });

  it('gives up at once if the quota comes too late, and passes the turn to the next request', async () => {
    const { timing, told, start, limiter, room } = setup({ policies: 'fixed-window 10/10s' });
    start('first', { cost: 8 });
    start('late', { cost: 8, timeout: 9_000 });
    start('small', { cost: 2 });
    await timing.advance(0);
    expect(told()).to.equal('first at 0, late HEADGATE_WAIT_TIMEOUT at 0, small at 0');
    const error: unknown = await room
      .wait(waitRequest('k', limiter.set, { cost: 8, timeout: 100 }), ['k'])
      .catch((reason: unknown) => reason);
    expect(error).to.have.nested.property('decision.retryAfterMs', 10_000);
    expect((await limiter.peek('k')).remaining).to.equal(0);
    expect(timing.timers).to.equal(0);
  });

  for (const distance of [0, 3]) {
    const who = distance > 0 ? 'another process' : 'this process';
    it(`any charges: a request is admitted as soon as ${who} has given back enough, otherwise denied at its timeout`, async () => {
      const charge = fc.record({
        cost: fc.integer({ min: 1, max: 4 }),
        back: fc.integer({ max: 9_000, min: 0 }),
      });
      const property = fc.asyncProperty(
        fc.array(charge, { minLength: 3, maxLength: 8 }),
        fc.integer({ min: 1, max: 10 }),
        fc.integer({ min: 1, max: 8_000 }),
        fc.constantFrom('fixed-window', 'sliding-window', 'sliding-log', 'gcra'),
        async (charges, cost, timeout, algorithm) => {
          const { timing, log, start, limiter, room } = setup(
            { algorithm, limit: 10, window: '30d' },
            9,
            distance,
          );
          let left = 10;
          let due = Infinity;
          const returns: { cost: number; back: number }[] = [];
          for (const each of charges) {
            const decision = await limiter.consume('k', { cost: each.cost });
            if (!decision.allowed) continue;
            left -= each.cost;
            returns.push(each);
            timing.after(
              each.back,
              () => void decision.refund().then(() => distance > 0 || room.wake(['k'])),
            );
          }
          if (left >= cost) return;
          for (const each of returns.sort((a, b) => a.back - b.back))
            if ((left += each.cost) >= cost) due = Math.min(due, each.back);
          start('a', { cost, timeout, hopes: true });
          await timing.advance(20_000);
          const [[, outcome, at]] = log as [[string, string, number]];
          // The other process is asked once a second.
          const delay = distance > 0 ? 1000 + 6 * distance : 0;
          if (due + delay < timeout) {
            expect(outcome).to.equal('admitted');
            expect(at).to.be.within(due, due + delay);
          } else if (due > timeout) {
            expect(outcome).to.equal('HEADGATE_WAIT_TIMEOUT');
            // A question on its way ends first.
            expect(at).to.be.within(timeout, timeout + 2 * distance);
          }
          expect((await limiter.peek('k')).remaining).to.equal(10 - (outcome === 'admitted' ? cost : 0));
          expect(timing.timers).to.equal(0);
        },
      );
      await fc.assert(property, runs('memory', 100, 0));
    });
  }

  it('gives up at the timeout behind others, with the last decision', async () => {
    const { timing, told, start } = setup({ ...perSecond, limit: 1, burst: 1 });
    start('a');
    start('b');
    start('c', { timeout: 500 });
    await timing.advance(5_000);
    expect(told()).to.equal('a at 0, c HEADGATE_WAIT_TIMEOUT at 500, b at 1000');
    expect(timing.timers).to.equal(0);
  });

  it('leaves at an abort, first or not, and asks for the next request', async () => {
    const { timing, told, start, calls } = setup({ ...perSecond, limit: 1, burst: 1 });
    const [first, second] = [new AbortController(), new AbortController()];
    start('a');
    start('b', { signal: first.signal });
    start('c', { signal: second.signal });
    start('d');
    await timing.advance(400);
    second.abort();
    first.abort();
    await timing.advance(600);
    expect(told()).to.equal('a at 0, c HEADGATE_ABORTED at 400, b HEADGATE_ABORTED at 400, d at 1000');
    expect(calls()).to.equal(4);
  });

  it('does not begin with an aborted signal, nor beyond its bound', async () => {
    const { timing, log, start, calls } = setup({ ...perSecond, burst: 1 }, 2);
    start('aborted', { signal: AbortSignal.abort() });
    await timing.advance(0);
    expect(calls()).to.equal(0);
    for (const name of ['a', 'b', 'c', 'd']) start(name);
    await timing.advance(1000);
    expect(log.map(([name, outcome]) => `${name} ${outcome}`)).to.deep.equal([
      'aborted HEADGATE_ABORTED',
      'a admitted',
      'd HEADGATE_QUEUE_FULL',
      'b admitted',
      'c admitted',
    ]);
  });

  it('sleeps through a ban, or gives up if it is longer', async () => {
    const { timing, log, told, start, limiter, calls } = setup({ ...perSecond, ban: {} });
    await limiter.ban('k', '1h');
    start('patient');
    await timing.advance(3_599_999);
    expect(log).to.deep.equal([]);
    expect(calls()).to.equal(1);
    await timing.advance(1);
    expect(told()).to.equal('patient at 3600000');
    await limiter.ban('k', '1h');
    start('hasty', { timeout: 1000 });
    await timing.advance(0);
    expect(log[1]).to.deep.equal(['hasty', 'HEADGATE_WAIT_TIMEOUT', 3_600_000]);
  });

  it('waits for the policies that deny, and not for shadows beside them', async () => {
    const { timing, told, start, calls } = setup({
      policies: [
        { name: 'real', algorithm: 'token-bucket', limit: 1, window: '1s' },
        { name: 'watched', algorithm: 'fixed-window', limit: 1, window: '30d', shadow: true },
        { name: 'slots', algorithm: 'concurrency', limit: 1, lease: '30d', shadow: true },
      ],
    });
    for (const name of ['a', 'b', 'c']) start(name, { timeout: 5000 });
    await timing.advance(5000);
    expect(told()).to.equal('a at 0, b at 1000, c at 2000');
    // A call when the request is first in line, and a call when its turn has come.
    expect(calls()).to.equal(5);
  });

  it('asks for a slot more and more rarely, but at once when one is released', async () => {
    const { timing, told, start, limiter, calls, room } = setup({ policies: 'concurrency 1/1h' });
    const held = await limiter.consume('k');
    start('a');
    await timing.advance(60_000);
    // 10, 20, 40, ... 640 ms, then every second.
    expect(calls()).to.be.within(60, 68);
    await timing.advance(300);
    await held.release();
    room.wake(['k']);
    await timing.advance(0);
    expect(told()).to.equal('a at 60300');
    expect(timing.timers).to.equal(0);
  });

  it('asks once more if units are given back while it asks, however many', async () => {
    const { timing, told, limiter, room, start, calls } = setup({ policies: 'fixed-window 1/1h' });
    await limiter.consume('k');
    start('a');
    for (let i = 0; i < 3; i++) room.wake(['k']);
    await timing.advance(0);
    expect(calls()).to.equal(2);
    await limiter.refund('k');
    for (let i = 0; i < 3; i++) room.wake(['k']);
    await timing.advance(0);
    expect(told()).to.equal('a at 0');
    expect(calls()).to.equal(3);
    expect(timing.timers).to.equal(0);
  });

  it('asks for the next at once, without a timer between', async () => {
    const { timing, log, start } = setup(perSecond);
    for (const name of ['a', 'b']) start(name);
    await new Promise(setImmediate);
    expect(log.map(([name]) => name)).to.deep.equal(['a', 'b']);
    expect(timing.timers).to.equal(0);
  });

  it('sleeps even if a denial lasts a millisecond', async () => {
    const { timing, log, start, calls } = setup({ policies: 'sliding-log 1/1ms', warnings: false });
    for (const name of ['a', 'b']) start(name);
    await timing.advance(1);
    expect(log[1]).to.deep.equal(['b', 'admitted', 1]);
    expect(calls()).to.equal(3);
  });

  it('notices changes in each step between an answer and the sleep', async () => {
    for (let steps = 0; steps < 12; steps++) {
      const { timing, log, limiter, room, start } = setup({ policies: 'fixed-window 1/1h' });
      await limiter.consume('k');
      await limiter.consume('other');
      const abort = new AbortController();
      start('aborted', { signal: abort.signal });
      start('woken', { key: 'other' });
      for (let i = 0; i < steps; i++) await Promise.resolve();
      abort.abort();
      void limiter.refund('other');
      room.wake(['other']);
      await new Promise(setImmediate);
      const outcomes = Object.fromEntries(log.map(([name, outcome]) => [name, outcome]));
      expect(outcomes, `${steps} steps`).to.deep.equal({ aborted: 'HEADGATE_ABORTED', woken: 'admitted' });
      expect(timing.timers).to.equal(0);
    }
  });

  it('wakes a request with several keys by each of them, while requests wait', async () => {
    const { timing, log, told, limiter, room } = setup({ algorithm: 'fixed-window', limit: 1, window: '1h' });
    const wait = (name: string, ids = ['ip', 'org']) =>
      void room.wait(waitRequest('k', limiter.set), ids).then(
        () => log.push([name, 'admitted', timing.now()]),
        (error: HeadgateError) => log.push([name, error.code, timing.now()]),
      );
    wait('gone', ['ip', 'other org']);
    await timing.advance(0);
    for (const name of ['a', 'b', 'c']) wait(name);
    await timing.advance(0);
    for (const id of ['ip', 'org', 'ip']) {
      await limiter.refund('k');
      room.wake(['stranger', id]);
      await timing.advance(1);
    }
    expect(told()).to.equal('gone at 0, a at 0, b at 1, c at 2');
    expect(timing.timers).to.equal(0);
  });

  it('gives up a slot only at the timeout, whenever its lease would end', async () => {
    const { timing, told, start, limiter } = setup({ algorithm: 'concurrency', limit: 1, lease: '1h' });
    await limiter.consume('k');
    start('a', { timeout: 5_000 });
    await timing.advance(10_000);
    expect(told()).to.equal('a HEADGATE_WAIT_TIMEOUT at 5000');
  });

  it('waits longer than a timer can: 24.8 days', async () => {
    const day = 24 * 3_600_000;
    const { timing, log, start } = setup({ algorithm: 'fixed-window', limit: 1, window: '30d' });
    start('a');
    start('b');
    await timing.advance(31 * day);
    expect(log[1]).to.deep.equal(['b', 'admitted', 30 * day]);
  });

  for (const [name, policy, bound] of [
    ['a log', { algorithm: 'sliding-log', limit: 5, window: '1s' }, 5],
    ['a bucket', { algorithm: 'token-bucket', limit: 5, window: '1s' }, 10],
  ] as const) {
    for (const distance of [0, 3]) {
      const what = `${name}${distance > 0 ? ' that is far away, and that others use' : ''}`;
      it(`admits first come, first served, charges only the admitted, and leaves nothing behind: ${what}`, async () => {
        await fc.assert(
          fc.asyncProperty(
            fc.array(
              fc.record({
                after: fc.constantFrom(0, 0, 0, 30, 200, 1000),
                cost: fc.integer({ min: 1, max: 5 }),
                timeout: fc.constantFrom(Infinity, Infinity, 50, 400, 2_000),
                aborts: fc.option(fc.constantFrom(0, 10, 300)),
                others: fc.constantFrom(0, 0, 1, 4),
              }),
              { minLength: 1, maxLength: 20 },
            ),
            async (wishes) => {
              const { timing, log, start, limiter, room } = setup(policy, 100, distance);
              const due: number[] = [];
              const admitted: { at: number; cost: number }[] = [];
              for (const [i, { after, cost, timeout, aborts, others }] of wishes.entries()) {
                await timing.advance(after);
                due.push(timing.now() + timeout);
                const abort = new AbortController();
                if (aborts !== null) timing.after(aborts, () => abort.abort());
                start(String(i), { cost, timeout, signal: abort.signal });
                if (distance > 0) await limiter.consume('k', { cost: others });
              }
              await timing.advance(60_000);
              expect(log).to.have.length(wishes.length);
              const order = log.filter(([, outcome]) => outcome === 'admitted').map(([n]) => Number(n));
              expect(order).to.deep.equal([...order].sort((a, b) => a - b));
              for (const [n, outcome, at] of log) {
                expect(at).to.be.at.most(due[Number(n)]! + 2 * distance);
                // The store counts whole milliseconds.
                if (outcome === 'admitted')
                  admitted.push({ at: Math.floor(at), cost: wishes[Number(n)]!.cost });
              }
              for (const { at } of admitted) {
                const window = admitted.filter((other) => other.at > at - 1000 && other.at <= at);
                expect(window.reduce((sum, { cost }) => sum + cost, 0)).to.be.at.most(bound);
              }
              expect(room.size).to.equal(0);
              expect(timing.timers).to.equal(0);
              expect(await limiter.peek('k')).to.include({ remaining: 5, resetAfterMs: 0 });
            },
          ),
          runs('memory', 300, 0),
        );
      });
    }
  }

  it('asks for all simultaneous requests in two calls, whatever they cost, and in two more when there is room again', async () => {
    const { timing, log, start, calls, limiter, room } = setup(
      { algorithm: 'fixed-window', limit: 10_000, window: '1h' },
      5_000,
      2,
    );
    for (let i = 0; i < 1000; i++) start(String(i), { cost: 1 + (i % 2) });
    await timing.advance(20);
    expect(log.map(([name]) => Number(name))).to.deep.equal(Array.from({ length: 1000 }, (_, i) => i));
    expect(calls()).to.be.at.most(4);
    await limiter.consume('k', { cost: 8_500 });
    for (let i = 0; i < 1000; i++) start(String(i));
    await timing.advance(20);
    expect(room.size).to.equal(1000);
    const before = calls();
    await limiter.reset('k');
    room.wake(['k']);
    await timing.advance(1000);
    expect(log).to.have.length(2000);
    expect(calls() - before).to.be.at.most(10);
  });

  it('gives back the charge of a request that overtook an earlier one', async () => {
    let now = START;
    const { timing, log, start, limiter } = setup(
      { algorithm: 'fixed-window', limit: 3, window: '10ms' },
      100,
      3,
      () => memory(() => now),
    );
    await limiter.consume('k', { cost: 2 });
    // The window ends between two questions that are sent together.
    const { decide } = limiter;
    const answers: boolean[] = [];
    limiter.decide = function (this: Limiter, ...args) {
      now += 4;
      const decision = decide.apply(this, args) as LimiterDecision;
      answers.push(decision.allowed);
      return decision;
    };
    for (const name of ['a', 'b', 'c', 'd', 'e']) start(name);
    await timing.advance(12);
    expect(answers).to.deep.equal([true, false, true, true, true]);
    expect(log.map(([name]) => name)).to.deep.equal(['a']);
    expect((await limiter.peek('k')).remaining).to.equal(3);
    await timing.advance(100);
    expect(log.map(([name]) => name)).to.deep.equal(['a', 'b', 'c', 'd', 'e']);
  });

  it('only waiting requests take a place: an admitted request does not, a turn does', async () => {
    const { timing, log, start, room, limiter } = setup({ ...perSecond, limit: 100, burst: 3 }, 5);
    for (let i = 0; i < 20; i++) start(String(i));
    await timing.advance(0);
    expect(room.size).to.equal(5);
    await timing.advance(1000);
    const codes = log.map(([, outcome]) => outcome);
    expect(codes.filter((code) => code === 'admitted')).to.have.length(3 + 5);
    expect(codes.filter((code) => code === 'HEADGATE_QUEUE_FULL')).to.have.length(12);
    expect((await limiter.peek('k')).resetAfterMs).to.equal(0);
  });

  it('reserves its turn, and gives it back to the next request', async () => {
    const { timing, told, start, limiter, room } = setup({ ...perSecond, burst: 1 });
    const leave = new AbortController();
    start('a');
    start('b', { signal: leave.signal });
    start('c');
    await timing.advance(50);
    // No other request takes the reserved turns.
    expect(await limiter.peek('k')).to.include({ allowed: false, retryAfterMs: 250 });
    expect(room.size).to.equal(2);
    leave.abort();
    await timing.advance(0);
    expect(await limiter.peek('k')).to.include({ allowed: false, retryAfterMs: 150 });
    start('d');
    await timing.advance(1000);
    expect(told()).to.equal('a at 0, b HEADGATE_ABORTED at 50, c at 100, d at 200');
    expect(timing.timers).to.equal(0);
  });

  it('reserves no turn after its timeout, nor more than a second ahead', async () => {
    const { timing, log, start, limiter } = setup({ ...perSecond, window: '10s', limit: 100, burst: 1 });
    for (let i = 0; i < 20; i++) start(`hasty ${i}`, { timeout: 250 });
    await timing.advance(0);
    expect(await limiter.peek('k')).to.include({ retryAfterMs: 300 });
    for (let i = 0; i < 20; i++) start(`patient ${i}`);
    await timing.advance(0);
    expect((await limiter.peek('k')).retryAfterMs).to.be.within(800, 1100);
    expect(log.filter(([, outcome]) => outcome === 'HEADGATE_WAIT_TIMEOUT')).to.have.length(17);
    await timing.advance(10_000);
    expect(log.filter(([, outcome]) => outcome === 'admitted')).to.have.length(3 + 20);
  });

  it('reserves nothing beside slots, which it would hold until its turn', async () => {
    const { timing, log, start, limiter } = setup({
      policies: [
        { ...perSecond, name: 'bucket', burst: 1 },
        { name: 'slots', algorithm: 'concurrency', limit: 5, lease: '1h' },
      ],
    });
    for (const name of ['a', 'b']) start(name);
    await timing.advance(50);
    const remaining = (await limiter.peek('k')).policies.map((verdict) => verdict.remaining);
    expect(remaining).to.deep.equal([0, 4]);
    await timing.advance(50);
    expect(log.map(([, , at]) => at)).to.deep.equal([0, 100]);
  });

  it('notices within a second that another process has reset its key or ended its ban', async () => {
    for (const change of [
      (limiter: Limiter) => limiter.reset('k'),
      (limiter: Limiter) => limiter.unban('k'),
      (limiter: Limiter) => limiter.refund('k', 2),
    ]) {
      const { timing, log, start, limiter, calls } = setup(
        { algorithm: 'fixed-window', limit: 2, window: '1h', ban: {} },
        100,
        3,
      );
      if (change.toString().includes('unban')) await limiter.ban('k', '1h');
      else await limiter.consume('k', { cost: 2 });
      start('a');
      start('b');
      await timing.advance(10_500);
      expect(log).to.deep.equal([]);
      // One question a second, however many requests wait.
      expect(calls()).to.be.within(10, 12);
      await change(limiter);
      await timing.advance(1050);
      expect(log.map(([, outcome]) => outcome)).to.deep.equal(['admitted', 'admitted']);
    }
  });

  it('asks for a smaller cost once no denied request waits', async () => {
    const { timing, log, start } = setup({ algorithm: 'fixed-window', limit: 10, window: '1h' }, 1);
    start('first', { cost: 8 });
    await timing.advance(0);
    start('large', { cost: 8, timeout: 5 });
    await timing.advance(10);
    start('small', { cost: 2 });
    await timing.advance(0);
    expect(log.map(([name, outcome]) => `${name} ${outcome}`)).to.deep.equal([
      'first admitted',
      'large HEADGATE_WAIT_TIMEOUT',
      'small admitted',
    ]);
  });
});

/** A store whose answers to `decide` wait for the test. */
function slowStore(inner: Store) {
  const gates: (() => void)[] = [];
  const store = around(inner, {
    decide: async (query) => {
      const reply = await inner.decide(query);
      await new Promise<void>((resolve) => gates.push(resolve));
      return reply;
    },
  });
  const answer = async () => {
    for (let turns = 0; gates.length === 0; turns++) {
      if (turns > 1e6) throw new Error('No request reaches the store.');
      await new Promise(setImmediate);
    }
    gates.shift()!();
  };
  return { store, answer };
}

const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'admitted',
    (error: HeadgateError) => error.code,
  );

for (const [name, createStore] of Object.entries(stores)) {
  describe(`limiter.wait on ${name}`, () => {
    const quota = { algorithm: 'fixed-window', limit: 10, window: '1h' } as const;

    it('resolves to a decision that is charged, in order', async () => {
      const limiter = limiterOn(createStore(), { policies: 'token-bucket 100/1s burst 1' });
      const order: number[] = [];
      const decisions = await Promise.all(
        [1, 2, 3, 4].map(async (n) => {
          const decision = await limiter.wait('k');
          order.push(n);
          return decision;
        }),
      );
      expect(order).to.deep.equal([1, 2, 3, 4]);
      for (const decision of decisions) expect(decision).to.include({ allowed: true, charged: 1 });
    });

    it('denies no request that need not wait, however few may wait', async () => {
      const limiter = limiterOn(createStore(), { ...quota, limit: 100, maxWaitingPerKey: 5 });
      const waits = (n: number) => Array.from({ length: n }, () => codeOf(limiter.wait('k')));
      expect(await Promise.all(waits(90))).to.deep.equal(Array(90).fill('admitted'));
      const more = waits(20);
      expect((await Promise.all(more.slice(0, 10))).includes('HEADGATE_QUEUE_FULL')).to.be.false;
      expect(await Promise.all(more.slice(15))).to.deep.equal(Array(5).fill('HEADGATE_QUEUE_FULL'));
      expect(limiter.gauges.waiting).to.equal(5);
      await limiter.close();
      expect(await Promise.all(more.slice(10, 15))).to.deep.equal(Array(5).fill('HEADGATE_CLOSED'));
    });

    it('charges nothing when it is aborted while the store is asked', async () => {
      const inner = createStore();
      const { store, answer } = slowStore(inner);
      const limiter = limiterOn(store, { ...quota, name: 'x' });
      const abort = new AbortController();
      const code = codeOf(limiter.wait('k', { cost: 4, signal: abort.signal }));
      abort.abort();
      await answer();
      expect(await code).to.equal('HEADGATE_ABORTED');
      const look = limiter.peek('k');
      await answer();
      expect((await look).remaining).to.equal(10);
    });

    it('shows the denial of this request at the timeout, and not that of the request in front', async () => {
      const policies = [
        { ...quota, name: 'org', by: 'org' },
        { ...quota, name: 'account', by: 'account' },
      ] as const;
      const limiter = limiterOn(createStore(), { policies });
      await limiter.consume({ org: 'x', account: 'a' }, { cost: 8 });
      const denialOf = (account: string, cost: number, timeout: number): Promise<Decision> =>
        limiter.wait({ org: 'x', account }, { cost, timeout }).then(
          () => expect.fail('admitted'),
          ({ decision }: HeadgateError) => decision!,
        );
      const waits = [denialOf('a', 9, 400), denialOf('b', 5, 100), denialOf('b', 1, 100)];
      const [front, behind, small] = await Promise.all(waits);
      expect(front).to.include({ cost: 9, allowed: false });
      expect(behind).to.include({ cost: 5, allowed: false, reason: 'quota-exceeded' });
      expect(behind!.policies.map(({ key, remaining }) => [key, remaining])).to.deep.equal([
        ['x', 2],
        ['b', 10],
      ]);
      // The units were there, but a request in front waited for them.
      expect(small).to.include({ cost: 1, allowed: false });
    });

    it('charges nothing, and holds no slot, when the timeout or the end of the limiter comes first', async () => {
      const inner = createStore();
      const { store, answer } = slowStore(inner);
      const policies = [
        { ...quota, name: 'quota' },
        { algorithm: 'concurrency', limit: 1, lease: '1h', name: 'slots' },
      ] as const;
      const limiter = limiterOn(store, { policies, name: 'x' });
      const late = codeOf(limiter.wait('k', { timeout: 1 }));
      await new Promise((resolve) => setTimeout(resolve, 5));
      await answer();
      expect(await late).to.equal('HEADGATE_WAIT_TIMEOUT');
      const closed = codeOf(limiter.wait('k'));
      const behind = codeOf(limiter.wait('k'));
      const closing = limiter.close();
      await answer();
      await closing;
      expect(await closed).to.equal('HEADGATE_CLOSED');
      expect(await behind).to.equal('HEADGATE_CLOSED');
      expect(await codeOf(limiter.wait('k'))).to.equal('HEADGATE_CLOSED');
      const after = await limiterOn(inner, { policies, name: 'x' }).peek('k');
      expect(after.policies.map(({ remaining }) => remaining)).to.deep.equal([10, 1]);
    });

    it('rejects requests that can never be admitted at once', async () => {
      const limiter = limiterOn(createStore(), { ...quota, algorithm: 'token-bucket', burst: 5 });
      await limiter.consume('k', { cost: 5 });
      const waiting = limiter.wait('k');
      const error: unknown = await limiter.wait('k', { cost: 6 }).catch((reason: unknown) => reason);
      expect(error).to.include({ code: 'HEADGATE_DENIED' });
      expect(error).to.have.nested.property('decision.reason', 'cost-exceeds-capacity');
      const closing = codeOf(waiting);
      await limiter.close();
      expect(await closing).to.equal('HEADGATE_CLOSED');
    });

    it('goes on as soon as this process gives units back', async () => {
      const ways: ((limiter: Limiter, held: Decision) => Promise<unknown>)[] = [
        (_, held) => held.refund(),
        (_, held) => held.settle(3),
        (limiter) => limiter.refund('k', 5),
        (limiter) => limiter.reset('k'),
      ];
      for (const way of ways) {
        const limiter = limiterOn(createStore(), quota);
        const held = await limiter.consume('k', { cost: 10 });
        const waiting = limiter.wait('k', { cost: 4 });
        await limiter.peek('k');
        await way(limiter, held);
        expect((await waiting).allowed).to.be.true;
      }
      const banned = limiterOn(createStore(), { ...quota, ban: {} });
      await banned.ban('k', '1h');
      const waiting = banned.wait('k');
      await banned.peek('k');
      await banned.unban('k');
      expect((await waiting).allowed).to.be.true;
    });

    it('charges the cost at the moment of the call, whatever happens to its object later', async () => {
      const limiter = limiterOn(createStore(), quota);
      const held = await limiter.consume('k', { cost: 10 });
      const cost = { default: 9 };
      const waiting = limiter.wait('k', { cost });
      cost.default = 1;
      await held.refund();
      expect((await waiting).charged).to.equal(9);
    });

    it('is a semaphore with a concurrency policy', async () => {
      const limiter = limiterOn(createStore(), { algorithm: 'concurrency', limit: 2, lease: '1h' });
      let running = 0;
      let largest = 0;
      await Promise.all(
        Array.from({ length: 12 }, async () => {
          await using _slot = await limiter.wait('k');
          largest = Math.max(largest, ++running);
          for (let i = 0; i < 3; i++) await limiter.peek('k');
          await new Promise(setImmediate);
          running--;
        }),
      );
      expect(largest).to.equal(2);
      expect((await limiter.peek('k')).remaining).to.equal(2);
    });

    it('asks at once when a slot is released, and needs no timer for it', async () => {
      const limiter = limiterOn(createStore(), { algorithm: 'concurrency', limit: 1, lease: '1h' });
      const { setTimeout } = globalThis;
      // Polling calls never get a turn. The pause of a line after its last admission must not keep the process alive.
      globalThis.setTimeout = ((run: () => void, ms: number) =>
        ms > 5 && ms < 2000 ? setTimeout(run, 1e6).unref() : setTimeout(run, ms)) as never;
      try {
        for (const giveBack of ['release', 'cancel'] as const) {
          const held = await limiter.acquire('k');
          const order: number[] = [];
          const waits = [1, 2, 3].map(async (i) => {
            const slot = await limiter.wait('k');
            order.push(i);
            await slot[giveBack]();
          });
          await limiter.peek('k');
          expect(order).to.deep.equal([]);
          await held[giveBack]();
          await Promise.all(waits);
          expect(order).to.deep.equal([1, 2, 3]);
        }
      } finally {
        globalThis.setTimeout = setTimeout;
      }
    });

    it('is neither delayed nor refused by a shadow that would deny', async () => {
      const limiter = limiterOn(createStore(), {
        policies: [
          { name: 'real', algorithm: 'token-bucket', limit: 100, window: '1s', burst: 2 },
          { name: 'watched', ...quota, limit: 1, window: '30d', shadow: true },
          { name: 'slots', algorithm: 'concurrency', limit: 1, lease: '30d', shadow: true },
        ],
      });
      // More than the shadows ever admit.
      await limiter.consume('k', { cost: 2 });
      const decision = await limiter.wait('k', { cost: 2, timeout: '1h' });
      expect(decision.policies.map(({ allowed }) => allowed)).to.deep.equal([true, false, false]);
    });

    it('does not ban waiting keys', async () => {
      const limiter = limiterOn(createStore(), {
        ...{ algorithm: 'token-bucket', limit: 100, window: '1s', burst: 1 },
        ban: { after: 1 },
      });
      await limiter.wait('k');
      await limiter.wait('k');
      expect((await limiter.peek('k')).reason).to.not.equal('banned');
    });

    it('holds an admitted request until its turn, and gives its slot back if the turn is too late or cancelled', async () => {
      const limiter = limiterOn(createStore(), { policies: 'leaky-bucket 1/1h burst 1 max-delay 1d' });
      await limiter.wait('k');
      const late = await limiter.wait('k', { timeout: 100 }).catch((error: HeadgateError) => error);
      expect(late).to.include({ code: 'HEADGATE_WAIT_TIMEOUT' });
      const { decision } = late as HeadgateError;
      expect(decision).to.include({
        allowed: false,
        reason: 'quota-exceeded',
        delayMs: 0,
        policy: 'default',
      });
      expect(decision!.retryAfterMs).to.be.within(3_590_000, 3_600_000);
      const abort = new AbortController();
      const code = codeOf(limiter.wait('k', { signal: abort.signal }));
      while ((await limiter.peek('k')).resetAfterMs <= 3_600_000) await new Promise(setImmediate);
      abort.abort();
      expect(await code).to.equal('HEADGATE_ABORTED');
      expect((await limiter.peek('k')).resetAfterMs).to.be.at.most(3_600_000);
      await limiter.close();
    });
  });
}

describe('limiter.wait on Redis', () => {
  const counted = countedServer();

  it('asks for a thousand simultaneous requests with as few calls as `consume`', async () => {
    const limiter = limiterOn(counted.store(), { limit: 10_000, window: '1h', onStoreError: 'throw' });
    await limiter.wait('other');
    const all = (ask: () => Promise<unknown>) => () => Promise.all(Array.from({ length: 1000 }, () => ask()));
    const consumed = await counted.callsOf(all(() => limiter.consume('k')));
    expect(await counted.callsOf(all(() => limiter.wait('k')))).to.be.at.most(consumed + 5);
    expect((await limiter.peek('k')).remaining).to.equal(8000);
  });

  it('holds a turn for one call, and none for a later call', async () => {
    const bucket = { algorithm: 'gcra', limit: 100, window: '1s', burst: 1 } as const;
    const limiter = limiterOn(counted.store(), bucket);
    await limiter.wait('other');
    const order: number[] = [];
    const wait = async (i: number) => order.push((await limiter.wait('k'), i));
    const calls = await counted.callsOf(() => Promise.all([1, 2, 3, 4, 5].map(wait)));
    expect(order).to.deep.equal([1, 2, 3, 4, 5]);
    expect(calls).to.be.at.most(5);
  });

  it('notices units that another process gives back, although this process remembers the denial', async () => {
    const prefix = freshPrefix();
    const options = { name: 'x', limit: 1, window: '1h' } as const;
    const [here, there] = [0, 1].map(() =>
      limiterOn(counted.store({ prefix, localDenials: '1h' }), options),
    ) as [Limiter, Limiter];
    await here.consume('k');
    const waiting = here.wait('k');
    await here.consume('k');
    await there.reset('k');
    expect((await waiting).allowed).to.be.true;
  });
});

describe('limiter.wait', () => {
  const limiter = createLimiter({ limit: 1, window: '1h' });

  for (const [options, code] of [
    [{ cost: -1 }, 'HEADGATE_INVALID_COST'],
    [{ cost: 1.5 }, 'HEADGATE_INVALID_COST'],
    [{ timeout: 0 }, 'HEADGATE_INVALID_OPTION'],
    [{ timeout: 'soon' }, 'HEADGATE_INVALID_OPTION'],
    [{ signal: {} }, 'HEADGATE_INVALID_ARGUMENT'],
    [{ timeoutMs: 5 }, 'HEADGATE_UNKNOWN_OPTION'],
  ] as const) {
    it(`refuses ${JSON.stringify(options)}`, async () => {
      expect(await codeOf(limiter.wait('refused', options as object))).to.equal(code);
      expect((await limiter.peek('refused')).remaining).to.equal(1);
    });
  }

  it('refuses a key that is not a string', async () => {
    expect(await codeOf(limiter.wait(undefined as never))).to.equal('HEADGATE_INVALID_KEY');
  });

  it('is bounded by maxWaiting', async () => {
    const small = createLimiter({ limit: 1, window: '1h', maxWaiting: 1 });
    await small.consume('k');
    await small.consume('other');
    const first = codeOf(small.wait('k'));
    expect(await codeOf(small.wait('other'))).to.equal('HEADGATE_QUEUE_FULL');
    await small.close();
    expect(await first).to.equal('HEADGATE_CLOSED');
  });

  for (const [maxWaiting, perKey] of [
    [undefined, 1000],
    [29, 2],
    [10, 1],
    [9, 1],
  ] as const) {
    it(`lets ${perKey} requests of a key wait if ${maxWaiting ?? 10_000} may wait in all`, async () => {
      const limited = createLimiter({ limit: 1, window: '1h', ...(maxWaiting && { maxWaiting }) });
      expect(limited.gauges.maxWaiting).to.equal(maxWaiting ?? 10_000);
      await limited.consume('k');
      const waits = Array.from({ length: perKey + 1 }, () => codeOf(limited.wait('k')));
      expect(await waits[perKey]).to.equal('HEADGATE_QUEUE_FULL');
      expect(limited.gauges.waiting).to.equal(perKey);
      await limited.close();
      expect(await waits[perKey - 1]).to.equal('HEADGATE_CLOSED');
    });
  }

  it('needs no room for requests that need not wait: switched off, or without a policy that applies', async () => {
    const options = { limit: 1, window: '1h', maxWaiting: 1 } as const;
    const off = createLimiter({ ...options, enabled: () => false });
    const byAccount = createLimiter({ ...options, by: 'account' });
    for (const wait of [() => off.wait('k'), () => byAccount.wait({ account: undefined })])
      expect(await Promise.all([1, 2, 3].map(() => codeOf(wait())))).to.deep.equal(Array(3).fill('admitted'));
  });

  it('refuses requests that can never be admitted at once, although others wait', async () => {
    const bucket = createLimiter({ algorithm: 'token-bucket', limit: 10, window: '1h', burst: 5 });
    const shadow = { name: 'watched', limit: 1, window: '1h', shadow: true } as const;
    const watched = createLimiter({ policies: [{ name: 'real', limit: 5, window: '1h' }, shadow] });
    const codes: string[] = [];
    for (const limited of [bucket, watched]) {
      await limited.consume('k', { cost: 5 });
      for (const cost of [5, 6]) void codeOf(limited.wait('k', { cost })).then((code) => codes.push(code));
      await new Promise(setImmediate);
      await limited.close();
    }
    expect(codes).to.deep.equal(['HEADGATE_DENIED', 'HEADGATE_CLOSED', 'HEADGATE_DENIED', 'HEADGATE_CLOSED']);
  });

  it('rejects with the store’s error, under onStoreError: throw, and asks for the next request', async () => {
    let calls = 0;
    const broken: Store = {
      ...slowStore(memory()).store,
      decide: () => Promise.reject(new Error(`down ${++calls}`)),
    };
    const failing = createLimiter({ store: broken, limit: 1, window: '1h', onStoreError: 'throw' });
    const errors = await Promise.allSettled([failing.wait('k'), failing.wait('k')]);
    const messages = errors.map((result) => String((result as PromiseRejectedResult).reason));
    expect(messages[0]).to.include('down 1');
    expect(messages[1]).to.include('down 2');
  });

  for (const [who, error] of [
    ['a store that is down', new Error('down')],
    ['through a late process', new HeadgateError('HEADGATE_PROCESS_LATE', 'busy')],
  ] as const) {
    it(`asks ${who} more and more rarely, under onStoreError: deny`, async () => {
      let calls = 0;
      const broken: Store = {
        ...slowStore(memory()).store,
        decide: () => {
          calls++;
          return Promise.reject(error);
        },
      };
      const failing = createLimiter({ store: broken, limit: 1, window: '1h', onStoreError: 'deny' });
      expect(await codeOf(failing.wait('k', { timeout: 200 }))).to.equal('HEADGATE_WAIT_TIMEOUT');
      expect(calls).to.be.within(2, 6);
    });
  }
});

describe('a line that moves to another gate while its charge is given back', () => {
  it('is asked about by that gate alone, so that a newcomer passes no request in a question', async () => {
    const timing = new TestTiming();
    const policies = [
      { name: 'all', limit: 1000, window: '1h' },
      { name: 'own', limit: 1000, window: '1h', by: 'org' },
    ] as const;
    const limiter = limiterOn(memory(timing.clock), { policies });
    const key = { key: 'k', org: 'o' };
    const [all, own] = idsOf(subjectOf(limiter.set, key, []));
    const [returned, answered] = [new AbortController(), new AbortController()];
    const until = ({ signal }: AbortController) =>
      new Promise((resolve) => onAbort(signal, () => resolve(0)));
    const script: (() => Promise<LimiterDecision>)[] = [];
    const room = new WaitingRoom(100, 100, timing, {
      hasPeers: false,
      decide: ({ set }) => script.shift()?.() ?? limiter.decide(key, 1, set),
      hold: async (decision) => decision,
    });
    const admitted: string[] = [];
    const wait = (name: string, priority = 0) =>
      void room
        .wait(waitRequest(key, limiter.set, { priority }), [all!, own!])
        .then(() => admitted.push(name), String);
    await limiter.decide({ key: 'k', org: 'other' }, 1000);
    wait('first');
    await timing.advance(0);
    wait('second');
    await limiter.reset({ key: 'k' });
    await limiter.decide({ key: 'other', org: 'o' }, 1000);
    // The first is denied by its org, and another process gives units back before the second is asked about.
    script.push(
      async () => limiter.decide(key, 1),
      async () => {
        await limiter.reset({ org: 'o' });
        const decision = await limiter.decide(key, 1);
        const cancel = decision.cancel.bind(decision);
        decision.cancel = () => until(returned).then(cancel);
        return decision;
      },
    );
    room.wake([all!]);
    await timing.advance(0);
    const late = async () => until(answered).then(() => limiter.decide(key, 1));
    script.push(late, late);
    room.wake([own!]);
    await timing.advance(0);
    expect(script).to.have.lengthOf(0);
    returned.abort();
    await timing.advance(0);
    wait('urgent', 1);
    await timing.advance(0);
    answered.abort();
    await timing.advance(1000);
    expect(admitted).to.deep.equal(['first', 'second', 'urgent']);
    expect(room.size).to.equal(0);
  });
});
