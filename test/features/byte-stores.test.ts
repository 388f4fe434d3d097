// Stores that keep bytes: the content of the bytes, and the reads and writes of a request.
import { expect } from 'chai';
import { createLimiter, type Policy, type Store } from 'headgate';
import { type Subject, JointState, KeyState, stateKey, stateKeys, stateStore } from 'headgate/stores';
import { mapStore } from '../../examples/map-store.js';
import { compileBan } from '../../src/features/bans/contract/ban-options.js';
import { compilePolicies } from '../../src/contract/compile-policies.js';
import { plainPolicy } from '../../packages/testing/src/algorithms.js';
import { algorithms } from '../support/policies.js';
import { limiterOn, START, TestClock } from '../support/stores.js';
import { Table, tableStore } from '../support/table.js';

const setOf = (policies: readonly Policy[], ban?: object) => ({
  name: 'bytes',
  policies: compilePolicies('policies', policies),
  ban: compileBan(ban),
  timeout: 60_000,
});
const policyOf = (algorithm: Policy['algorithm'], limit = 5) =>
  ({ name: algorithm, ...plainPolicy(algorithm!, limit, 60_000) }) as Policy;
const all = algorithms.map((algorithm) => policyOf(algorithm));
const ask = (policies: readonly Policy[], ban?: object) => ({
  set: setOf(policies, ban),
  key: 'ada',
  cost: 1,
  peek: false,
  lease: 'l1',
});
const text = (bytes: Uint8Array | undefined) => new TextDecoder().decode(bytes);

