// The guard around a store that the test controls.
import assert from 'node:assert/strict';
import {
  createLimiter,
  HeadgateError,
  memoryStore,
  type CreateLimiterOptions,
  type Health,
  type Limiter,
  type Policy,
  type Store,
} from 'headgate';
import type { Call, ChargeChange, ChangeReply, LeaseChange, Query, Reply } from 'headgate/stores';
import { MODES, sleep, until } from '../slow/faults/load.js';

const FOREVER = new Promise<never>(() => {});

/** Answers with the result of `answer`, and records the changes. */
class TestStore implements Store {
  asked = 0;
  readonly told: string[] = [];
  answer: (query: Query) => Promise<Reply> = admit;

  decide(query: Query): Promise<Reply> {
    this.asked++;
    return this.answer(query);
  }

  async adjust({ key, units }: ChargeChange): Promise<ChangeReply> {
    this.told.push(`adjust ${String(key)} ${units.join()}`);
    return { now: 1000, step: 0, ban: 0, verdicts: [0, 1, 1], charged: [0] };
  }

  async lease({ key, action }: LeaseChange): Promise<boolean> {
    this.told.push(`${action} ${String(key)}`);
    return true;
  }

  async reset(): Promise<void> {}
  async ban(): Promise<void> {}
}

async function admit({ set }: Query): Promise<Reply> {
  return { now: 1000, step: 0, ban: 0, verdicts: set.policies.flatMap(() => [0, 5, 1000]) };
}

const fail = (): Promise<never> => Promise.reject(new Error('the network is on fire'));

const POLICY: Policy = { name: 'p', algorithm: 'fixed-window', limit: 10, window: '1m' };

/** A store of the test, and its limiter, which is closed after the test. */
function guarded(options: Partial<CreateLimiterOptions> = {}) {
  const store = new TestStore();
  const limiter = createLimiter({ store, policies: [POLICY], ...options } as CreateLimiterOptions);
  limiters.push(limiter);
  return { store, limiter };
}

const limiters: Limiter[] = [];

async function bringDown(limiter: { consume(key: string): Promise<unknown>; health: Health }): Promise<void> {
  await until(async () => {
    await limiter.consume('x').catch(() => {});
    return limiter.health.state === 'down';
  });
}

/** The store goes down, one limiter closes, and the store comes back for the limiter that is still open. */
async function closeWhileDown(store: TestStore, closed: Limiter, open: Limiter): Promise<void> {
  store.answer = fail;
  await bringDown(open);
  await closed.close();
  store.answer = admit;
  await until(async () => !(await open.consume('a')).degraded, 1000);
}

