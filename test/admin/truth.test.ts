// Views that were untrue: tiers, tenants, and denied keys of limiters that nobody counts.
import { expect } from 'chai';
import { memoryStore, type Limiter } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { sqliteFileOf } from '../../src/stores/sqlite/sqlite.js';
import { limiterOn } from '../support/stores.js';
import { all, places, until, useLimiters, type Place } from './stores.js';

for (const [kind, open] of Object.entries(places))
  describe(`admin, true views, on ${kind}`, () => {
    let place: Place;
    const { make, known } = useLimiters(open, (opened) => (place = opened));

    it('judges a key in each tier, and says which tiers it may have', async () => {
      const tiers = { free: ['day=1/1d'], pro: ['minute=100/1m'], ent: ['minute=5/1m'] };
      const limiter = make({ name: 'api', store: place.store, tiers });
      await known('api');
      for (let i = 0; i < 6; i++) await limiter.consume('ada', { tier: 'pro' });
      const answers = (await place.admin.key('ada', { name: 'api' })).map(({ tier, allowed, likely }) => [
        tier,
        allowed,
        likely,
      ]);
      // Tiers with equal windows share their charges, but a key of tier ent would not have 6.
      expect(answers).to.deep.equal([
        ['free', true, false],
        ['pro', true, true],
        ['ent', false, false],
      ]);
      expect(await place.admin.key('ada')).to.have.lengthOf(3);
      // With 5, the tier of the key is one of two.
      for (let i = 0; i < 5; i++) await limiter.consume('bob', { tier: 'pro' });
      const likely = (await place.admin.key('bob', { name: 'api' })).filter((view) => view.likely);
      expect(likely.map(({ tier }) => tier)).to.deep.equal(['pro', 'ent']);
    });

    it('lists a denied key once, and marks one that only some tiers deny', async () => {
      const tiers = { free: ['m=5/1m'], pro: ['m=100/1m'], ent: ['m=200/1m'] };
      const limiter = make({ name: 'api', store: place.store, tiers });
      await known('api');
      await limiter.consume('some', { tier: 'pro', cost: 6 });
      await limiter.consume('all', { tier: 'ent', cost: 200 });
      await limiter.consume('open', { tier: 'pro', cost: 5 });
      const limited = await all(place.admin.limited({ name: 'api' }));
      const facts = limited.map(({ key, tier, certain, likely }) => ({ key, tier, certain, likely }));
      expect(facts).to.have.deep.members([
        // A customer of tier free would not have 6 of 5.
        { key: 'some', tier: 'free', certain: false, likely: false },
        { key: 'all', tier: 'ent', certain: true, likely: true },
        { key: 'open', tier: 'free', certain: false, likely: true },
      ]);
      const search = await place.admin.keys({ name: 'api', kinds: ['limited', 'admitted'] });
      const admitted = (await all(search)).flatMap((find) => (find.kind === 'admitted' ? [find] : []));
      // A key that only an unlikely tier denies is also listed in its own.
      expect(admitted.map(({ key, tier, policies }) => [key, tier, policies[0]!.remaining])).to.deep.equal([
        ['some', 'pro', 94],
      ]);
    });

    it('judges a key by the tier of which it alone has state, unless it is denied now', async () => {
      const tiers = { free: ['m=5/1h'], pro: ['m=100/1h', 'day=1000/1d'] };
      const limiter = make({ name: 'api', store: place.store, tiers });
      await known('api');
      await limiter.consume('pro', { tier: 'pro', cost: 5 });
      const facts = async () => {
        const search = await place.admin.keys({ name: 'api', kinds: ['limited', 'admitted'] });
        return (await all(search)).flatMap((find) =>
          find.kind === 'limited' || find.kind === 'admitted'
            ? [[find.kind, find.tier, find.certain, find.likely]]
            : [],
        );
      };
      expect(await facts()).to.have.deep.members([
        ['admitted', 'pro', true, true],
        ['limited', 'free', false, false],
      ]);
      const views = await place.admin.key('pro', { name: 'api' });
      expect(views.map(({ tier, likely }) => [tier, likely])).to.deep.equal([
        ['free', false],
        ['pro', true],
      ]);
      // A customer that changed to tier free still has the state of tier pro.
      expect((await limiter.consume('pro', { tier: 'free' })).allowed).to.equal(false);
      await until(async () => (await facts()).some(([, , certain, likely]) => certain && likely));
    });

    describe('of tiers with one count', () => {
      const tiers = { free: ['minute=3/1h by account'], pro: ['minute=100/1h by account'] };
      let limiter: Limiter;
      beforeEach(() => {
        limiter = make({ name: 'api', store: place.store, tiers, overrides: true });
        return known('api');
      });

      /** The likely tiers of an account, as `key` and a list judge it, and whether `key` has the end of a denial. */
      const judged = async (account: string) => {
        const views = await place.admin.key(account, { name: 'api', dimension: 'account' });
        const search = await place.admin.keys({ name: 'api', kinds: ['limited', 'admitted'] });
        const found = (await all(search)).flatMap((find) =>
          (find.kind === 'limited' || find.kind === 'admitted') && find.key === account && find.likely
            ? [find]
            : [],
        );
        const likely = views.filter((view) => view.likely);
        return {
          key: likely.map(({ tier, allowed }) => `${tier} ${allowed}`),
          list: found.map(({ kind: fact, tier, certain }) => `${fact} ${tier} ${certain}`),
          ends: likely.map(({ retryAfterMs }) => (retryAfterMs ?? 0) > 0),
        };
      };

      it('judges a key that is denied now by the tier that denies it', async () => {
        await limiter.consume({ account: 'evil' }, { tier: 'free', cost: 3 });
        expect(await judged('evil')).to.deep.equal({
          ...{ key: ['free false', 'pro true'], list: ['limited free false'], ends: [true, false] },
        });
        await limiter.consume({ account: 'evil' }, { tier: 'free' });
        await until(async () => (await judged('evil')).key.length === 1);
        expect(await judged('evil')).to.deep.equal({
          ...{ key: ['free false'], list: ['limited free true'], ends: [true] },
        });
      });

      it('judges a key that is full in a higher tier by that tier', async () => {
        const spend = (cost: number) => limiter.consume({ account: 'big' }, { tier: 'pro', cost });
        await spend(100);
        // All requests of a second are denied.
        await place.admin.traffic();
        await new Promise((resolve) => setTimeout(resolve, 1200));
        await spend(1);
        await until(async () => {
          const { limiters } = await place.admin.traffic({ keys: 20 });
          return limiters.some(({ keys }) => keys.some(({ key, denied }) => key === 'big' && denied > 0));
        });
        expect(await judged('big')).to.deep.equal({
          ...{ key: ['pro false'], list: ['limited pro true'], ends: [true] },
        });
        // Some units have come back since the denial, which show no lower tier.
        await limiter.refund({ account: 'big' }, 4, { tier: 'pro' });
        expect(await judged('big')).to.deep.equal({
          ...{ key: ['pro true'], list: ['admitted pro true'], ends: [false] },
        });
      });

      it('judges no key by the denials of an override of all keys that has ended', async () => {
        await limiter.overrideAll({ minute: { limit: 5 } });
        const spend = () => limiter.consume({ account: 'rich' }, { tier: 'pro', cost: 2 });
        await until(async () => !(await spend()).allowed);
        // In the second of the last decision, all are denied.
        for (let i = 0; i < 2; i++) {
          await new Promise((resolve) => setTimeout(resolve, 1200));
          await spend();
        }
        await until(async () => {
          const { limiters } = await place.admin.traffic({ keys: 20 });
          return limiters.some(({ keys }) => keys.some(({ key, denied }) => key === 'rich' && denied > 0));
        });
        await limiter.removeOverride(undefined);
        // The account has used 4, and tier free admits 3.
        expect(await judged('rich')).to.deep.equal({
          ...{ key: ['pro true'], list: ['admitted pro true'], ends: [false] },
        });
      });

      it('judges a key that used more than a tier admits by its newest second', async () => {
        await limiter.consume({ account: 'moved' }, { tier: 'pro', cost: 4 });
        await limiter.consume({ account: 'moved' }, { tier: 'pro', cost: 97 });
        await place.admin.traffic();
        await new Promise((resolve) => setTimeout(resolve, 1200));
        // Too much for tier pro, which admitted another request in the same second.
        expect((await judged('moved')).key).to.deep.equal(['pro true']);
        await until(async () => {
          await limiter.consume({ account: 'moved' }, { tier: 'free' });
          return String((await judged('moved')).key) === 'free false';
        });
        expect((await judged('moved')).list).to.deep.equal(['limited free true']);
      });
    });

    it('judges no tier of a key by a denial of the key of another dimension', async () => {
      const tiers = { free: ['cap=3/1h'], pro: ['many=100/1h', 'cap=2/1h by address'] };
      const limiter = make({ name: 'shop', store: place.store, tiers });
      await known('shop');
      // The key was free before. As `pro`, its address is denied by a policy with the name of the policy of the tier `free`.
      await limiter.consume({ key: 'dan' }, { tier: 'free', cost: 3 });
      for (let i = 0; i < 4; i++) await limiter.consume({ key: 'dan', address: '10.0.0.1' }, { tier: 'pro' });
      const views = () => place.admin.key('dan', { name: 'shop' });
      await until(async () => (await views()).some((view) => view.deniedLately !== undefined));
      expect((await views()).map(({ tier, likely }) => [tier, likely])).to.deep.equal([
        ['free', true],
        ['pro', true],
      ]);
    });

    it('judges a key by the states that it used, of buckets, too', async () => {
      const tiers = {
        free: ['token-bucket 10/1h burst 2', 'm=5/1h'],
        pro: ['token-bucket 100/1h', 'm=5/1h'],
        max: ['m=50/1h'],
      };
      const limiter = make({ name: 'api', store: place.store, tiers });
      await known('api');
      const likely = async (key: string) =>
        (await place.admin.key(key, { name: 'api' })).flatMap((view) => (view.likely ? [view.tier] : []));
      const listed = async () =>
        (await all(place.admin.limited({ name: 'api' }))).map((find) => [find.key, find.tier, find.likely]);
      // A bucket of another rate is another state, although its name and its window are the same.
      await limiter.consume('pro', { tier: 'pro' });
      expect(await likely('pro')).to.deep.equal(['pro']);
      // An untouched bucket whose burst is not its limit is not used.
      await limiter.consume('max', { tier: 'max', cost: 6 });
      expect(await likely('max')).to.deep.equal(['max']);
      expect(await listed()).to.deep.equal([['max', 'free', false]]);
      const search = await place.admin.keys({ name: 'api', kinds: ['admitted'] });
      const tier = (await all(search)).flatMap((find) => (find.kind === 'admitted' ? [find.tier] : []));
      expect(tier).to.have.members(['pro', 'max']);
      await limiter.consume('full', { tier: 'free', cost: 2 });
      const [view] = await place.admin.key('full', { name: 'api' });
      expect(view!.policies[0]).to.include({ limit: 10, burst: 2, remaining: 0 });
    });

    it('says that a reset frees the slots of running work', async () => {
      const limiter = make({ name: 'api', store: place.store, policies: ['concurrency 1/1m'] });
      await known('api');
      const held = await limiter.acquire('ada');
      const { warnings, policies } = await place.admin.reset('ada', { name: 'api' });
      expect(policies).to.deep.equal(['default']);
      expect(warnings.map(({ code }) => code)).to.deep.equal(['SLOTS_FREED']);
      await held.release();
      expect((await place.admin.reset('ada', { name: 'api' })).warnings).to.deep.equal([]);
    });

    it('warns of freed slots by the policies that had charges, not by their names', async () => {
      const tiers = { jobs: ['concurrency 1/1m'], web: ['5/1h'] };
      const limiter = make({ name: 'api', store: place.store, tiers });
      await known('api');
      const codesOf = async (options: object) => {
        const { policies, warnings } = await place.admin.reset('ada', { name: 'api', ...options });
        return [...policies, ...warnings.map(({ code }) => code)];
      };
      for (const options of [{}, { tier: 'web' }, { policies: '5/1h' }, { tiers }]) {
        await limiter.consume('ada', { tier: 'web' });
        expect(await codesOf(options), JSON.stringify(options)).to.deep.equal(['default']);
      }
      for (const options of [{}, { tier: 'jobs' }, { policies: 'concurrency 1/1m' }, { tiers }]) {
        const held = await limiter.acquire('ada', { tier: 'jobs' });
        expect(await codesOf(options), JSON.stringify(options)).to.deep.equal(['default', 'SLOTS_FREED']);
        await held.release();
      }
    });

    it('shows no state of the probes of a store that had failed', async () => {
      const probe = make({ name: 'headgate-probe', store: place.store, policies: ['5/1h'] });
      await probe.consume('idle');
      const limiter = make({ name: 'api', store: place.store, policies: ['5/1h'] });
      await limiter.consume('ada');
      const names = (await place.admin.usage()).map(({ name }) => name);
      // In memory there are no probes, so the name is free.
      expect(names.includes('headgate-probe')).to.equal(kind === 'memory');
      expect(names).to.include('api');
    });

    it('denies a banned key without quota until both have ended', async () => {
      const limiter = make({ name: 'api', store: place.store, policies: ['1/1h'], ban: {} });
      await known('api');
      await limiter.consume('ada');
      await limiter.ban('ada', '1m');
      const { retryAfterMs } = await limiter.peek('ada');
      const [view] = await place.admin.key('ada', { name: 'api' });
      expect(view).to.include({ allowed: false, reason: 'banned' });
      expect(view!.retryAfterMs).to.be.within(retryAfterMs! - 60_000, retryAfterMs!);
      expect(view!.bannedForMs).to.be.at.most(60_000);
    });

    it('finds a tenant that gets less than it wants, with its share and the reason', async () => {
      const limiter = make({
        name: 'llm',
        store: place.store,
        policies: ['p=10/1h by provider share tenant'],
      });
      await known('llm');
      const spend = (tenant: string, cost: number) =>
        limiter.consume({ provider: 'openai', tenant }, { cost });
      await spend('globex', 1);
      for (let i = 0; i < 8; i++) await spend('acme', 1);
      const denied = await spend('acme', 2);
      expect(denied.allowed).to.equal(false);
      const views = await place.admin.key('acme', { cost: 2 });
      const tenant = views.find(({ within }) => within === 'provider openai')!;
      expect(tenant).to.include({ allowed: false, reason: denied.reason, dimension: 'tenant', stored: true });
      expect(tenant.policies[0]).to.include({ limit: 10, share: denied.policies[0]!.share });
      expect((await place.admin.key('openai')).find(({ dimension }) => dimension === 'provider')).to.include({
        allowed: true,
      });
      const named = await place.admin.key('acme', { name: 'llm', dimension: 'tenant' });
      expect(named.map(({ within }) => within)).to.deep.equal(['provider openai']);
    });

    it('lists denied keys with the override that the limits of an operator do not mention', async () => {
      const limiter = make({ name: 'api', store: place.store, policies: ['1/1h'], overrides: true });
      await limiter.override('ada', '100/1h');
      await limiter.consume('ada');
      await limiter.consume('bob');
      const limited = await all(place.admin.limited({ name: 'api', policies: ['1/1h'] }));
      expect(limited.map(({ key }) => key)).to.deep.equal(['bob']);
    });
  });