describe('the state of a key as bytes', () => {
  it('holds policies, a ban, leases and returns; after reading it back, it decides alike', () => {
    const query = ask(all, { after: 1 });
    const before = new KeyState(undefined, START);
    const { step, now, verdicts } = before.decide({ ...query, cost: 2 });
    const marks = all.map((_, i) => now + verdicts[3 * i + 2]!);
    before.adjust({ ...query, units: all.map(() => -1), charged: { step, marks }, degraded: undefined });
    before.decide({ ...query, lease: 'l2' });
    const { bytes } = before.save();
    const questions = (state: KeyState) => [
      state.decide({ ...query, peek: true }),
      state.lease({ ...query, action: 'renew', degraded: undefined }),
      state.adjust({ ...query, units: all.map(() => -1), charged: { step, marks }, degraded: undefined }),
      state.decide({ ...query, cost: 100 }),
      state.decide(query),
    ];
    const answers = questions(new KeyState(bytes, START + 10));
    expect(answers).to.deep.equal(questions(new KeyState(new Uint8Array(bytes!), START + 10)));
    expect(answers[4]).to.include({ ban: 3_600_000 });
    expect(answers[0]).to.not.deep.include(new KeyState(undefined, START + 10).decide(query));
  });

  for (const algorithm of algorithms) {
    it(`${algorithm}: invalid bytes count as no state`, () => {
      const query = ask([all.find((each) => each.algorithm === algorithm)!]);
      const fresh = new KeyState(undefined, START).decide(query).verdicts;
      const full = new KeyState(undefined, START);
      full.decide({ ...query, cost: 5 });
      const right = text(full.save().bytes);
      const [, version, step, body] = /^(\S+) (\S+) (.*)$/.exec(right)!;
      const [ban, [[id, [until, ...saved]]], histories] = JSON.parse(body!) as [
        unknown,
        [[string, number[]]],
        unknown,
      ];
      const bytesOf = (entry: unknown, v = version) =>
        new TextEncoder().encode(`${v} ${step} ${JSON.stringify([ban, [[id, entry]], histories])}`);
      const decide = (bytes: Uint8Array) => new KeyState(bytes, START).decide(query).verdicts;
      expect(decide(bytesOf([until, ...saved]))).to.not.deep.equal(fresh);
      const wrong: unknown[] = [
        [until],
        [until, ...saved, 1],
        [until, ...saved.map(() => -1)],
        [until, ...saved.map(() => 0.5)],
        [until, ...saved.map(() => null)],
        ['x', ...saved],
        {},
        null,
      ];
      for (const entry of wrong) expect(decide(bytesOf(entry)), JSON.stringify(entry)).to.deep.equal(fresh);
      expect(decide(bytesOf([until, ...saved], 'k0'))).to.deep.equal(fresh);
      for (const cut of [0, 2, 10, right.length - 1])
        expect(decide(new TextEncoder().encode(right.slice(0, cut)))).to.deep.equal(fresh);
    });
  }

  it('sliding-window: a state whose newest segment has no units counts as none', () => {
    const query = ask([policyOf('sliding-window')]);
    const state = new KeyState(undefined, START);
    state.decide({ ...query, cost: 5 });
    const right = text(state.save().bytes);
    const sums = (...counts: number[]) => [5, ...counts, ...Array<number>(10 - counts.length).fill(0)].join();
    const remainingOf = (counts: string) => {
      const bytes = new TextEncoder().encode(right.replace(sums(), counts));
      return new KeyState(bytes, START).decide({ ...query, peek: true }).verdicts[1];
    };
    expect(right).to.include(sums());
    for (const counts of [sums(), sums(4), sums(2, 2), sums(0, 0, 4)])
      expect(remainingOf(counts)).to.equal(0);
    for (const counts of [sums(5), sums(3, 2), sums(0, 0, 5), sums(6)])
      expect(remainingOf(counts), counts).to.equal(5);
  });

  it('keeps the charges of other policies of the name, until they expire', () => {
    const one = ask([policyOf('fixed-window')]);
    const other = ask([policyOf('gcra')]);
    const first = new KeyState(undefined, START);
    first.decide(one);
    const second = new KeyState(first.save().bytes, START + 1000);
    second.decide(other);
    const { bytes, expiresAt } = second.save();
    expect(expiresAt).to.equal(START + 60_000);
    expect(new KeyState(bytes, START + 2000).decide(one).verdicts[1]).to.equal(3);
    const late = new KeyState(bytes, START + 200_000);
    late.decide(other);
    expect(text(late.save().bytes)).to.not.contain('fixed-window');
  });

  it('keeps expired state for a minute, for a clock that goes back', () => {
    const query = ask([policyOf('fixed-window')], { after: 1, for: 60_000, within: 60_000, max: 60_000 });
    const other = ask([policyOf('gcra')], { after: 1 });
    const first = new KeyState(undefined, START);
    first.decide({ ...query, cost: 5 });
    first.ban(query, 60_000);
    const { bytes } = first.save();
    for (const [after, isKept] of [
      [119_999, true],
      [120_000, false],
    ] as const) {
      const state = new KeyState(bytes, START + after);
      const saved = text(state.save().bytes);
      expect(saved.includes('fixed-window'), `${after} ms`).to.equal(isKept);
      expect(saved.includes(String(START + 60_000)), `${after} ms`).to.equal(isKept);
      expect(new KeyState(bytes, START + after).decide(other).ban).to.equal(0);
    }
    expect(new KeyState(bytes, START + 10).decide(query).ban).to.equal(59_990);
  });

  it('counts as no state if any part of it is invalid', () => {
    const state = new KeyState(undefined, START);
    const query = ask([policyOf('gcra')], { after: 1 });
    state.decide({ ...query, cost: 5 });
    const right = text(state.save().bytes);
    const [, head, body] = /^(\S+ \S+) (.*)$/.exec(right)!;
    const [ban, states, histories] = JSON.parse(body!) as [unknown, [unknown[]], unknown];
    const isNone = (parts: unknown, at = head) =>
      new KeyState(new TextEncoder().encode(`${at} ${JSON.stringify(parts)}`), START).save().bytes ===
      undefined;
    expect(isNone([ban, states, histories])).to.be.false;
    const wrong: unknown[] = [
      [ban, states],
      [ban, states, histories, []],
      [[], states, histories],
      [[0.5], states, histories],
      [[-1], states, histories],
      [[2 ** 60], states, histories],
      [null, states, histories],
      [ban, {}, histories],
      [ban, states, {}],
      [ban, states, [null]],
      [ban, [[1, [5]]], histories],
      [ban, [[...states[0], 0]], histories],
      [ban, [['id', [START, true]]], histories],
      { length: 3 },
      null,
    ];
    for (const parts of wrong) expect(isNone(parts), JSON.stringify(parts)).to.be.true;
    expect(isNone([ban, states, histories], 'k1 x')).to.be.true;
  });

  it('is not changed by looks and denials, and is empty after a reset', () => {
    const query = ask([policyOf('gcra')]);
    const state = new KeyState(undefined, START);
    expect(state.save()).to.deep.equal({ changed: false, bytes: undefined, expiresAt: 0 });
    state.decide({ ...query, cost: 5 });
    const { bytes } = state.save();
    const again = new KeyState(bytes, START + 1);
    again.decide({ ...query, peek: true });
    again.decide({ ...query, cost: 5 });
    expect(again.save().changed).to.be.false;
    again.adjust({ ...query, units: [-5], charged: undefined, degraded: undefined });
    expect(again.save()).to.deep.equal({ changed: true, bytes: undefined, expiresAt: 0 });
  });

  it('has a bounded key that separates names, keys and versions', () => {
    const set = setOf([policyOf('gcra')]);
    const keyOf = (name: string, key: string) => stateKey({ set: { ...set, name }, key });
    expect(keyOf('api', 'ada')).to.equal('{api:ada}k2');
    expect(keyOf('a', 'b:c')).to.not.equal(keyOf('a:b', 'c'));
    const long = ':'.repeat(128);
    const names = ['api', '\u00e4', '\u{1f600}'.repeat(32), 'n'.repeat(256), long];
    const keys = [
      'ada',
      '\u00e4\u00f6\u00fc',
      'a\u0308',
      'k'.repeat(128),
      '\u{1f600}'.repeat(32),
      '\u{1f600}'.repeat(10_000),
    ];
    const all = names.flatMap((name) => keys.map((key) => keyOf(name, key)));
    for (const key of all) expect(key).to.match(/^[\x21-\x7e]{1,300}$/);
    expect(new Set(all).size).to.equal(all.length);
  });

  it('has bounded keys for several dimensions, too', () => {
    const by = ['d', 'e'].map((letter) => letter.repeat(32));
    const limiter = createLimiter({
      ...{ name: ':'.repeat(128), store: mapStore(), slotBy: by[1]! },
      policies: by.map((dimension) => ({ limit: 1, window: 1000, by: dimension })),
    });
    const keys = stateKeys({ set: limiter.set, key: ['k'.repeat(128), 'k'.repeat(128)] });
    for (const key of keys) expect(key).to.match(/^[\x21-\x7e]{1,300}$/);
    expect(new Set(keys).size).to.equal(2);
  });

  it('is refused for keys of several dimensions: each has a separate state', () => {
    const { set } = createLimiter({ policies: ['1/1s', 'by-org=1/1s by org'] });
    const query = { set, key: ['ada', 'acme'], cost: 1, peek: false, lease: '' };
    expect(() => new KeyState(undefined, START).decide(query))
      .to.throw()
      .with.property('code', 'HEADGATE_DIMENSIONS');
    expect(() => stateKey(query))
      .to.throw()
      .with.property('code', 'HEADGATE_DIMENSIONS');
    expect(new JointState([undefined, undefined], START).decide(query).verdicts).to.have.length(6);
  });
});

