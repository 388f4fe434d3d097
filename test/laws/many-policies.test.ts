// Law 11, of policies: a memory store keeps the state of a bounded number, forgets none that counts, and tells what it leaves out.
import { expect } from 'chai';
import fc from 'fast-check';
import { memoryStore, type Decision, type Limiter, type Policy } from 'headgate';
import { algorithms, policyOf } from '../support/policies.js';
import { runs } from '../support/random.js';
import { limiterOn, TestClock } from '../support/clock.js';

/** As docs/failure.md says. */
const MOST = 1000;
const MINUTE = 60_000;

function open(options: Parameters<typeof memoryStore>[0] = {}) {
  const clock = new TestClock();
  const store = memoryStore({ clock: clock.read, ...options });
  return { clock, store, limiter: limiterOn(store, { limit: 1, window: '1m', ban: {} }) };
}

const named = (i: number): Policy => ({ name: `p${i}`, limit: 1, window: '1m' });

/** Decides by policies of a request's own. */
function by(limiter: Limiter, key: string, ...policies: Policy[]): Decision {
  return limiter.decide(key, 1, limiter.compile(policies)) as Decision;
}

describe('law 11, policies that come with each request', () => {
  it('of one name and different limits share their state: they need no room', () => {
    const { store, limiter } = open();
    for (let i = 0; i < 5 * MOST; i++) {
      const policy = { name: 'plan', limit: 10 + i, window: '1m' };
      expect(by(limiter, `customer ${i}`, policy)).to.include({ reason: undefined, remaining: 9 + i });
      expect(by(limiter, 'shared', policy)).to.include({ reason: undefined, remaining: 9 });
    }
    expect(store.health!.unremembered).to.equal(0);
  });

  it('of a name each cost no more the more there were, and what is past makes room', () => {
    const { clock, store, limiter } = open();
    for (let i = 0; i < 10 * MOST; i++) {
      // A thousand a window of the sliding window, which counts a segment longer.
      if (i % 100 === 0) clock.now += 7_000;
      expect(by(limiter, `key ${i}`, named(i)).reason).to.equal(undefined);
      expect(by(limiter, `key ${i}`, named(i)).allowed).to.equal(false);
    }
    expect(store.health!.unremembered).to.equal(0);
  });

  for (const [kind, policy] of [
    ['names', named],
    ['rates', (i: number): Policy => ({ algorithm: 'token-bucket', limit: 1, window: MINUTE + i })],
    ['windows', (i: number): Policy => ({ algorithm: 'sliding-log', limit: 1, window: MINUTE + i })],
  ] as const) {
    it(`more ${kind} than there is room for are not limited, and take no room from others`, () => {
      const { clock, store, limiter } = open();
      for (let i = 0; i < MOST; i++) expect(by(limiter, 'a', policy(i)).reason).to.equal(undefined);
      for (let i = MOST; i < 3 * MOST; i++) {
        const decision = by(limiter, 'a', policy(i));
        expect(decision).to.include({ allowed: true, reason: 'store-full', remaining: 1, charged: 0 });
      }
      for (let i = 0; i < MOST; i++) expect(by(limiter, 'a', policy(i)).allowed, `${i}`).to.equal(false);
      expect(store.health!.unremembered).to.equal(2 * MOST);
      clock.now += 2 * MINUTE;
      for (let i = MOST; i < 2 * MOST; i++) {
        expect(by(limiter, 'a', policy(i)).reason).to.equal(undefined);
        expect(by(limiter, 'a', policy(i)).allowed).to.equal(false);
      }
    });
  }

  it('are denied in place of that under `onFull`, until there may be room', () => {
    const { clock, limiter } = open({ onFull: 'deny' });
    const fixed = (i: number): Policy => ({
      name: `p${i}`,
      algorithm: 'fixed-window',
      limit: 1,
      window: '1m',
    });
    for (let i = 0; i < MOST; i++, clock.now++) by(limiter, 'a', fixed(i));
    const denied = by(limiter, 'b', fixed(MOST));
    expect(denied).to.include({ allowed: false, reason: 'store-full', retryAfterMs: MINUTE - MOST });
    clock.now += MINUTE - MOST - 1;
    expect(by(limiter, 'b', fixed(MOST)).allowed).to.equal(false);
    clock.now += 1;
    expect(by(limiter, 'b', fixed(MOST)).reason).to.equal(undefined);
    expect(by(limiter, 'c', { ...fixed(MOST + 1), shadow: true })).to.include({ allowed: true });
    expect(by(limiter, 'c', fixed(1)).reason, 'one of those that are kept').to.equal(undefined);
  });

  it('without room: a look says so, a ban holds, a reset and a refund do nothing, a dear cost is denied', async () => {
    const { store, limiter } = open();
    for (let i = 0; i < MOST; i++) by(limiter, 'a', named(i));
    await limiter.close();
    const late = limiterOn(store, { policies: [named(MOST)], ban: { after: 1 } });
    expect((await late.peek('a')).reason).to.equal('store-full');
    expect(await late.consume('a', { cost: 2 })).to.include({ reason: 'cost-exceeds-capacity' });
    const decision = await late.consume('a');
    await decision.settle(5);
    await decision.refund();
    await late.refund('a');
    await late.reset('a');
    expect(by(late, 'a', named(0)).allowed, 'of others').to.equal(false);
    await late.ban('a', '1h');
    expect((await late.consume('a')).reason).to.equal('banned');
    await late.unban('a');
    expect((await late.consume('a')).reason).to.equal('store-full');
  });

  it('never forgets what counts: each decision is that of a store that has this policy alone', () =>
    fc.assert(
      fc.property(
        fc.array(
          fc.oneof(...algorithms.map((algorithm) => policyOf(algorithm, { windows: [1_000, MINUTE] }))),
          {
            minLength: 5,
            maxLength: 10,
          },
        ),
        fc.infiniteStream(fc.nat(2 ** 31 - 1)),
        (kinds, random) => {
          const below = (n: number): number => Number(random.next().value) % n;
          const { clock, limiter } = open();
          const alone = new Map<string, Limiter>();
          let kept = 0;
          let left = 0;
          for (let i = 0; i < 4_000; i++) {
            if (i % 50 === 0) clock.now += below(30_000);
            // A few come again and again, most once or twice.
            const name = `p${below(3) === 0 ? below(20) : below(3_000)}`;
            const policy = { ...kinds[name.length % kinds.length]!, name };
            const decision = by(limiter, 'key', policy);
            if (decision.reason === 'store-full') {
              left++;
              continue;
            }
            kept++;
            let other = alone.get(name);
            if (!other) {
              other = limiterOn(memoryStore({ clock: clock.read }), policy);
              alone.set(name, other);
            }
            const expected = other.decide('key') as Decision;
            const { allowed, reason, policies } = expected;
            expect(decision).to.deep.include({ allowed, reason, policies });
            if (below(4) === 0) {
              void decision.cancel();
              void expected.cancel();
            }
          }
          expect(kept).to.be.greaterThan(1000);
          return left >= 0;
        },
      ),
      runs('many policies', 3, 0),
    ));
});
