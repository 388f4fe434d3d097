// The facts about a key beside the buttons that change it.
import { expect } from 'chai';
import { Judges } from '../src/judges.js';
import { withOpenTiers } from '../src/open-tiers.js';
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
  const view = (tier: string, fields: object) => ({ name: 'api', tier, likely: false, ...fields });
  const spent = { allowed: false, shadow: false, windowMs: 60_000 };
  const views = [
    view('free', { policies: [spent] }),
    view('pro', { likely: true, policies: [{ ...spent, allowed: true }] }),
  ] as never[];
  const likely = (...changes: object[]) =>
    withOpenTiers(views, changes as never[], 100_000).map((each) => each.likely);

  it('include those whose limits the key had exceeded before', () => {
    const at = new Date(70_000);
    expect(likely()).to.deep.equal([false, true]);
    expect(likely({ name: 'api', action: 'remove', at })).to.deep.equal([true, true]);
    expect(likely({ name: 'api', action: 'remove', at: new Date(30_000) })).to.deep.equal([false, true]);
    expect(likely({ name: 'other', action: 'remove', at })).to.deep.equal([false, true]);
    expect(likely({ name: 'api', action: 'ban', at })).to.deep.equal([false, true]);
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