describe('the guard', () => {
  afterEach(async () => {
    for (const limiter of limiters.splice(0)) await limiter.close();
  });

  for (const mode of MODES) {
    it(`${mode}: answers in time, wraps the store's error, and comes back`, async () => {
      const { store, limiter } = guarded({ onStoreError: mode, timeout: 20, connectTimeout: 20 });
      for (const [answer, code] of [
        [fail, 'HEADGATE_STORE_ERROR'],
        [() => FOREVER, 'HEADGATE_STORE_TIMEOUT'],
        [
          () => {
            throw new Error('not even a promise');
          },
          'HEADGATE_STORE_ERROR',
        ],
      ] as const) {
        store.answer = answer;
        const asked = limiter.consume('a');
        if (mode === 'throw') {
          await assert.rejects(
            asked,
            (error) =>
              error instanceof HeadgateError &&
              error.code === code &&
              (code === 'HEADGATE_STORE_TIMEOUT' || error.cause instanceof Error),
          );
        } else {
          const decision = await asked;
          assert.equal(decision.degraded, true);
          assert.equal(decision.allowed, mode !== 'deny');
          assert.equal(decision.reason, mode === 'local' ? undefined : 'store-error');
        }
      }
      store.answer = admit;
      assert.equal((await limiter.consume('a')).degraded, false);
    });
  }

  it('stops waiting for a store that is down, probes it with one call at a time, and reports both changes', async () => {
    const changes: string[] = [];
    const { store, limiter } = guarded({
      onStoreError: 'allow',
      timeout: 20,
      connectTimeout: 20,
      onHealth: ({ state, lastError }) => changes.push(`${state} ${lastError?.code}`),
    });
    assert.equal(limiter.health.state, 'up');
    store.answer = () => FOREVER;
    await bringDown(limiter);
    const asked = store.asked;
    const start = performance.now();
    for (let i = 0; performance.now() - start < 500; i++) {
      await Promise.all(Array.from({ length: 50 }, () => limiter.consume('a')));
      await sleep(1);
    }
    // Each probe asks twice.
    assert.ok(store.asked - asked <= 12, `it was tried ${store.asked - asked} times in half a second`);
    assert.ok(limiter.health.failures >= 1 && limiter.health.lastError instanceof HeadgateError);
    store.answer = admit;
    await until(async () => !(await limiter.consume('a')).degraded, 1000);
    assert.deepEqual(limiter.health.failures, 0);
    assert.deepEqual(changes, ['down HEADGATE_STORE_TIMEOUT', 'up undefined']);
  });

  it('reports nothing to a closed limiter about a store that other limiters use', async () => {
    const store = new TestStore();
    const states: string[] = [];
    const [closed, open] = ['closed', 'open'].map((name) =>
      createLimiter({
        ...{ name, store, policies: [POLICY], timeout: 20 },
        onHealth: ({ state }) => states.push(`${name} ${state}`),
      }),
    ) as [Limiter, Limiter];
    await closeWhileDown(store, closed, open);
    store.answer = fail;
    await bringDown(open);
    assert.deepEqual(states, ['closed down', 'open down', 'open up', 'open down']);
    await open.close();
  });

  it('a function that several limiters share is called once for each change, even after one of them is closed', async () => {
    const store = new TestStore();
    const states: string[] = [];
    const onHealth = ({ state }: Health): void => void states.push(state);
    const [closed, open] = ['closed', 'open'].map((name) =>
      createLimiter({ name, store, policies: [POLICY], timeout: 20, onHealth }),
    ) as [Limiter, Limiter];
    await closeWhileDown(store, closed, open);
    assert.deepEqual(states, ['down', 'up']);
    await open.close();
  });

  it('each close waits for open calls, even the second close', async () => {
    const { store, limiter } = guarded({ timeout: '1m' });
    let answer: (() => void) | undefined;
    store.answer = async (query) => {
      await new Promise<void>((resolve) => (answer = resolve));
      return admit(query);
    };
    const decision = limiter.consume('a');
    let closed = 0;
    const closing = [limiter.close(), limiter.close()].map((close) => close.then(() => closed++));
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(closed, 0);
    answer!();
    await Promise.all([decision, ...closing]);
  });

  it('tries a stalled store again as soon as it answers an earlier call', async () => {
    const { store, limiter } = guarded({ onStoreError: 'allow', timeout: 5, connectTimeout: 5 });
    let resume!: () => void;
    const resumed = new Promise<void>((resolve) => (resume = resolve));
    store.answer = async (query) => {
      await resumed;
      return admit(query);
    };
    await bringDown(limiter);
    const { asked } = store;
    assert.equal(limiter.health.slow, false);
    resume();
    await sleep(1);
    assert.equal(store.asked, asked + 2, 'a probe writes, and reads');
    assert.equal((await limiter.consume('a')).degraded, false);
  });

  it('probes the store by itself until it is back or the limiter is closed', async () => {
    const store = new TestStore();
    const options = { store, policies: [POLICY], timeout: 5, connectTimeout: 5 };
    const limiter = createLimiter({ name: 'asks', ...options });
    store.answer = fail;
    await bringDown(limiter);
    store.answer = admit;
    await until(() => limiter.health.state === 'up', 2000);
    assert.equal((await limiter.consume('a')).degraded, false);
    store.answer = fail;
    await bringDown(limiter);
    await limiter.close();
    const { asked } = store;
    await sleep(400);
    assert.equal(store.asked, asked);
    // Another limiter of the store finds it down, and goes on probing.
    const other = createLimiter({ name: 'other', ...options });
    assert.equal(other.health.state, 'down');
    await other.consume('a');
    store.answer = admit;
    await until(() => other.health.state === 'up', 2000);
    await other.close();
  });

  it('a reset of a store that is down is refused, and starts a probe; then the store decides again', async () => {
    const store = new TestStore();
    const options = { store, policies: [POLICY], timeout: 5, connectTimeout: 5 };
    const first = createLimiter({ name: 'first', ...options });
    store.answer = fail;
    await bringDown(first);
    await first.close();
    // The limiter that found the store down is closed, so only the reset causes a probe.
    const limiter = createLimiter({ name: 'reset', ...options });
    await assert.rejects(limiter.reset('a'), { code: 'HEADGATE_STORE_AWAY' });
    store.answer = admit;
    await until(() => limiter.health.state === 'up', 2000);
    assert.equal((await limiter.consume('a')).degraded, false);
    await limiter.reset('a');
    // A reset during the probe neither ends nor delays it.
    store.answer = fail;
    await bringDown(limiter);
    const resets = Array.from({ length: 20 }, () => limiter.reset('a').catch(({ code }) => code as string));
    assert.deepEqual(new Set(await Promise.all(resets)), new Set(['HEADGATE_STORE_AWAY']));
    store.answer = admit;
    await until(async () => !(await limiter.consume('a')).degraded, 2000);
    await limiter.close();
  });

  for (const mode of MODES) {
    it(`${mode}: malformed replies, however many, do not bring the store down`, async () => {
      const { store, limiter } = guarded({ onStoreError: mode, timeout: 50 });
      await limiter.consume('a');
      store.answer = async () => ({ now: 1000, step: 0, ban: 0, verdicts: [0, 5] });
      const start = performance.now();
      for (let i = 0; i < 20 || performance.now() - start < 150; i++) {
        const asked = limiter.consume('bad');
        if (mode === 'throw') await assert.rejects(asked, { code: 'HEADGATE_MALFORMED_REPLY' });
        else assert.equal((await asked).degraded, true);
      }
      const { state, failures } = limiter.health;
      assert.deepEqual({ state, failures }, { state: 'up', failures: 0 });
      store.answer = admit;
      assert.equal((await limiter.consume('a')).degraded, false);
    });
  }

  it('probes as soon as the store’s client is ready', async () => {
    let ready!: () => void;
    class ReadyStore extends TestStore {
      async whenReady(): Promise<void> {
        await new Promise<void>((resolve) => (ready = resolve));
      }
    }
    const store = new ReadyStore();
    const limiter = createLimiter({ store, policies: [POLICY], timeout: 5, connectTimeout: 5 });
    store.answer = fail;
    await bringDown(limiter);
    const { asked } = store;
    store.answer = admit;
    ready();
    await new Promise(setImmediate);
    assert.equal(store.asked, asked + 2, 'a probe writes, and reads');
    assert.equal(limiter.health.state, 'up');
    await limiter.close();
  });

  it('distinguishes a store that answers too late from one that is gone', async () => {
    const { store, limiter } = guarded({ timeout: 5, connectTimeout: 5 });
    store.answer = () => FOREVER;
    await bringDown(limiter);
    assert.equal(limiter.health.slow, false);
    store.answer = async (query) => {
      await sleep(30);
      return admit(query);
    };
    await until(() => limiter.health.slow);
    assert.equal(limiter.health.state, 'down');
  });

  for (const mode of MODES) {
    it(`${mode}: an answer that this process was too busy to read in time counts`, async () => {
      const { store, limiter } = guarded({ onStoreError: mode, timeout: 5 });
      // Sockets are read after timers, and before these callbacks.
      store.answer = async (query) => {
        await new Promise(setImmediate);
        return admit(query);
      };
      await limiter.consume('a');
      for (let i = 1; i <= 5; i++) {
        const asked = limiter.consume('a');
        const end = performance.now() + 20;
        while (performance.now() < end);
        assert.equal((await asked).degraded, false);
        const { state, late, failures } = limiter.health;
        assert.deepEqual({ state, late, failures }, { state: 'up', late: i, failures: 0 });
      }
    });

    it(`${mode}: a call that this process sent too late is not a failure of the store, and has a separate code`, async () => {
      const { store, limiter } = guarded({ onStoreError: mode });
      const code = 'HEADGATE_PROCESS_LATE';
      store.answer = () => Promise.reject(new HeadgateError(code, 'too late'));
      const start = performance.now();
      for (let i = 0; i < 20 || performance.now() - start < 150; i++) {
        if (mode === 'throw') {
          await assert.rejects(limiter.consume('a'), { code });
        } else {
          const { degraded, reason } = await limiter.consume('b', { cost: 0 });
          assert.deepEqual(
            { degraded, reason },
            { degraded: true, reason: mode === 'local' ? undefined : 'process-late' },
          );
        }
      }
      assert.equal(limiter.health.state, 'up');
      assert.ok(limiter.health.late >= 20);
    });

    it(`${mode}: a late admission is given back if the request was denied, and its slots in any case`, async () => {
      const policies: Policy[] = [POLICY, { name: 'slots', algorithm: 'concurrency', limit: 5, lease: '1m' }];
      const { store, limiter } = guarded({ policies, onStoreError: mode, timeout: 5, connectTimeout: 5 });
      let answer!: () => void;
      const answered = new Promise<void>((resolve) => (answer = resolve));
      store.answer = async (query) => {
        await answered;
        return admit(query);
      };
      await limiter.consume('late', { cost: 3 }).catch(() => {});
      await limiter.peek('look').catch(() => {});
      answer();
      await sleep(1);
      const turnedAway = mode === 'deny' || mode === 'throw';
      assert.deepEqual(
        store.told.sort(),
        turnedAway ? ['adjust late -3,-3', 'release late'] : ['release late'],
      );
    });
  }

  it('a late admission that a shadow would have denied is given back, except in the shadow, which was not charged', async () => {
    const policies: Policy[] = [POLICY, { ...POLICY, name: 'watched', shadow: true }];
    const { store, limiter } = guarded({ policies, onStoreError: 'deny', timeout: 5, connectTimeout: 5 });
    let answer!: () => void;
    // The wait of the second policy: admitted at once, held for a while, later, never.
    for (const [wait, told] of [
      [0, ['adjust late -3,-3']],
      [-1001, ['adjust late -3,-3']],
      [1000, ['adjust late -3,0']],
      [-1, ['adjust late -3,0']],
    ] as const) {
      const answered = new Promise<void>((resolve) => (answer = resolve));
      store.answer = async () => {
        await answered;
        return { now: 1000, step: 0, ban: 0, verdicts: [0, 5, 1000, wait, 0, 1000] };
      };
      await limiter.consume('late', { cost: 3 });
      answer();
      await sleep(1);
      assert.deepEqual(store.told.splice(0), told, `a wait of ${wait}`);
    }
    // A policy that is not a shadow has denied, so no policy was charged.
    const answered = new Promise<void>((resolve) => (answer = resolve));
    store.answer = async () => {
      await answered;
      return { now: 1000, step: 0, ban: 0, verdicts: [1000, 0, 1000, 0, 5, 1000] };
    };
    await limiter.consume('late', { cost: 3 });
    answer();
    await sleep(1);
    assert.deepEqual(store.told, []);
  });

  for (const mode of MODES) {
    it(`${mode}: slots are given back if the reply about them is lost`, async () => {
      const slots: Policy = { name: 'slots', algorithm: 'concurrency', limit: 5, lease: '1m' };
      const { store, limiter } = guarded({
        policies: [POLICY, slots],
        onStoreError: mode,
        timeout: 20,
        connectTimeout: 20,
      });
      store.answer = fail;
      await limiter.consume('lost').catch(() => {});
      await limiter.peek('look').catch(() => {});
      // The charge of units is unknown, but a slot can be released without knowing.
      assert.deepEqual(store.told.splice(0), ['release lost']);
      // The call was not run.
      for (const code of [
        'HEADGATE_PROCESS_LATE',
        'HEADGATE_STORE_AWAY',
        'HEADGATE_MALFORMED_REPLY',
      ] as const) {
        store.answer = () => Promise.reject(new HeadgateError(code, 'not run'));
        await limiter.consume('known').catch(() => {});
      }
      assert.deepEqual(store.told, []);
      // No caller waits for the reply any more when the connection breaks.
      store.answer = async () => {
        await sleep(60);
        throw new Error('the network is on fire');
      };
      await limiter.consume('late').catch(() => {});
      await until(() => store.told.length > 0);
      assert.deepEqual(store.told, ['release late']);
    });
  }

  it('marks abandoned questions for the store, but never a give-back', async () => {
    const questions: Query[] = [];
    const giveBacks: ChargeChange[] = [];
    const { store, limiter } = guarded({ timeout: 20, connectTimeout: 20 });
    const decision = await limiter.consume('a');
    store.answer = (query) => {
      questions.push(query);
      return FOREVER;
    };
    store.adjust = (change) => {
      giveBacks.push(change);
      return FOREVER;
    };
    const asked = limiter.consume('a');
    const refund = decision.refund();
    assert.ok(!questions[0]!.call!.abandoned);
    assert.equal(giveBacks[0]!.call!.until, 0, 'its time begins when the store writes it');
    await Promise.all([asked, refund]);
    assert.deepEqual([questions[0]!.call!.abandoned, giveBacks[0]!.call!.abandoned], [true, false]);
  });

  it('shares its findings with a store behind a wrapper that passes on copies', async () => {
    const calls: Call[] = [];
    const inner = new TestStore();
    inner.answer = ({ call }) => {
      calls.push(call!);
      call!.until = performance.now() + 60;
      call!.server = 'a:1';
      return FOREVER;
    };
    const store: Store = {
      decide: (query) => inner.decide({ ...query, key: `tenant:${String(query.key)}` }),
      ...{ adjust: fail, lease: fail, reset: fail, ban: fail },
      servers: () => ['a:1', 'b:2'],
      serverOf: () => 'a:1',
    };
    const limiter = createLimiter({ store, policies: [POLICY], timeout: 20, connectTimeout: 20 });
    const start = performance.now();
    await Promise.all(Array.from({ length: 5 }, () => limiter.consume('x')));
    assert.ok(performance.now() - start >= 55, 'the caller waits until the time that the store tells');
    assert.deepEqual(new Set(calls.map(({ abandoned }) => abandoned)), new Set([true]));
    await until(async () => {
      await limiter.consume('x');
      return limiter.health.serversDown.length > 0;
    });
    assert.deepEqual(limiter.health.serversDown, ['a:1']);
    await limiter.close();
  });

  it('local: each process has its share, shared by limiters of one name, and gives back its charges', async () => {
    const store = new TestStore();
    store.answer = fail;
    const options = { name: 'group', store, policies: [POLICY], localShare: 0.5 };
    const [one, two] = [createLimiter(options), createLimiter(options)];
    let admitted = 0;
    for (let i = 0; i < 10; i++) {
      for (const limiter of [one, two]) if ((await limiter.consume('k')).allowed) admitted++;
    }
    assert.equal(admitted, 5);
    const other = await two.consume('other', { cost: 5 });
    assert.equal((await one.consume('other')).allowed, false);
    await other.refund();
    assert.equal((await one.consume('other')).allowed, true);
    assert.deepEqual(store.told, [], 'what was charged here is not given back there');
    await one.close();
    await two.close();
  });

  it('local: a share is rounded down, but one unit at least; for a burst and for a limit', async () => {
    const store = new TestStore();
    store.answer = fail;
    for (const [policy, localShare, units] of [
      [{ ...POLICY, limit: 5 }, 0.1, 1],
      [{ ...POLICY, limit: 5 }, 0.59, 2],
      [{ ...POLICY, algorithm: 'token-bucket', limit: 5, burst: 39, window: '1h' }, 0.1, 3],
      [{ ...POLICY, algorithm: 'token-bucket', limit: 30, window: '1h' }, 0.1, 3],
    ] as const) {
      const limiter = createLimiter({
        name: `${units} of ${localShare}`,
        store,
        policies: [policy],
        localShare,
      });
      assert.equal((await limiter.consume('k', { cost: units })).allowed, true);
      assert.equal((await limiter.consume('k')).allowed, false);
      await limiter.close();
    }
  });

  it('a listener that throws is reported, and has no other effect', async () => {
    const warnings: Error[] = [];
    const listen = (warning: Error) => void warnings.push(warning);
    process.on('warning', listen);
    const { store, limiter } = guarded({
      onHealth: () => {
        throw new Error('oh');
      },
    });
    store.answer = fail;
    await bringDown(limiter);
    assert.equal((await limiter.consume('a')).degraded, true);
    await sleep(1);
    process.off('warning', listen);
    assert.deepEqual(
      warnings.map(({ name, message }) => [name, message]),
      [['HeadgateWarning', 'onHealth threw: Error: oh']],
    );
  });

  it('a limiter that is refused gets no report, and does not probe the store', async () => {
    const { store } = guarded();
    const onHealth = (): void => assert.fail('It was told');
    assert.throws(() => createLimiter({ store, policies: [POLICY], onHealth }), {
      code: 'HEADGATE_NAME_REQUIRED',
    });
    await sleep(100);
    assert.equal(store.asked, 0);
  });

  it('an async onHealth or onDecision that rejects is a warning, too', async () => {
    const warnings: string[] = [];
    const listen = ({ message }: Error) => void warnings.push(message);
    process.on('warning', listen);
    const reject = (what: string) => () => Promise.reject(new Error(what)) as unknown as void;
    const listeners = { onHealth: reject('one'), onDecision: reject('two') };
    const { store, limiter } = guarded(listeners);
    store.answer = fail;
    await bringDown(limiter);
    await sleep(1);
    process.off('warning', listen);
    assert.equal(warnings.filter((each) => each === 'onHealth threw: Error: one').length, 1);
    assert.ok(warnings.includes('onDecision threw: Error: two'));
  });

  it('a listener may throw a value without a text form', async () => {
    const warnings: string[] = [];
    const listen = ({ message }: Error) => void warnings.push(message);
    process.on('warning', listen);
    const bare = Object.create(null) as Error;
    const throwing = [
      () => Promise.reject(bare) as unknown as void,
      () => {
        throw bare;
      },
    ];
    for (const onDecision of throwing) {
      const limiter = createLimiter({ limit: 1, window: '1m', onDecision });
      assert.equal((await limiter.consume('key')).allowed, true);
      await limiter.close();
    }
    await sleep(1);
    process.off('warning', listen);
    assert.equal(warnings.filter((each) => each === 'onDecision threw: {}').length, 2);
  });

  it('close: open calls get their answers, later calls are refused', async () => {
    const { store, limiter } = guarded({ timeout: 30, connectTimeout: 30 });
    store.answer = () => FOREVER;
    const pending = Array.from({ length: 100 }, (_, i) => limiter.consume(`k${i}`));
    let closed = false;
    const closing = limiter.close().then(() => (closed = true));
    await assert.rejects(limiter.consume('a'), { code: 'HEADGATE_CLOSED' });
    const answers = await Promise.all(pending);
    assert.ok(answers.every(({ degraded }) => degraded));
    await closing;
    assert.ok(closed);
  });

  it('close: an embedded store that was passed in stays open, like any other store', async () => {
    const store = Object.assign(memoryStore(), { close: () => assert.fail('It was closed') });
    await createLimiter({ store, policies: [POLICY] }).close();
  });

  it('an embedded store is always up', async () => {
    const limiter = createLimiter({ limit: 1, window: '1s' });
    assert.deepEqual(
      { ...limiter.health, since: 0 },
      {
        state: 'up',
        since: 0,
        failures: 0,
        lastError: undefined,
        slow: false,
        late: 0,
        serversDown: [],
        unremembered: 0,
      },
    );
    await limiter.close();
  });
});
