import { expect } from 'chai';
import fc from 'fast-check';
import { createLimiter, memoryStore, type Decision, type HeadgateError } from 'headgate';
import type { LimiterDecision } from '../../../src/limiter/decision.js';
import { HoldQueue, holdRequestOf, type HoldOutcome } from '../../../src/limiter/waiting/hold-queue.js';
import { runs } from '../../support/random.js';
import { limiterOn, memory, stores, TestClock } from '../../support/stores.js';
import { TestTiming } from '../../support/timing.js';

const policy = { algorithm: 'leaky-bucket', limit: 10, window: '1s', burst: 1, maxDelay: '1s' } as const;

/** A limiter and a queue in one test's time, and a log of the events. */
function setup(most = 100, options: Parameters<typeof limiterOn>[1] = policy) {
  const timing = new TestTiming();
  const limiter = limiterOn(memory(timing.clock), options);
  const queue = new HoldQueue(most, most, timing);
  const log: [name: string, outcome: HoldOutcome, at: number][] = [];
  const start = (name: string, { key = 'k', cost = 1, signal }: Partial<Arrival> = {}) => {
    const decision = limiter.decide(key, cost) as LimiterDecision;
    void queue.hold(holdRequestOf(decision), signal).then(async (outcome) => {
      log.push([name, outcome, timing.now()]);
      if (outcome !== 'turn') await decision.refund();
    });
    return decision;
  };
  /** The outcomes as text, from the first or a later one on. */
  const told = (since = 0) =>
    log
      .slice(since)
      .map(([name, outcome, at]) => `${name}${outcome === 'turn' ? '' : ` ${outcome}`} at ${at}`)
      .join(', ');
  return { timing, limiter, queue, log, told, start };
}

interface Arrival {
  key: string;
  cost: number;
  signal: AbortSignal;
}

