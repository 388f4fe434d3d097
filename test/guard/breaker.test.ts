// The servers of a store that are down, and the limiters that learn about the failure, on a clock of the test. For the failures of one
// server see circuit.test.ts.
import assert from 'node:assert/strict';
import { createLimiter, HeadgateError, type Health, memoryStore, type Store } from 'headgate';
import { performance } from '../../src/common/real-time.js';
import { readOptions } from '../../src/common/options.js';
import { newCall, type OverridePlace, type PolicySet, type Subject } from '../../src/contract/store.js';
import { Breaker, breakerOf } from '../../src/limiter/guard/breaker.js';
import type { Prober } from '../../src/limiter/guard/circuit.js';
import { FAILURE_TABLE } from '../../src/limiter/guard/guard-options.js';
import { idleProbe, probesOf } from '../../src/limiter/guard/probe.js';
import { sleep, until } from '../slow/faults/load.js';

const set = {} as PolicySet;
const prober: Prober = { probe: async () => true, whenReady: () => undefined };
const fail = () => Promise.reject(new Error('away'));
const store: Store = { decide: fail, adjust: fail, lease: fail, reset: fail, ban: fail };
const cluster: Store = {
  ...store,
  servers: () => ['a:1', 'b:2'],
  // Each key is the name of its server.
  serverOf: ({ key }) => key as string,
  waitsFor: () => 'It connects.',
};

/** A question that was sent to this server. `undefined` if the client failed before. */
const to = (server: string | undefined): Subject => ({
  set,
  key: server ?? 'a:1',
  call: { ...newCall(), server },
});