describe('a store that keeps bytes elsewhere', () => {
  const subject = (key: string): Subject => ({ set: setOf([policyOf('fixed-window', 10)]), key });
  const query = (key: string) => ({ ...subject(key), cost: 1, peek: false, lease: '' });

  it('updates once for all requests of a key that arrive during an update', async () => {
    const table = new Table();
    const limiter = limiterOn(stateStore(table), { limit: 60, window: '1m' });
    const decisions = await Promise.all(Array.from({ length: 100 }, () => limiter.consume('hot')));
    expect(decisions.filter(({ allowed }) => allowed).length).to.equal(60);
    expect(table).to.include({ updates: 1, writes: 1 });
  });

  it('of many processes admits exactly the limit, whichever process writes in between', async () => {
    const table = new Table();
    const limiters = Array.from({ length: 5 }, () =>
      limiterOn(stateStore(table), { limit: 60, window: '1m' }),
    );
    const decisions = await Promise.all(
      Array.from({ length: 100 }, (_, i) => limiters[i % 5]!.consume('hot')),
    );
    const admitted = decisions.filter(({ allowed }) => allowed).map(({ remaining }) => remaining);
    expect(admitted.sort((a, b) => b - a)).to.deep.equal(Array.from({ length: 60 }, (_, i) => 59 - i));
    expect(table.reads).to.be.greaterThan(table.updates);
  });

  it('writes nothing for a denial', async () => {
    const table = new Table();
    const limiter = limiterOn(stateStore(table), { limit: 1, window: '1m' });
    await limiter.consume('key');
    expect((await limiter.consume('key')).allowed).to.be.false;
    expect(table).to.include({ updates: 2, writes: 1 });
  });

  it('does not decide on abandoned requests', async () => {
    const table = new Table();
    const store: Store = stateStore(table);
    const call = { until: 0, server: undefined, abandoned: false };
    const [first] = [
      store.decide(query('key')),
      store.decide({ ...query('key'), call }),
      store.decide(query('key')),
    ];
    call.abandoned = true;
    await first;
    expect((await store.decide(query('key'))).verdicts[1]).to.equal(7);
  });

  it('undoes no charge of a failed attempt whose callers have left', async () => {
    const clock = new TestClock();
    let bytes: Uint8Array | undefined;
    let other = Promise.resolve();
    let otherWrites = () => {};
    const store = stateStore({
      async update(_, change) {
        change(bytes, clock.now);
        await other;
        ({ bytes } = change(bytes, clock.now));
      },
    });
    const policy = { algorithm: 'fixed-window', limit: 5, window: '1m' } as const;
    const limiter = limiterOn(store, {
      ...policy,
      onStoreError: 'deny',
      timeout: '5ms',
      connectTimeout: '5ms',
    });
    await limiter.consume('key');
    other = new Promise((resolve) => (otherWrites = resolve));
    expect(await limiter.consume('key')).to.include({ allowed: false, reason: 'store-error' });
    otherWrites();
    await new Promise(setImmediate);
    expect((await limiter.peek('key')).remaining).to.equal(4);
  });

  it('rejects all callers when a write fails, and updates again for later ones', async () => {
    const table = new Table();
    const store = stateStore(table);
    table.failure = new Error('the disk is full');
    const results = await Promise.allSettled([1, 2, 3].map(async () => store.decide(query('key'))));
    expect(results.map((result) => String(result.status === 'rejected' && result.reason))).to.deep.equal(
      Array.from({ length: 3 }, () => 'Error: the disk is full'),
    );
    table.failure = undefined;
    expect((await store.decide(query('key'))).verdicts[1]).to.equal(9);
    expect((await store.decide(query('other'))).verdicts[1]).to.equal(9);
  });

  it('closes its backend', async () => {
    let closed = 0;
    await stateStore({ update: () => {}, close: () => void closed++ }).close!();
    await tableStore().close!();
    expect(closed).to.equal(1);
  });

  it('uses the backend’s clock', async () => {
    const clock = new TestClock();
    const limiter = limiterOn(tableStore(clock.read), { limit: 1, window: '1m', algorithm: 'fixed-window' });
    await limiter.consume('key');
    clock.now += 59_999;
    expect(await limiter.consume('key')).to.include({ allowed: false, retryAfterMs: 1 });
    clock.now += 1;
    expect(await limiter.consume('key')).to.include({ allowed: true });
  });
});