describe('holding requests for their turn', () => {
  it('a repetition whose signal is aborted already ends at once', async () => {
    const { timing } = setup();
    const slow = { algorithm: 'leaky-bucket', limit: 1, window: '1m', burst: 1, maxDelay: '5m' } as const;
    const limiter = limiterOn(memory(timing.clock), { ...slow, idsFor: '10m' });
    await limiter.consume('k');
    await limiter.consume('k', { id: 'i' });
    const repeated = await limiter.consume('k', { id: 'i' });
    expect(repeated).to.include({ repeated: true, delayMs: 60_000 });
    const held = limiter.hold(repeated, { signal: AbortSignal.abort() });
    const error = await held.catch((thrown: HeadgateError) => thrown);
    expect(error).to.have.property('code', 'HEADGATE_ABORTED');
    await limiter.close();
  });

  it('a request that has lost its turn gets the next one, in the order of the lost turns, and the others move back', async () => {
    const { timing, queue, log, start } = setup();
    for (const name of ['a', 'b', 'c']) start(name);
    const turns: [name: string, at: number][] = [];
    const again = (name: string, lostAt: number) => {
      const turn = { key: 'k', cost: 1, delayMs: 300 + turns.length, unitMs: 100 };
      const place = { isLast: true, lostAt, onTurn: (at: number) => turns.push([name, at - began]) };
      void queue.hold(turn, undefined, place).then((outcome) => log.push([name, outcome, timing.now()]));
    };
    const began = timing.now();
    again('lost later', -50);
    again('lost first', -150);
    again('lost last', -10);
    await timing.advance(1000);
    const order = ['a', 'lost first', 'lost later', 'lost last', 'b', 'c'];
    expect(log.map(([name]) => name)).to.deep.equal(order);
    expect(turns).to.deep.equal([
      ['lost first', 100],
      ['lost later', 200],
      ['lost last', 300],
    ]);
  });

  it('releases them one by one at the leak rate, in order', async () => {
    const { timing, told, start, queue } = setup();
    for (const name of ['a', 'b', 'c', 'd']) expect(start(name).allowed).to.be.true;
    await timing.advance(1000);
    expect(told()).to.equal('a at 0, b at 100, c at 200, d at 300');
    expect(queue.size).to.equal(0);
    expect(timing.timers).to.equal(0);
  });

  it('releases them at their turns although timers fire late', async () => {
    const { clock } = new TestTiming();
    const timing = new TestTiming();
    const late = {
      now: () => timing.now(),
      after: (ms: number, run: () => void) => timing.after(ms + 0.9, run),
    };
    const limiter = limiterOn(memory(clock), policy);
    const queue = new HoldQueue(100, 100, late);
    const delays: number[] = [];
    for (let i = 0; i < 10; i++) {
      const request = holdRequestOf(limiter.decide('k', 1) as LimiterDecision);
      void queue.hold(request).then(() => delays.push(timing.now() - request.delayMs));
    }
    await timing.advance(1000);
    expect(delays).to.have.length(10);
    expect(Math.max(...delays)).to.be.below(1);
  });

  it('holds no request longer than maxDelay: the next one is denied', () => {
    const { start } = setup();
    const decisions = Array.from({ length: 12 }, (_, i) => start(String(i)));
    expect(decisions.map(({ allowed }) => allowed)).to.deep.equal([...Array<boolean>(11).fill(true), false]);
    expect(decisions[10]).to.include({ delayMs: 1000, remaining: 0 });
    expect(decisions[11]).to.include({ delayMs: 0, retryAfterMs: 100, reason: 'quota-exceeded' });
  });

  it('moves later requests up when one leaves, and the next newcomer takes the last slot', async () => {
    const { timing, told, start } = setup();
    const leave = new AbortController();
    start('a');
    start('b', { signal: leave.signal });
    start('c');
    start('d');
    await timing.advance(50);
    leave.abort();
    await timing.advance(0);
    expect(start('e').delayMs).to.equal(250);
    await timing.advance(1000);
    expect(told()).to.equal('a at 0, b cancelled at 50, c at 100, d at 200, e at 300');
    expect(timing.timers).to.equal(0);
  });

  it('has a line and a timer per key, whatever other policies decide', async () => {
    const { timing, log, start } = setup(100, {
      policies: [
        { ...policy, name: 'paced' },
        { name: 'hour', limit: 10, window: '1h' },
      ],
    });
    for (const key of ['x', 'y']) for (const n of [1, 2, 3]) start(`${key}${n}`, { key });
    await timing.advance(0);
    expect(timing.timers).to.equal(2);
    await timing.advance(200);
    expect(log.map(([name]) => name).sort()).to.deep.equal(['x1', 'x2', 'x3', 'y1', 'y2', 'y3']);
  });

  it('holds at most its maximum, and gives back the charges of other requests', async () => {
    const { timing, told, start, queue, limiter } = setup(2);
    for (const name of ['a', 'b', 'c', 'd', 'e']) start(name);
    await timing.advance(0);
    expect(queue.size).to.equal(2);
    expect(told(1)).to.equal('d full at 0, e full at 0');
    expect((await limiter.peek('k')).resetAfterMs).to.equal(300);
  });

  it('ends all held requests when it is closed, and does not start with an aborted signal', async () => {
    const { timing, told, start, queue, limiter } = setup();
    start('a');
    start('b');
    start('c', { signal: AbortSignal.abort() });
    await timing.advance(0);
    queue.close();
    await timing.advance(0);
    expect(told(1)).to.equal('c cancelled at 0, b closed at 0');
    expect(timing.timers).to.equal(0);
    expect((await limiter.peek('k')).resetAfterMs).to.equal(100);
  });

  it('moves up by the units that left, even if a unit takes a fraction of a millisecond', async () => {
    // A unit takes 142.9 ms, or 1.001 ms.
    for (const limit of [7, 999]) {
      const uneven = { ...policy, limit, burst: 3, maxDelay: '3s' } as const;
      const costs = { a: 3, c: 1, d: 3 };
      const whole = setup(100, uneven);
      for (const [name, cost] of Object.entries(costs)) whole.start(name, { cost });
      const left = setup(100, uneven);
      const leave = new AbortController();
      left.start('a', { cost: costs.a });
      left.start('b', { cost: 2, signal: leave.signal });
      left.start('c', { cost: costs.c });
      left.start('d', { cost: costs.d });
      leave.abort();
      for (const { timing } of [whole, left]) await timing.advance(2000);
      const turns = left.log.filter(([, outcome]) => outcome === 'turn');
      expect(turns.map(([name]) => name)).to.deep.equal(['a', 'c', 'd']);
      // As if the request had never come, except for a millisecond by which the store rounds up.
      for (const [i, [, , at]] of turns.entries()) expect(at - whole.log[i]![2]).to.be.within(-1, 1);
      expect(left.timing.timers).to.equal(0);
      const [one, other] = [whole, left].map(async ({ limiter }) => (await limiter.peek('k')).resetAfterMs);
      expect(await other).to.equal(await one);
    }
  });

  it('releases them in the order of their slots, in whatever order the answers of a store come', () =>
    fc.assert(
      fc.asyncProperty(
        fc
          .array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 8 })
          .chain((costs) =>
            fc.tuple(fc.constant(costs), fc.shuffledSubarray([...costs.keys()], { minLength: costs.length })),
          ),
        async ([costs, order]) => {
          const timing = new TestTiming();
          const queue = new HoldQueue(100, 100, timing);
          let units = 0;
          const slots = costs.map((cost) => (units += cost) * 100);
          const gone: [number, number][] = [];
          for (const i of order) {
            const turn = { key: 'k', cost: costs[i]!, delayMs: slots[i]!, unitMs: 100 };
            void queue.hold(turn).then(() => gone.push([i, timing.now()]));
          }
          await timing.advance(10_000);
          expect(gone).to.deep.equal([...slots.entries()]);
          expect(queue.size + timing.timers).to.equal(0);
        },
      ),
      runs('memory', 100, 0),
    ));

  it('keeps order and spacing, whichever requests come and leave, and whatever they cost', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({
            after: fc.constantFrom(0, 0, 10, 90, 300),
            cost: fc.integer({ min: 1, max: 3 }),
            leaves: fc.option(fc.constantFrom(0, 40, 150, 500)),
          }),
          { minLength: 1, maxLength: 25 },
        ),
        async (arrivals) => {
          const timing = new TestTiming();
          const limiter = limiterOn(memory(timing.clock), { ...policy, burst: 3, maxDelay: '2s' });
          const queue = new HoldQueue(100, 100, timing);
          const gone: { i: number; at: number; cost: number }[] = [];
          for (const [i, { after, cost, leaves }] of arrivals.entries()) {
            await timing.advance(after);
            const decision = limiter.decide('k', cost) as Decision;
            if (!decision.allowed) continue;
            const latest = timing.now() + decision.delayMs;
            const leave = new AbortController();
            if (leaves !== null) timing.after(leaves, () => leave.abort());
            const turn = { key: 'k', cost, delayMs: decision.delayMs, unitMs: 100 };
            void queue.hold(turn, leave.signal).then(async (outcome) => {
              if (outcome === 'turn') {
                gone.push({ i, at: timing.now(), cost });
                expect(timing.now()).to.be.at.most(latest);
              } else await decision.refund();
            });
          }
          await timing.advance(10_000);
          expect(timing.timers).to.equal(0);
          expect(queue.size).to.equal(0);
          // Requests leave in order, and never more of them than the bucket leaks beyond its burst.
          expect(gone.map(({ i }) => i)).to.deep.equal(gone.map(({ i }) => i).sort((a, b) => a - b));
          let level = 0;
          let last = 0;
          for (const { at, cost } of gone) {
            level = Math.max(0, level - (at - last) / 100) + cost;
            last = at;
            expect(level).to.be.at.most(3 + 1e-6);
          }
        },
      ),
      runs('memory', 300, 0),
    );
  });
});

