// The facts about a key beside the buttons that change it.
import { expect } from 'chai';
import { createLimiter, memoryStore, type Limiter } from 'headgate';
import { createAdmin, type KeyView } from 'headgate/admin';
import { TestClock } from 'headgate/testing';
import { Judges } from '../src/judges.js';
import { KeyQuestions } from '../src/key-questions.js';
import { currentSlots, withEnd, withRates, withShares } from '../src/page/key-facts.js';
import { asOf, multiplied } from '../src/page/plan.js';

describe('a counted key that is denied', () => {
  const key = { key: 'ada', denied: 2 };

  it('has the time of its ban, and not the earlier end that a search found before the ban', () => {
    const rows = [{ ...key, retryAfterMs: 7000 }];
    const ban = { key: 'ada', bannedForMs: 1_800_000 };
    expect(withEnd(key, rows, [])).to.include({ retryAfterMs: 7000 });
    expect(withEnd(key, rows, [ban])).to.include({ retryAfterMs: 1_800_000, bannedForMs: 1_800_000 });
    expect(withEnd({ ...key, retryAfterMs: 9000 }, rows, [ban])).to.include({ retryAfterMs: 1_800_000 });
    expect(withEnd({ ...key, reason: 'banned' }, rows, [])).not.to.have.property('retryAfterMs');
  });

  it('has an end although each tier is judged at a moment of its own', async () => {
    const views = (...times: number[]) =>
      times.map((retryAfterMs) => ({
        ...{ likely: true, allowed: false, retryAfterMs, bannedForMs: retryAfterMs, override: null },
        policies: [],
      }));
    const judged = async (...times: number[]) => {
      const judges = new Judges({ key: () => Promise.resolve(views(...times)) } as never);
      return (await judges.of('api', { key: 'ada' })).retryAfterMs;
    };
    expect(await judged(1_799_999, 1_800_000)).to.equal(1_800_000);
    expect(await judged(7000, 1_800_000)).to.equal(null);
  });
});

describe('the tiers that a key may have after its limits were changed', () => {
  const tiers = { free: ['m=2/1m'], pro: ['m=100/1m', 'address=5/1m by address'] };
  /** The likely tiers of a key that used more than its tier `free` admits, by the page, `ms` after a change of limits. */
  const likely = async (
    ms: number,
    change: (limiter: Limiter) => Promise<unknown>,
    name = 'api',
  ): Promise<unknown[]> => {
    // The clock of the store is two hours ahead of that of this process.
    const clock = new TestClock(Date.now() + 2 * 3_600_000);
    const store = memoryStore({ clock: clock.read });
    createAdmin(store);
    const create = (each: string) =>
      createLimiter({ name: each, store, tiers, overrides: true, warnings: false });
    const [limiter, other] = [create('api'), create('other')];
    try {
      await change(name === 'api' ? limiter : other);
      clock.advance(ms);
      await limiter.consume('ada', { tier: 'pro', cost: 3 });
      const { views } = (await new KeyQuestions(createAdmin(store), (key) => key as never).key(
        { key: 'ada' },
        () => false,
      )) as { views: KeyView[] };
      const own = views.filter((view) => view.name === 'api' && view.dimension === 'key');
      return own.flatMap((view) => (view.likely ? [view.tier] : []));
    } finally {
      await Promise.all([limiter.close(), other.close()]);
    }
  };
  const ADA = { key: 'ada' };
  const HOUR = 3_600_000;

  it('include those whose limits the key had exceeded before', async () => {
    const remove = async (limiter: Limiter) => {
      await limiter.override(ADA, { m: { limit: 50 } });
      await limiter.removeOverride(ADA);
    };
    expect(await likely(0, async () => {})).to.deep.equal(['pro']);
    expect(await likely(30_000, remove)).to.deep.equal(['free', 'pro']);
    expect(await likely(59_999, remove)).to.deep.equal(['free', 'pro']);
    expect(await likely(60_000, remove)).to.deep.equal(['pro']);
    expect(await likely(30_000, remove, 'other')).to.deep.equal(['pro']);
    const removeOfAll = async (limiter: Limiter) => {
      await limiter.overrideAll({ m: { limit: 50 } });
      await limiter.removeOverride(undefined);
    };
    expect(await likely(30_000, removeOfAll)).to.deep.equal(['free', 'pro']);
  });

  it('count the end of an override as a change, by the clock of the store', async () => {
    const override = (limiter: Limiter) => limiter.override(ADA, { m: { limit: 50 } }, { for: '1h' });
    expect(await likely(HOUR, override)).to.deep.equal(['free', 'pro']);
    expect(await likely(HOUR + 59_999, override)).to.deep.equal(['free', 'pro']);
    expect(await likely(HOUR + 60_000, override)).to.deep.equal(['pro']);
  });

  it('are not those of a key of another dimension with the same text', async () => {
    const override = (limiter: Limiter) => limiter.override({ address: 'ada' }, { address: { limit: 1 } });
    expect(await likely(0, override)).to.deep.equal(['pro']);
  });
});

