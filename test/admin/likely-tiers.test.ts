// The tier of a key that was denied just now, of tiers with one count.
import { expect } from 'chai';
import { likelyTiers } from '../../src/admin/likely-tiers.js';

describe('the tier of a key that used more than a lower tier admits, and was denied', () => {
  const MINUTE = { algorithm: 'sliding-window', windowMs: 60_000, every: 6_000 };
  const HOUR = { algorithm: 'sliding-window', windowMs: 3_600_000, every: 360_000 };
  const FIXED = { algorithm: 'fixed-window', windowMs: 60_000, every: 60_000 };

  /** The likely ones of the tiers `free`, of 90, and `pro`, of 300. @param resetAfterMs the time until the newest charge ends */
  const likely = (used: number, denial: object, { every, ...of } = MINUTE, resetAfterMs = 59_000) => {
    const tiers = [90, 300].map((limit) => {
      const remaining = Math.max(0, limit - used);
      const policy = { ...of, name: 'minute', key: 'big', limit, shadow: false, remaining, resetAfterMs };
      const states = [{ id: 'm', freesEveryMs: every }];
      return { policies: [{ ...policy, allowed: remaining > 0, retryAfterMs: null }], states };
    });
    const fits = likelyTiers(tiers, { policy: 'minute', isTotal: true, ageMs: 2000, ...denial });
    return ['free', 'pro'].filter((_, i) => fits[i]);
  };

  it('is the higher tier if that is full', () => {
    for (const isTotal of [false, true]) {
      expect(likely(300, { isTotal })).to.deep.equal(['pro']);
      expect(likely(90, { isTotal })).to.deep.equal(['free']);
      expect(likely(272, { isTotal })).to.deep.equal(['pro']);
    }
  });

  it('is the higher tier if that may have been full at the denial', () => {
    // A segment ended 1 s ago, and 5 s ago.
    expect(likely(180, {}, MINUTE, 59_000)).to.deep.equal(['pro']);
    expect(likely(180, {}, MINUTE, 55_000)).to.deep.equal(['free']);
    expect(likely(180, { ageMs: 6000 }, MINUTE, 55_000)).to.deep.equal(['pro']);
    expect(likely(180, {}, FIXED, 59_000)).to.deep.equal(['pro']);
    expect(likely(180, {}, FIXED, 30_000)).to.deep.equal(['free']);
    // A request may cost more than what is left.
    expect(likely(250, {}, HOUR, 3_500_000)).to.deep.equal(['pro']);
  });

  it('is the lower tier if the higher one had much left, as after a change of the tier', () => {
    expect(likely(120, {}, HOUR, 3_500_000)).to.deep.equal(['free']);
    expect(likely(120, { isTotal: false }, HOUR, 3_500_000)).to.deep.equal(['pro']);
    expect(likely(120, { policy: 'day' }, HOUR, 3_500_000)).to.deep.equal(['pro']);
  });
});
