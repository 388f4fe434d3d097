// The moments at which a server counts as down and is probed again, by a clock and timers of the test.
import assert from 'node:assert/strict';
import { HeadgateError } from 'headgate';
import type { PolicySet } from '../../src/contract/store.js';
import { performance } from '../../src/common/real-time.js';
import { Circuit, type Prober } from '../../src/limiter/guard/circuit.js';

const error = new HeadgateError('HEADGATE_STORE_ERROR', 'away');

/** A prober whose probes the test answers. */
class TestProber implements Prober {
  readonly asked: (string | undefined)[] = [];
  /** The number of calls that wait for the client to be ready. */
  waits = 0;
  #answer = (_: boolean): void => {};
  #ready = (): void => {};

  probe(server: string | undefined): Promise<boolean> {
    this.asked.push(server);
    return new Promise((resolve) => (this.#answer = resolve));
  }

  whenReady(): Promise<void> {
    this.waits++;
    return new Promise((resolve) => (this.#ready = resolve));
  }

  async answer(isThere = true): Promise<void> {
    this.#answer(isThere);
    await new Promise(setImmediate);
  }

  async ready(): Promise<void> {
    this.#ready();
    await new Promise(setImmediate);
  }
}

describe('a circuit', () => {
  const { now } = performance;
  const { now: date } = Date;
  const { random } = Math;
  let time: number;
  let turns: boolean[];
  /** The pauses of the timers, and the function of the last timer. */
  let pauses: number[];
  let fire: () => void;
  let circuit: Circuit;
  let prober: TestProber;

  beforeEach(() => {
    time = 1_000_000;
    performance.now = Date.now = () => time;
    Math.random = () => 0;
    [turns, pauses] = [[], []];
    prober = new TestProber();
    circuit = new Circuit(
      'a:1',
      () => turns.push(circuit.down),
      (run, ms) => {
        pauses.push(ms);
        fire = run;
        const timer = { unref: () => timer } as NodeJS.Timeout;
        return timer;
      },
    );
  });

  afterEach(() => {
    performance.now = now;
    Date.now = date;
    Math.random = random;
  });

  const failed = { set: {} as PolicySet, key: 'failed' };

  const failTimes = (times: number) => {
    for (let i = 0; i < times; i++) circuit.failure(error, failed, prober);
  };

  const goDown = () => {
    failTimes(4);
    time += 100;
    failTimes(1);
    assert.equal(circuit.down, true);
  };

  it('is down after five failures in a row that took 100 ms', () => {
    failTimes(3);
    time += 1000;
    failTimes(1);
    assert.deepEqual([circuit.down, circuit.failures, circuit.lastError], [false, 4, error]);
    circuit.success();
    assert.deepEqual([circuit.failures, circuit.lastError], [0, undefined]);
    failTimes(4);
    time += 99;
    failTimes(5);
    assert.equal(circuit.down, false);
    time += 1;
    failTimes(1);
    assert.deepEqual([circuit.down, circuit.failures, circuit.since], [true, 10, time]);
    time += 50;
    failTimes(9);
    assert.deepEqual([circuit.since, turns], [time - 50, [true]]);
    time += 50;
    circuit.success();
    assert.deepEqual([circuit.down, circuit.since, turns], [false, time, [true, false]]);
    circuit.success();
    assert.deepEqual([turns.length, pauses.length], [2, 1]);
    goDown();
    assert.equal(pauses.length, 2, 'the timer of before is gone');
  });

  it('is down 100 ms after the first of the failures in a row, whenever the others come', () => {
    failTimes(1);
    time += 100;
    failTimes(3);
    assert.equal(circuit.down, false);
    failTimes(1);
    assert.equal(circuit.down, true);
  });

  it('is probed again after a tenth of its time down: 0.1 to 2 s, or up to twice that', async () => {
    goDown();
    assert.deepEqual(pauses, [100]);
    for (const [down, factor, pause] of [
      [999, 0, 100],
      [1010, 0, 101],
      [10_000, 0.5, 1500],
      [20_010, 0, 2000],
      [60_000, 0.75, 3500],
    ] as const) {
      time = circuit.since + down;
      Math.random = () => factor;
      fire();
      await prober.answer();
      assert.equal(pauses.at(-1), pause);
    }
    assert.deepEqual(prober.asked, Array(5).fill('a:1'));
  });

  it('has one probe at a time, by any limiter that watches it', async () => {
    goDown();
    circuit.watch(prober);
    assert.equal(pauses.length, 1, 'one timer is enough');
    fire();
    circuit.watch(prober);
    assert.equal(pauses.length, 1, 'it is being asked');
    await prober.answer();
    assert.deepEqual([pauses.length, prober.asked.length], [2, 1]);
    fire();
    // Late answers to earlier calls are a reason for one probe.
    circuit.answeredLate();
    circuit.answeredLate();
    assert.equal(prober.asked.length, 2);
    await prober.answer();
    assert.deepEqual([pauses.length, prober.asked.length], [2, 3]);
    await prober.answer();
    assert.deepEqual([pauses.length, prober.asked.length], [3, 3]);
  });

  it('is up again once it has answered, or no longer belongs to the store', async () => {
    goDown();
    fire();
    circuit.success();
    await prober.answer();
    assert.deepEqual([circuit.down, pauses.length], [false, 1]);
    circuit.answeredLate();
    assert.equal(prober.asked.length, 1, 'who is up is not asked');
    goDown();
    fire();
    await prober.answer(false);
    assert.deepEqual([circuit.down, turns, pauses.length], [false, [true, false, true, false], 2]);
  });

  it('is not probed once no limiter watches it', async () => {
    goDown();
    const other = new TestProber();
    circuit.watch(other);
    circuit.unwatch(prober);
    circuit.watch(other);
    assert.equal(pauses.length, 1);
    fire();
    assert.deepEqual([prober.asked.length, other.asked.length], [0, 1]);
    circuit.unwatch(other);
    await other.answer();
    assert.equal(pauses.length, 1);
    circuit.answeredLate();
    assert.deepEqual([prober.asked.length, other.asked.length], [0, 1]);
    circuit.watch(other);
    assert.equal(pauses.length, 2);
  });

  it('is probed at once whenever the client is ready, while it is down', async () => {
    goDown();
    assert.equal(prober.waits, 1);
    await prober.ready();
    assert.deepEqual([prober.asked.length, prober.waits], [1, 2]);
    await prober.answer();
    circuit.success();
    goDown();
    assert.equal(prober.waits, 2, 'it waits already');
    circuit.success();
    await prober.ready();
    assert.deepEqual([prober.asked.length, prober.waits], [1, 2]);
    goDown();
    assert.equal(prober.waits, 3);
  });

  it('is not kept in memory by a client that stays connected', async () => {
    let thens = 0;
    let resolve = (): void => {};
    const ready = new Promise<void>((done) => (resolve = done));
    const { then } = ready;
    ready.then = function (this: Promise<void>, ...args: Parameters<typeof then>) {
      thens++;
      return then.apply(this, args);
    } as typeof then;
    prober.whenReady = () => ready;
    const circuits = Array.from({ length: 9 }, () => new Circuit('a:1', () => {}));
    for (const each of circuits) {
      circuit = each;
      goDown();
      if (each !== circuits.at(-1)) each.success();
    }
    assert.equal(thens, 1);
    prober.whenReady = () => new Promise(() => {});
    resolve();
    await new Promise(setImmediate);
    assert.equal(prober.asked.length, 1, 'who is up is not asked');
    circuit.unwatch(prober);
  });

  it('is slow for five seconds after a late answer, as long as it fails', () => {
    failTimes(1);
    assert.equal(circuit.slow, false, 'no answer came');
    circuit.success();
    circuit.answeredLate();
    assert.equal(circuit.slow, false, 'it does not fail');
    failTimes(1);
    time += 4999;
    assert.equal(circuit.slow, true);
    time += 1;
    assert.equal(circuit.slow, false);
  });

  it('keeps pending give-backs until it is up', async () => {
    goDown();
    let givenBack = 0;
    circuit.backlog.add(async () => givenBack++);
    assert.equal(givenBack, 0);
    circuit.success();
    assert.equal(givenBack, 1);
  });
});