describe('a factor of an override', () => {
  const row = {
    name: 'api',
    policies: ['minute=120/1m', 'address=600/1m by address'],
    tiers: { pro: ['minute=1500/1m', 'address=600/1m by address'] },
  };
  interface Plan {
    change: unknown;
    plan: { at: unknown };
    facts?: string[];
  }
  const halved = (subject: object, state: object) =>
    multiplied(...asOf(row, { name: 'api', ...subject }, state), 0.5) as Plan;
  const address = { key: '203.0.113.66', dimension: 'address' };

  it('multiplies the limits in force, and the dialog names the override and the ban', () => {
    expect(halved(address, {}).change).to.deep.equal({ address: '300/1m' });
    expect(halved(address, {}).facts).to.equal(undefined);
    const override = { key: '203.0.113.66', change: { address: '30/1m' } };
    const given = halved(address, { override, bannedForMs: 1_740_000 });
    expect(given.change).to.deep.equal({ address: '15/1m' });
    expect(given.facts).to.deep.equal([
      'The key is banned for 29 min more, and stays denied until then, whatever its limits are.',
      'An override of this key is in force: address 30/1m.',
    ]);
    expect(halved(address, { override: { ...override, change: '30/1m' } }).change).to.deep.equal({
      address: '15/1m',
    });
    expect(halved(address, { override: { change: { address: 'unlimited' } } })).to.equal(undefined);
  });

  it('for all keys begins with the limits that tiers have in common', () => {
    const all = halved({ all: true }, {});
    expect(all.change).to.deep.equal({ address: '300/1m' });
    expect(all.plan.at).to.equal('all');
    expect(halved({ key: 'ada' }, {}).change).to.equal(undefined);
  });
});

describe('figures of one key in two lists', () => {
  const acme = { key: 'acme', dimension: 'tenant', within: 'provider openai' };
  const tenant = { ...acme, policy: 'calls', reason: 'fair-share', denied: 6 };

  it('are equal for a tenant, whose spent share is the cause', () => {
    const deniedBy = [
      { policy: 'calls', denied: 4 },
      { policy: 'pace', denied: 2 },
    ];
    const tenants = withRates([{ ...tenant, deniedBy }], [{ ...acme, denied: 9 }]) as (typeof tenant & {
      deniedBy: { denied: number }[];
    })[];
    const shown = tenants[0]!;
    expect(shown).to.include({ denied: 9 });
    expect(shown.deniedBy.map(({ denied }) => denied)).to.deep.equal([6, 3]);
    expect(withRates([{ ...tenant, deniedBy }], [])[0]).to.include({ denied: 6 });
    const counted = { ...acme, denied: 9 };
    const isOfShare = (policy: string, ...tenants: object[]) =>
      (withShares([{ ...counted, policy }], tenants) as { isOfShare?: true }[]).map((each) => each.isOfShare);
    expect(isOfShare('calls', tenant)).to.deep.equal([true]);
    expect(isOfShare('pace', tenant)).to.deep.equal([undefined]);
    expect(isOfShare('calls', { ...tenant, reason: 'quota-exceeded' })).to.deep.equal([undefined]);
  });

  it('are those of the processes for slots, and slots without a process are added', () => {
    const slots = (used: number, uncounted: number | null, ...counted: number[]) => {
      const processes = counted.map((each) => ({ slots: each }));
      const shown = currentSlots({ used, uncounted }, processes) as {
        used: number;
        uncounted: number | null;
      };
      return [shown.used, shown.uncounted];
    };
    expect(slots(1, 0, 1, 1)).to.deep.equal([2, 0]);
    expect(slots(3, 0, 1)).to.deep.equal([1, 0]);
    expect(slots(2, 1, 1)).to.deep.equal([2, 1]);
    expect(slots(2, 2, 2)).to.deep.equal([2, 0]);
    expect(slots(1, null, 1, 1)).to.deep.equal([2, null]);
  });
});