describe('admin of memory with keys from before', () => {
  it('counts the keys whose names are unknown', async () => {
    const store = memoryStore();
    const limiter = limiterOn(store, { name: 'api', limit: 1, window: '1h' });
    await limiter.consume('ada');
    const admin = createAdmin(store);
    const search = await admin.keys({ name: 'api', kinds: ['limited'] });
    expect(await all(search)).to.deep.equal([]);
    expect(search.unnamed).to.equal(1);
    await limiter.consume('ada');
    expect(await all(admin.limited())).to.have.lengthOf(1);
    expect(search.unnamed).to.equal(0);
    await limiter.close();
  });
});

const { sqlite } = places;
// A run without a driver of SQLite leaves it out.
if (sqlite)
  describe('admin of a store whose limiters are unknown', () => {
    let place: Place;
    const { make } = useLimiters(sqlite, (opened) => (place = opened));

    /** Deletes the limits in the file. */
    const forget = () =>
      sqliteFileOf(place.store)!.transactions.read((database) =>
        database.all("DELETE FROM headgate WHERE key LIKE '{options}%' RETURNING key"),
      );

    it('finds the bans of a key, and never admits it', async () => {
      const limiter = make({ name: 'api', store: place.store, policies: ['2/1h'], ban: {} });
      await limiter.consume('ada');
      await limiter.ban('ada', '1h', { by: 'eve' });
      await limiter.consume('bob');
      const other = place.again();
      expect(await other.key('bob')).to.have.nested.property('[0].allowed', true);
      // An earlier version wrote no limits.
      forget();
      const [ada, ...others] = await other.key('ada');
      expect(ada).to.include({ name: 'api', allowed: false, reason: 'banned', bannedBy: 'eve' });
      expect(others).to.deep.equal([]);
      expect(await other.key('bob')).to.have.nested.property('[0].allowed', null);
      expect(await other.key('carl')).to.deep.equal([]);
    });
  });