describe('a breaker', () => {
  const { now } = performance;
  const { now: date } = Date;
  let time: number;
  let breaker: Breaker;
  let warned: string[];
  const warn = (code: string, message: string) =>
    void warned.push(`${code}: ${message.split(' Meanwhile')[0]}`);

  beforeEach(() => {
    time = 1_000_000;
    performance.now = Date.now = () => time;
    warned = [];
    breaker = new Breaker(cluster);
  });

  afterEach(() => {
    breaker.unwatch(prober);
    performance.now = now;
    Date.now = date;
  });

  /** Repeats failures until the server is down. */
  function bringDown(server: string | undefined): void {
    for (let i = 0; i < 5; i++) {
      if (i === 4) time += 100;
      const error = new HeadgateError('HEADGATE_STORE_ERROR', `${server ?? 'the client'} fails`);
      breaker.failure(to(server), error, prober);
    }
  }

  const downFor = (key: string) => breaker.downFor({ set, key })?.server;

  it('of a server that is down stops only the questions to it; the store is down once all servers are', () => {
    const states: Health[] = [];
    breaker.listeners.set({}, (health) => states.push(health));
    const since = time;
    time += 1000;
    assert.equal(breaker.downFor(to('a:1')), undefined);
    bringDown('a:1');
    assert.deepEqual([downFor('a:1'), downFor('b:2')], ['a:1', undefined]);
    assert.deepEqual(states.at(-1), breaker.health);
    const lastError = breaker.health.lastError!;
    assert.deepEqual(breaker.health, {
      ...{ state: 'up', since, failures: 5, lastError, slow: false, late: 0, serversDown: ['a:1'] },
    });
    bringDown('b:2');
    const { state, failures, serversDown } = breaker.health;
    assert.deepEqual([state, failures, serversDown], ['down', 10, ['a:1', 'b:2']]);
    assert.equal(breaker.health.since, time);
    assert.match(breaker.health.lastError.message, /^b:2 fails/);
    breaker.success(to('a:1'), false);
    assert.deepEqual([downFor('a:1'), downFor('b:2')], [undefined, 'b:2']);
    assert.deepEqual([breaker.health.state, breaker.health.failures], ['up', 5]);
    breaker.success(to('b:2'), false);
    assert.deepEqual(
      states.map((health) => [health.state, health.serversDown.length]),
      [
        ['up', 1],
        ['down', 2],
        ['up', 1],
        ['up', 0],
      ],
    );
  });

  it('of failures before a server is asked stops all questions, until any server answers', () => {
    bringDown(undefined);
    assert.equal(breaker.downFor(to('b:2')), breaker.circuitOf(to(undefined)));
    assert.deepEqual([breaker.health.state, breaker.health.serversDown], ['down', []]);
    breaker.success(to('b:2'), false);
    assert.deepEqual([breaker.health.state, breaker.downFor(to('b:2'))], ['up', undefined]);
  });

  it('of a server that the store does not list does not affect the store', () => {
    breaker = new Breaker(store);
    bringDown('c:3');
    assert.deepEqual([breaker.health.state, breaker.health.serversDown], ['up', ['c:3']]);
  });

  it('of a server that refuses a limiter for a permission stops that limiter alone', () => {
    const of = (name: string): Subject => ({ ...to('a:1'), set: { name } as PolicySet });
    const isStopped = (name: string): boolean =>
      breaker.downFor({ ...of(name), call: undefined }) !== undefined;
    const refuse = (name: string): void => {
      for (let i = 0; i < 6; i++) {
        if (i === 4) time += 100;
        const cause = new Error("ERR The user executing the script can't run this command or subcommand");
        breaker.failure(of(name), new HeadgateError('HEADGATE_STORE_ERROR', 'refused', { cause }), prober);
      }
    };
    breaker.warners.set({}, warn);
    const reports: (string | undefined)[] = [];
    breaker.listeners.set({}, ({ lastError }) => reports.push(lastError?.message));
    breaker.success(of('rate'), false);
    refuse('jobs');
    assert.deepEqual([isStopped('jobs'), isStopped('rate')], [true, false]);
    breaker.success(of('rate'), false);
    assert.deepEqual([breaker.health.serversDown, isStopped('jobs')], [[], false]);
    refuse('jobs');
    assert.deepEqual([breaker.health.serversDown, isStopped('rate')], [[], false], 'answers another limiter');
    assert.match(warned.at(-1)!, /^HEADGATE_STORE_DOWN: The store refuses the limiter "jobs", .*: refused/);
    assert.match(reports.at(-1)!, /^refused/);
    refuse('rate');
    assert.deepEqual(
      [breaker.health.serversDown, isStopped('jobs'), isStopped('rate')],
      [['a:1'], true, true],
    );
    breaker.success(of('jobs'), false);
    breaker.success(of('rate'), false);
    refuse('jobs');
    assert.deepEqual([isStopped('jobs'), isStopped('rate')], [true, false], 'nothing is remembered');
    breaker.success(of('rate'), false);
    time += 61_000;
    refuse('jobs');
    assert.equal(isStopped('jobs'), true, 'an old answer proves nothing');
  });

  it('of another failure after a refusal stops every limiter', () => {
    const of = (name: string): Subject => ({ ...to('a:1'), set: { name } as PolicySet });
    for (const message of ['NOPERM this user', 'NOPERM this user', 'reset', 'reset', 'reset', 'reset']) {
      time += 50;
      breaker.failure(of('jobs'), new HeadgateError('HEADGATE_STORE_ERROR', message), prober);
    }
    assert.ok(breaker.downFor(of('rate')));
  });

  it('forgets failures at the first answer, and counts those that were read too late', () => {
    breaker.failure(to('a:1'), new HeadgateError('HEADGATE_STORE_ERROR', 'away'), prober);
    breaker.answeredLate(to('a:1'));
    breaker.answeredLate(to('b:2'));
    const failing = breaker.circuitOf(to('a:1'));
    assert.deepEqual([breaker.health.slow, breaker.health.failures, breaker.answers > 0], [true, 1, false]);
    breaker.success(to('a:1'), true);
    const { slow, failures, late, lastError } = breaker.health;
    assert.deepEqual([slow, failures, late, lastError, breaker.answers > 0], [false, 0, 1, undefined, true]);
    breaker.success(to('a:1'), false);
    assert.equal(breaker.health.late, 1);
    assert.notEqual(breaker.circuitOf(to('a:1')), failing, 'addresses change: what is well is not kept');
  });

  it('warns, if there is no listener, of a store that never answered and of servers that are down', () => {
    breaker.warners.set({}, warn);
    bringDown('a:1');
    const first = 'HEADGATE_STORE_DOWN: The store has not answered yet: a:1 fails. It connects.';
    assert.deepEqual(warned.splice(0), [
      ...Array<string>(4).fill(first),
      'HEADGATE_STORE_DOWN: The store has lost a:1: a:1 fails. It connects.',
      first,
    ]);
    breaker.success(to('a:1'), false);
    bringDown('a:1');
    bringDown('b:2');
    breaker.success(to('a:1'), false);
    assert.deepEqual(warned.splice(0), [
      'HEADGATE_STORE_DOWN: The store has lost a:1: a:1 fails. It connects.',
      'HEADGATE_STORE_DOWN: The store is down: b:2 fails. It connects.',
      'HEADGATE_STORE_DOWN: The store has lost b:2: b:2 fails. It connects.',
    ]);
    breaker.success(to('b:2'), false);
    breaker.listeners.set({}, () => {});
    bringDown(undefined);
    assert.deepEqual(warned, []);
  });

  it('is the same for all limiters of a store', () => {
    assert.equal(breakerOf(store), breakerOf(store));
    assert.notEqual(breakerOf(store), breakerOf(cluster));
  });
});

