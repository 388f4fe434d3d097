// The policy that led to a ban by denials, which is not an operator's note.
import { expect } from 'chai';
import { all, places, until, useLimiters, type Place } from '../../admin/stores.js';

for (const [kind, open] of Object.entries(places))
  describe(`the cause of a ban by denials, ${kind}`, () => {
    let place: Place;
    const { make, known } = useLimiters(open, (opened) => (place = opened));
    const limit = { algorithm: 'fixed-window', window: '1h' } as const;

    it('is the denying policy of the dimension of the ban', async () => {
      const limiter = make({
        name: 'api',
        policies: [
          { name: 'wide', limit: 9, ...limit },
          { name: 'tight', limit: 1, ...limit },
          { name: 'dark', limit: 1, ...limit, shadow: true },
          { name: 'account', limit: 1, ...limit, by: 'account' },
        ],
        ban: { after: 1, for: '1h' },
      });
      await known('api');
      await limiter.ban({ key: 'noted' }, '1h', { reason: 'spam' });
      for (let i = 0; i < 2; i++) await limiter.consume({ key: 'eve', account: 'a' });
      await until(async () => (await all(place.admin.log())).some(({ key }) => key === 'eve'));
      const changes = await all(place.admin.log());
      const struck = changes.find(({ key }) => key === 'eve');
      expect(struck).to.include({
        action: 'ban',
        by: null,
        reason: 'denied by policy tight',
        from: 'denials',
      });
      const [view] = await place.admin.key('eve', { name: 'api' });
      expect(view).to.include({ reason: 'banned', bannedBy: null, banReason: null });
      const [noted] = await place.admin.key('noted', { name: 'api' });
      expect(noted).to.include({ reason: 'banned', banReason: 'spam' });
      await place.admin.ban('eve', '2h', { name: 'api' });
      expect((await all(place.admin.bans())).find(({ key }) => key === 'eve')).to.include({ reason: null });
    });
  });
