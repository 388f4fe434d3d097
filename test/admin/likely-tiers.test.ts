import { expect } from 'chai';
import { likelyTiers } from '../../src/admin/likely-tiers.js';
import type { PolicyVerdict } from '../../src/admin/finds.js';

/** A tier with one policy, all tiers with one state. */
const tier = (limit: number, used: number) => ({
  policies: [
    {
      ...{ name: 'minute', algorithm: 'fixed-window', limit, used, shadow: false },
      remaining: Math.max(0, limit - used),
    } as unknown as PolicyVerdict,
  ],
  states: ['minute'],
});
const denial = { policy: 'minute', isTotal: true };

describe('the likely tiers of a key that was denied just now', () => {
  it('are those that deny it and may have admitted what it used', () => {
    expect(likelyTiers([tier(10, 10), tier(100, 10)], denial)).to.deep.equal([true, false]);
  });

  it('are also those that its use fits, if only tiers deny that it has exceeded, because its request may have cost more', () => {
    expect(likelyTiers([tier(10, 95), tier(100, 95)], denial)).to.deep.equal([true, true]);
    expect(likelyTiers([tier(10, 95), tier(100, 95)])).to.deep.equal([false, true]);
  });
});