describe('a probe', () => {
  const probe = idleProbe(50);
  const idle = { ...probe, set: { ...probe.set, ban: undefined } };

  it('writes by the policies that failed, and reads the key that failed', () => {
    const failed = { set: { ...idle.set, name: 'api' }, key: 'ada' };
    const [write, read] = probesOf(cluster, failed, idle, undefined)!;
    assert.deepEqual(write.set, idle.set);
    assert.deepEqual([write.peek, write.cost, /^\d{1,5}$/.test(String(write.key))], [false, 1, true]);
    assert.deepEqual(read, { ...failed, cost: 1, costs: undefined, peek: true, lease: '', call: newCall() });
    const [next] = probesOf(cluster, failed, idle, undefined)!;
    assert.equal(next.set, write.set, 'what a store keeps for a set is made once');
    assert.notEqual(next.key, write.key);
    for (let i = 0; i < 14; i++) probesOf(cluster, failed, idle, undefined);
    assert.equal(probesOf(cluster, failed, idle, undefined)![0].key, write.key, 'few keys are used');
    assert.equal(idle.set.timeout, 50);
  });

  it('reads its own key while no call has failed, because the key lies on the probed server', () => {
    const [write, read] = probesOf({ ...cluster, serverOf: () => 'a:1' }, undefined, idle, 'a:1')!;
    assert.equal(read.key, write.key);
  });

  it('uses its own policies if the failed question has none, such as a read of the override of all keys', () => {
    const failed = { set: { ...idle.set, name: 'api', policies: [] }, key: '' };
    const [write, read] = probesOf({ ...cluster, serverOf: () => 'a:1' }, failed, idle, 'a:1')!;
    assert.deepEqual([write.set, read.set, read.key], [idle.set, idle.set, write.key]);
  });

  it('reads its own key if the failed key has moved to another server', () => {
    const serverOf: Store['serverOf'] = ({ key }) => (key === 'ada' ? 'b:2' : 'a:1');
    const [write, read] = probesOf({ ...cluster, serverOf }, { set: idle.set, key: 'ada' }, idle, 'a:1')!;
    assert.deepEqual([read.set, read.key], [write.set, write.key]);
    assert.equal(
      probesOf({ ...cluster, serverOf }, { set: idle.set, key: 'bob' }, idle, 'a:1')![1].key,
      'bob',
    );
  });

  it('that is answered too late is not repeated at once, so that an overloaded store is probed no more often than one that is down', async () => {
    let probes = 0;
    const memory = memoryStore();
    const slow: Store = {
      ...store,
      async decide(query) {
        probes++;
        await sleep(30);
        return memory.decide(query);
      },
    };
    const limiter = createLimiter({ store: slow, limit: 1e6, window: '1s', timeout: 10, connectTimeout: 10 });
    await until(async () => {
      await limiter.consume('ada');
      return limiter.health.state === 'down';
    });
    probes = 0;
    await sleep(600);
    assert.ok(probes > 0 && probes <= 14, `${probes} questions`);
    // A busy process may have read an answer as if it had come in time.
    await until(async () => {
      await limiter.consume('ada');
      return limiter.health.slow;
    });
    await limiter.close();
  });

  it('has a key for each dimension', () => {
    const [write] = probesOf(cluster, { set: idle.set, key: ['a', 'b'] }, idle, undefined)!;
    assert.equal(write.key.length, 2);
  });

  it('looks for a key on the probed server: among a thousand keys, or without result', () => {
    let tried = 0;
    const serverOf = () => (++tried === 1000 ? 'b:2' : 'a:1');
    assert.ok(probesOf({ ...cluster, serverOf }, undefined, idle, 'b:2'));
    assert.equal(tried, 1000);
    assert.equal(probesOf({ ...cluster, serverOf: () => 'a:1' }, undefined, idle, 'b:2'), undefined);
    assert.equal(probesOf(store, undefined, idle, 'b:2'), undefined);
  });
});

describe('questions about overrides', () => {
  it('pass the call to the store like any question, with its deadline', async () => {
    const places: OverridePlace[] = [];
    const hangs = (place: OverridePlace) => (places.push(place), new Promise<never>(() => {}));
    const limiter = createLimiter({
      store: { ...store, overrides: { read: hangs, change: hangs } },
      ...{ limit: 1, window: '1s', overrides: true, timeout: 5, connectTimeout: 5, warnings: false },
    });
    await assert.rejects(limiter.override('ada', '2/1s'), { code: 'HEADGATE_STORE_TIMEOUT' });
    await assert.rejects(limiter.overrideAll('2/1s'), { code: 'HEADGATE_STORE_TIMEOUT' });
    await limiter.close();
    const calls = places.map((place) => ('subject' in place ? place.subject.call : place.call));
    assert.deepEqual(
      calls.map((call) => call?.abandoned),
      calls.map(() => true),
    );
  });
});

describe('how long a store may take', () => {
  it('is at most a minute', () => {
    for (const option of ['timeout', 'connectTimeout'] as const) {
      assert.equal(FAILURE_TABLE[option].read(option, '1m'), 60_000);
      assert.throws(() => FAILURE_TABLE[option].read(option, 60_001), /\b1 .*\b60000\b/);
    }
    const { timeout, connectTimeout } = readOptions(FAILURE_TABLE, {});
    assert.deepEqual([timeout, connectTimeout], [100, 2000]);
  });
});
