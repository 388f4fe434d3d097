// A malformed reply of a store is a store error, not a decision.
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { createLimiter, type LimiterOptions, type Store } from 'headgate';
import type { ChangeReply, Reply } from 'headgate/stores';
import { redisStore } from 'headgate/redis';
import { codeOf } from './support/errors.js';

const now = Date.now();
const sound: Reply = { now, step: 0, ban: 0, verdicts: [0, 4, 1_000] };

const JUNK: readonly unknown[] = [
  ...[undefined, null, 0, 1, '', 'OK', true, [], {}, [now, 0, 4, 1_000], new Date(), () => {}],
  ...[undefined, null, 'now', NaN, Infinity, -1, 1.5, 2 ** 60].map((value) => ({ ...sound, now: value })),
  ...[undefined, null, '0', NaN, 0.5, 2 ** 60].map((ban) => ({ ...sound, ban })),
  // Replies that ban: wrong, because the limiter has no bans, or because the reply has verdicts as well.
  ...[1_000, -1_000].map((ban) => ({ ...sound, ban })),
  ...[null, '0', NaN, 0.5, -1, true].map((full) => ({ ...sound, full })),
  ...[undefined, null, '0,4,1000', {}, new Set([0, 4, 1_000])].map((verdicts) => ({ ...sound, verdicts })),
  ...[[], [0], [0, 4], [0, 4, 1_000, 0], [0, 4, 1_000, 0, 4, 1_000], [[0, 4, 1_000]]].map((verdicts) => ({
    ...sound,
    verdicts,
  })),
  ...[NaN, Infinity, -Infinity, 0.5, '0', null, undefined, true, 2 ** 60, -(2 ** 63), 0n].flatMap((bad) => [
    { ...sound, verdicts: [bad, 4, 1_000] },
    { ...sound, verdicts: [0, bad, 1_000] },
    { ...sound, verdicts: [0, 4, bad] },
  ]),
  { ...sound, verdicts: [0, -1, 1_000] },
  { ...sound, verdicts: [0, 1e13, 1_000] },
  { ...sound, verdicts: [0, 4, -1] },
];

const answering = (reply: unknown): Store => ({
  decide: () => reply as Reply,
  adjust: () => reply as ChangeReply,
  lease: () => true,
  reset: () => {},
  ban: () => {},
});

const later = (reply: unknown) => answering(Promise.resolve(reply));

const limiterOn = (store: Store, options: Partial<LimiterOptions> = {}) =>
  createLimiter({
    limit: 5,
    window: 1_000,
    onStoreError: 'throw',
    ...options,
    store,
  });

describe('a malformed reply', () => {
  it('is a store error, with a code, whether it arrives at once or later', async () => {
    for (const reply of JUNK) {
      for (const store of [answering(reply), later(reply)]) {
        expect(await codeOf(limiterOn(store).consume('key')), String(JSON.stringify(reply, show))).to.equal(
          'HEADGATE_MALFORMED_REPLY',
        );
      }
    }
  });

  it('is answered by onStoreError, like any failure of the store', async () => {
    for (const reply of JUNK) {
      for (const [onStoreError, allowed] of [
        ['allow', true],
        ['deny', false],
        ['local', true],
      ] as const) {
        const decision = await limiterOn(later(reply), { onStoreError }).consume('key');
        expect(decision).to.include({ allowed, degraded: true });
      }
    }
  });

  it('to a change of a charge is an error, too', async () => {
    const charges = [undefined, null, 1, [], [1, 1], ['1'], [-1], [0.5], [NaN], [2 ** 60]];
    for (const reply of [...JUNK, ...charges.map((charged) => ({ ...sound, charged }))]) {
      const store: Store = { ...later(sound), adjust: async () => reply as ChangeReply };
      expect(await codeOf(limiterOn(store).refund('key')), String(JSON.stringify(reply, show))).to.equal(
        'HEADGATE_MALFORMED_REPLY',
      );
    }
  });

  it('is distinguished from a sound one', async () => {
    for (const verdicts of [
      [0, 4, 1_000],
      [0, 0, 0],
      [1_000, 0, 1_000],
      [-1, 4, 0],
      [-1_001, 0, 5_000],
      [0, 1e12, 2 ** 50],
    ]) {
      expect(await codeOf(limiterOn(later({ ...sound, verdicts })).consume('key'))).to.equal('none');
    }
    const banned = { now, step: 0, ban: 1_000, verdicts: [] };
    expect(await limiterOn(later(banned), { ban: {} }).consume('key')).to.include({ reason: 'banned' });
  });

  it('of Redis, to a single call or to a batch', async () => {
    const replies: readonly unknown[] = [
      ...[
        null,
        'OK',
        1,
        [],
        [now],
        [now, 0, 0],
        [String(now), 4],
        [now, 4.5],
        [now, null],
        [now, '4'],
        [now, -2],
      ],
      ...[
        [now, -1],
        [now, -1, 0, 4],
        [now, -1, 0, 4, 1_000, 0],
        [now, -1, 0, 4.5, 1_000],
        [now, -1, null, 4, 9],
      ],
      ...[[[now, 4]], [now, [4]], [now, NaN], [now, Infinity], [now, true]],
    ];
    for (const reply of replies) {
      const client = Object.assign(new Redis({ lazyConnect: true }), {
        status: 'ready' as const,
        evalsha: async () => reply,
      });
      const limiter = limiterOn(redisStore(client));
      const calls = [1, 2, 3].map((i) => codeOf(limiter.consume(`key ${i}`)));
      for (const code of await Promise.all(calls))
        expect(code, JSON.stringify(reply)).to.be.oneOf(['HEADGATE_MALFORMED_REPLY', 'HEADGATE_STORE_ERROR']);
    }
  });
});

const show = (_: string, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value);
