// Bans in several limiters at once, and doubts about keys that cannot occur.
import { expect } from 'chai';
import express from 'express';
import type { Limiter } from 'headgate';
import { rateLimit } from 'headgate/express';
import { all, type Place, useLimiters } from './stores.js';

const NOTE = { by: 'ada', reason: 'INC-7' };

export function severalBansSuite(kind: string, open: () => Promise<Place>): void {
  describe(`bans in several limiters on ${kind}`, () => {
    let place: Place;

    const { make, known } = useLimiters(open, (opened) => (place = opened));

    beforeEach(async () => {
      for (const name of ['api', 'login']) make({ name, limit: 2, window: '1h', ban: {}, overrides: true });
      make({ name: 'free', limit: 2, window: '1h' });
      make({
        name: 'accounts',
        policies: [{ limit: 2, window: '1h', by: 'account' }],
        ban: { by: 'account' },
      });
      await known('api', 'login', 'free', 'accounts');
    });
    const banned = async () =>
      (await all(place.admin.bans({ scan: true })))
        .map(({ name, key }) => `${name as string} ${key as string}`)
        .sort();

    it('by names, or in all that ban by the dimension; and ends them', async () => {
      const results = await place.admin.banIn(['api', 'login'], 'a', '1h', NOTE);
      expect(results.map(({ name, by, bannedForMs }) => [name, by, bannedForMs])).to.deep.equal([
        ['api', 'ada', 3_600_000],
        ['login', 'ada', 3_600_000],
      ]);
      const everywhere = await place.admin.banIn('all', 'b', '1h', NOTE);
      expect(everywhere.map(({ name }) => name)).to.deep.equal(['api', 'login']);
      const accounts = await place.admin.banIn('all', 'ada', '1h', { ...NOTE, dimension: 'account' });
      expect(accounts.map(({ name }) => name)).to.deep.equal(['accounts']);
      expect(await banned()).to.deep.equal(['accounts ada', 'api a', 'api b', 'login a', 'login b']);
      expect(
        (await all(place.admin.log({ name: 'login' }))).map(({ action, key }) => [action, key]),
      ).to.deep.equal([
        ['ban', 'b'],
        ['ban', 'a'],
      ]);
      const ended = await place.admin.unbanIn('all', 'a', NOTE);
      expect(ended.map(({ name, banned: count }) => [name, count])).to.deep.equal([
        ['api', 1],
        ['login', 1],
      ]);
      expect(await banned()).to.deep.equal(['accounts ada', 'api b', 'login b']);
    });

    it('an unban names the dimension of the bans, as a ban does', async () => {
      await place.admin.ban('ada', '1h', { name: 'accounts', dimension: 'account' });
      const unban = (fresh: boolean) => place.admin.unban('ada', { name: 'accounts', fresh });
      const error = await unban(false).catch((thrown: Error) => thrown);
      expect(error).to.include({ code: 'HEADGATE_NO_BANS' });
      expect((error as Error).message).to.match(
        /bans by account, and not by key\. Set `dimension: account`\./,
      );
      expect(await banned()).to.deep.equal(['accounts ada']);
      // Another ban has ended by then, so the change is not refused.
      await place.admin.ban('ada', '1h', { name: 'api' });
      const [api, accounts] = await place.admin.unbanIn(['api', 'accounts'], 'ada');
      expect([api!.banned, accounts!.banned]).to.deep.equal([1, 0]);
      expect(accounts!.warnings.map(({ code }) => code)).to.deep.equal(['NO_BAN']);
      const { banned: none } = await place.admin.unban('ada', { name: 'free' });
      expect(none).to.equal(0);
    });

    it('an unban keeps the charges, and forgets them with fresh', async () => {
      const api = make({ name: 'api', limit: 2, window: '1h', ban: {}, overrides: true });
      for (const fresh of [false, true]) {
        await api.consume('a', { cost: fresh ? 1 : 2 });
        await place.admin.ban('a', '1h', { name: 'api' });
        const { banned: count, warnings } = await place.admin.unban('a', { name: 'api', fresh, ...NOTE });
        expect([count, warnings]).to.deep.equal([1, []]);
        expect((await api.peek('a')).remaining).to.equal(fresh ? 2 : 0);
      }
      await place.admin.banIn('all', 'a', '1h');
      await place.admin.unbanIn('all', 'a', { fresh: true });
      expect((await api.peek('a')).remaining).to.equal(2);
      const error = (await place.admin
        .unban('a', { name: 'api', fresh: 1 as never })
        .catch((thrown: unknown) => thrown)) as Error;
      expect(error.message).to.match(/^fresh/);
    });

    it('nothing is banned unless all can be', async () => {
      const refused = async (names: readonly string[] | 'all', options: object = {}) => {
        const error = await place.admin.banIn(names, 'a', '1h', options).catch((thrown: unknown) => thrown);
        return (error as { code?: string }).code;
      };
      expect(await refused(['api', 'free'])).to.equal('HEADGATE_NO_BANS');
      expect(await refused([])).to.equal('HEADGATE_INVALID_ARGUMENT');
      expect(await refused('all', { dimension: 'org' })).to.equal('HEADGATE_NO_BANS');
      expect(await refused(['api'], { name: 'api' })).to.equal('HEADGATE_UNKNOWN_OPTION');
      expect(await banned()).to.deep.equal([]);
    });

    it('errors of a dimension name the useful dimensions', async () => {
      const message = async (promise: Promise<unknown>) =>
        promise.then(
          () => '',
          (error: Error) => error.message,
        );
      const dimension = { dimension: 'org' };
      const accounts = { name: 'accounts', ...dimension };
      expect(await message(place.admin.override('a', '9/1h', { name: 'api', ...dimension }))).to.contain(
        'Pass one of: key.',
      );
      expect(await message(place.admin.ban('a', '1h', accounts))).to.contain(
        'bans by account, and not by org',
      );
      expect(await message(place.admin.key('a', accounts))).to.contain('Pass one of: account.');
      expect(await message(place.admin.reset('a', accounts))).to.contain('Pass one of: account.');
      expect(await message(place.admin.key('a', dimension))).to.contain('Pass one of: account, key.');
    });

    it('a key that cannot occur causes a warning in bans, and is refused in overrides', async () => {
      const policies = [
        { name: 'a', limit: 9, window: '1h' },
        { name: 'b', limit: 9, window: '1h', by: 'org' },
      ];
      const options = {
        name: 'web',
        store: place.store,
        policies,
        ban: {},
        overrides: true,
        keys: { org: () => 'x' },
      };
      const middleware = rateLimit(options as never);
      expect(express().use(middleware)).to.be.a('function');
      await known('web');
      const codes = ({ warnings }: { warnings: readonly { code: string; message: string }[] }) =>
        warnings.filter(({ code }) => code === 'UNLIKELY_KEY').map(({ message }) => message);
      const [message] = codes(await place.admin.ban('customer:42', '1h', { name: 'web' }));
      expect(message).to.contain('the keys of "web" are addresses of clients, so "customer:42" cannot occur');
      // A ban of a key of org would be refused.
      expect(message).to.not.contain('Set `dimension`');
      const ban = (key: string) => ({ name: 'web', key, for: '1h' });
      const previews = await place.admin.previewBans([ban('customer:43'), ban('203.0.113.7')]);
      expect(previews.map((each) => ('error' in each ? each.error : codes(each).length))).to.deep.equal([
        1, 0,
      ]);
      const change = { a: '10/1h' };
      // An override without effect is refused, because it would look like one in force.
      const refusal = await place.admin.override('customer:42', change, { name: 'web' }).then(
        () => '',
        (error: Error) => error.message,
      );
      expect(refusal).to.contain('Set `dimension` for a key of org.').and.contain('Nothing was changed');
      expect(await all(place.admin.overrides({ name: 'web' }))).to.deep.equal([]);
      const raw = { name: 'web', raw: true };
      expect(codes(await place.admin.override('customer:42', change, raw))).to.have.length(1);
      for (const key of ['203.0.113.7', '2001:db8::1', '203.0.113.0/30'])
        expect(codes(await place.admin.ban(key, '1h', { name: 'web' }))).to.deep.equal([]);
      expect(codes(await place.admin.ban('203.0.113.7', '1h', { name: 'web', raw: true }))).to.deep.equal([]);
      expect(
        codes(await place.admin.override('customer:42', { b: '10/1h' }, { name: 'web', dimension: 'org' })),
      ).to.deep.equal([]);
      expect(codes(await place.admin.ban('customer:42', '1h', { name: 'api' }))).to.deep.equal([]);
      await (middleware as unknown as { limiter?: Limiter }).limiter?.close();
    });
  });
}