for (const [name, createStore] of Object.entries(stores)) {
  describe(`limiter.hold on ${name}`, () => {
    const slow = { algorithm: 'leaky-bucket', limit: 1, window: '1h', burst: 1, maxDelay: '30d' } as const;

    it('resolves to the decision at its turn', async () => {
      const limiter = limiterOn(createStore(), { ...policy, limit: 50 });
      const decisions = await Promise.all(
        [1, 2, 3].map(async () => limiter.hold(await limiter.consume('k'))),
      );
      expect(decisions.map(({ allowed, delayMs }) => [allowed, delayMs > 0])).to.deep.equal([
        [true, false],
        [true, true],
        [true, true],
      ]);
      await limiter.close();
    });

    it('gives the slot back when the signal aborts', async () => {
      const limiter = limiterOn(createStore(new TestClock().read), slow);
      await limiter.consume('k');
      const leave = new AbortController();
      const held = limiter.hold(await limiter.consume('k'), { signal: leave.signal });
      leave.abort(new Error('gone'));
      const error: unknown = await held.catch((reason: unknown) => reason);
      expect(error)
        .to.include({ code: 'HEADGATE_ABORTED' })
        .and.have.nested.property('cause.message', 'gone');
      expect((await limiter.peek('k')).resetAfterMs).to.equal(3_600_000);
      await limiter.close();
    });

    it('a repetition goes at the turn of the first request, and moves up none of the others if it leaves', async () => {
      const limiter = limiterOn(createStore(), { ...policy, limit: 10, maxDelay: '9s', idsFor: '1h' });
      const began = performance.now();
      const turns: number[] = [];
      const hold = async (id: string, signal?: AbortSignal) => {
        const decision = await limiter.consume('k', { id });
        await limiter.hold(decision, { signal });
        return turns.push(performance.now() - began);
      };
      const leave = new AbortController();
      const held = Promise.all(['a', 'b', 'c', 'd'].map((id) => hold(id)));
      const goes = hold('d');
      const leaves = [1, 2, 3].map(() => hold('c', leave.signal).catch((error: HeadgateError) => error.code));
      await new Promise((resolve) => setTimeout(resolve, 20));
      leave.abort();
      expect(await Promise.all(leaves)).to.deep.equal(Array(3).fill('HEADGATE_ABORTED'));
      await Promise.all([held, goes]);
      turns.sort((x, y) => x - y);
      for (const [i, turn] of [0, 1, 2, 3, 3].entries()) expect(turns[i]).to.be.above(100 * turn - 10);
      // The turn is over.
      expect(await limiter.consume('k', { id: 'd' })).to.include({ repeated: true, delayMs: 0 });
      await limiter.close();
    });

    it('denies a request beyond its maximum, and charges nothing for it', async () => {
      const reported: Decision[] = [];
      const limiter = limiterOn(createStore(new TestClock().read), {
        ...slow,
        maxWaiting: 1,
        onDecision: (decision) => void reported.push(decision),
      });
      await limiter.consume('k');
      const first = limiter.hold(await limiter.consume('k'));
      const second = await limiter.hold(await limiter.consume('k'));
      expect(second).to.include({
        allowed: false,
        reason: 'queue-full',
        charged: 0,
        retryAfterMs: 7_200_000,
      });
      expect(reported.at(-1)).to.equal(second);
      expect((await limiter.peek('k')).resetAfterMs).to.equal(7_200_000);
      const closing = limiter.close();
      expect(await first.catch((reason: unknown) => reason)).to.include({ code: 'HEADGATE_CLOSED' });
      await closing;
    });
  });
}

describe('limiter.hold', () => {
  it('does not hold decisions without a delay, denials, looks, or shadows', async () => {
    const limiter = createLimiter({ ...policy, window: '1h' });
    const admitted = await limiter.consume('k');
    expect(await limiter.hold(admitted)).to.equal(admitted);
    const looked = await limiter.peek('k');
    expect(await limiter.hold(looked)).to.equal(looked);
    const denied = await limiter.consume('k', { cost: 1 });
    expect(denied.allowed).to.be.false;
    expect(await limiter.hold(denied)).to.equal(denied);
    const patient = createLimiter({ ...policy, window: '1h', maxDelay: '1h' });
    await patient.consume('k');
    const ahead = await patient.peek('k');
    expect(ahead).to.include({ allowed: true, charged: 0 });
    expect(ahead.delayMs).to.be.above(0);
    expect(await patient.hold(ahead)).to.equal(ahead);
    const shadow = createLimiter({ ...policy, shadow: true });
    await shadow.consume('k');
    expect(await shadow.consume('k')).to.include({ allowed: true, delayMs: 0 });
  });

  it('on a closed limiter gives the turn back', async () => {
    const store = memoryStore();
    const make = () => createLimiter({ name: 'turns', store, ...policy, window: '1h', maxDelay: '9h' });
    const [limiter, other] = [make(), make()];
    await limiter.consume('k');
    const decision = await limiter.consume('k');
    await limiter.close();
    const error = await limiter.hold(decision).catch(({ code }: HeadgateError) => code);
    expect(error).to.equal('HEADGATE_CLOSED');
    expect((await other.peek('k')).delayMs).to.be.at.most(3_600_000);
  });

  it('refuses a value that is not a signal, and unknown options', async () => {
    const limiter = createLimiter(policy);
    const decision = await limiter.consume('k');
    const refusal = (options: object) => limiter.hold(decision, options).catch((error: unknown) => error);
    expect(await refusal({ signal: {} })).to.include({ code: 'HEADGATE_INVALID_ARGUMENT' });
    expect(await refusal({ abort: 1 })).to.include({ code: 'HEADGATE_UNKNOWN_OPTION' });
  });
});
