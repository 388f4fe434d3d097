// The same expectations over memory, SQLite and Redis: answers differ in nothing.
import { expect } from 'chai';
import type { Limiter } from 'headgate';
import { all, until, type Place, useLimiters } from './stores.js';

const NOTE = { by: 'ada', reason: 'INC-7' };

export function adminSuite(kind: string, open: () => Promise<Place>): void {
  describe(`headgate/admin on ${kind}`, () => {
    let place: Place;
    let limiter: Limiter;

    const { make, known } = useLimiters(open, (opened) => (place = opened));

    beforeEach(async () => {
      limiter = make({ name: 'api', limit: 2, window: '1h', ban: {}, overrides: true });
      await known('api');
    });

    it('limiters: policies, bans and overrides of each', async () => {
      await limiter.override('vip', '9/1h');
      const { limiters, warnings } = await place.admin.limiters({ name: 'api' });
      expect(warnings).to.deep.equal([]);
      expect(limiters.map(({ name, overridden }) => ({ name, overridden }))).to.deep.equal([
        { name: 'api', overridden: { keys: 1, all: null } },
      ]);
      expect(limiters[0]!.configurations[0]).to.deep.include({
        policies: ['2/1h'],
        shadow: false,
        overrides: true,
      });
    });

    it('limiters: the traits of the policies of any tier', async () => {
      make({ name: 'plain', limit: 2, window: '1h', tiers: { pro: '9/1h' } });
      make({ name: 'slots', tiers: { free: 'concurrency 2/1m', pro: '9/1h' } });
      make({ name: 'shared', policies: ['9/1h by org share tenant'] });
      for (const name of ['plain', 'slots', 'shared']) await known(name);
      const { limiters } = await place.admin.limiters();
      const traits = Object.fromEntries(limiters.map((each) => [each.name, each.traits]));
      expect(traits).to.deep.include({
        plain: { holdsSlots: false, sharesLimits: false },
        slots: { holdsSlots: true, sharesLimits: false },
        shared: { holdsSlots: false, sharesLimits: true },
      });
    });

    it('key: verdict, ban with its note, and override, by every limiter, tier and dimension', async () => {
      make({
        name: 'two',
        tiers: { free: '5/1h', pro: '50/1h' },
        policies: ['7/1h', { name: 'org', limit: 8, window: '1h', by: 'org' }],
      });
      await known('two');
      await limiter.consume('a');
      const [view] = await place.admin.key('a', { name: 'api' });
      expect(view).to.deep.include({ name: 'api', key: 'a', allowed: true, bannedForMs: 0, stored: true });
      expect(view!.policies[0]).to.deep.include({ name: 'default', limit: 2, remaining: 1, allowed: true });
      await limiter.consume('a');
      expect((await place.admin.key('a', { name: 'api' }))[0]).to.deep.include({
        allowed: false,
        reason: 'quota-exceeded',
      });
      await place.admin.ban('a', '1h', { name: 'api', ...NOTE });
      const [banned] = await place.admin.key('a', { name: 'api' });
      expect(banned).to.deep.include({
        allowed: false,
        reason: 'banned',
        bannedBy: 'ada',
        banReason: 'INC-7',
      });
      const every = await place.admin.key('a');
      expect(every.map(({ name, dimension, tier }) => [name, tier, dimension])).to.deep.equal([
        ['api', undefined, 'key'],
        ['two', undefined, 'key'],
        ['two', undefined, 'org'],
        ['two', 'free', 'key'],
        ['two', 'pro', 'key'],
      ]);
    });

    it('limited and bans: the keys that are denied now', async () => {
      for (const key of ['a', 'a', 'a', 'b', 'ä', 'ä']) await limiter.consume(key);
      await limiter.ban('c', '1h', NOTE);
      await until(async () => (await all(place.admin.bans())).some(({ by }) => by === 'ada'));
      const limited = await all(place.admin.limited({ name: 'api' }));
      const keys = limited.map(({ key }) => (typeof key === 'string' ? key : 'hash')).sort();
      expect(keys).to.deep.equal(kind === 'sqlite' || kind === 'postgres' ? ['a', 'hash'] : ['a', 'ä']);
      expect(limited[0]).to.include({ kind: 'limited', name: 'api', policy: 'default', overridden: false });
      const [ban] = await all(place.admin.bans({ name: 'api' }));
      expect(ban).to.include({ kind: 'banned', name: 'api', key: 'c', by: 'ada', reason: 'INC-7' });
      expect(ban!.bannedForMs).to.be.within(1, 3_600_000);
    });

    it('ban, unban and reset: results, and values before and after in the log', async () => {
      const banned = await place.admin.ban('a', '1h', { name: 'api', ...NOTE });
      expect(banned).to.deep.include({
        name: 'api',
        keys: ['a'],
        bannedForMs: 3_600_000,
        ...NOTE,
        warnings: [],
      });
      expect((await limiter.peek('a')).reason).to.equal('banned');
      expect(
        (await place.admin.ban('a', '1m', { name: 'api' })).warnings.map(({ code }) => code),
      ).to.deep.equal(['SHORTENED']);
      expect(await place.admin.unban('a', { name: 'api', by: 'grace' })).to.deep.include({
        banned: 1,
        denials: 0,
      });
      await limiter.consume('a');
      expect(await place.admin.reset('a', { name: 'api', ...NOTE })).to.deep.include({
        policies: ['default'],
      });
      expect((await limiter.peek('a')).remaining).to.equal(2);
      const log = await all(place.admin.log());
      const shown = log.map(({ action, key, by, from }) => [action, key, by, from]);
      expect(shown).to.deep.equal([
        ['reset', 'a', 'ada', 'admin'],
        ['unban', 'a', 'grace', 'admin'],
        ['ban', 'a', null, 'admin'],
        ['ban', 'a', 'ada', 'admin'],
      ]);
      expect(log[3])
        .to.include({ after: 3_600_000, forMs: 3_600_000, reason: 'INC-7' })
        .and.not.have.property('before');
      expect(log[2]!.before).to.be.within(3_500_000, 3_600_000);
      expect(log[0]!.before).to.deep.equal(['default']);
    });

    it('overrides: of a key and of all keys, with values before and after in the log', async () => {
      const { admin } = place;
      const done = await admin.override('a', '20/1h', { name: 'api', for: '1d', ...NOTE });
      expect(done).to.deep.include({ key: 'a', replaced: false });
      expect((await limiter.consume('a')).limit).to.equal(20);
      await admin.override('a', '30/1h', { name: 'api' });
      await admin.overrideAll('3/1h', { name: 'api', ...NOTE });
      const found = await all(admin.overrides());
      expect(found.map(({ key, change }) => [key ?? 'all', change]).sort()).to.deep.equal([
        ['a', '30/1h'],
        ['all', '3/1h'],
      ]);
      expect((await admin.removeOverride('a', { name: 'api', by: 'eve' })).replaced).to.equal(true);
      expect((await admin.removeOverride('a', { name: 'api' })).replaced).to.equal(false);
      const log = await all(admin.log({ actions: ['override', 'remove'] }));
      expect(log.map(({ action, key, before, after, by }) => [action, key, before, after, by])).to.deep.equal(
        [
          ['remove', 'a', '30/1h', undefined, 'eve'],
          ['override', undefined, undefined, '3/1h', 'ada'],
          ['override', 'a', '20/1h', '30/1h', null],
          ['override', 'a', undefined, '20/1h', 'ada'],
        ],
      );
    });

    it("the log has the limiter's own calls, bans by denials, and changed configurations", async () => {
      await limiter.consume('c');
      const strict = make({ name: 'strict', limit: 1, window: '1h', ban: { after: 1, for: '1h' } });
      for (let i = 0; i < 3; i++) await strict.consume('attacker');
      await limiter.ban('a', '1h', NOTE);
      await limiter.override('a', '9/1h', NOTE);
      await limiter.reset('a');
      await limiter.close();
      await make({ name: 'api', limit: 5, window: '1h' }).consume('b');
      const { admin } = place;
      await until(async () => (await all(admin.log())).length >= 5);
      const log = await all(admin.log());
      expect(
        log.map(({ action, key, from }) => `${action} ${JSON.stringify(key)} ${from}`).sort(),
      ).to.deep.equal([
        'ban "a" program',
        'ban "attacker" denials',
        'configure undefined program',
        'override "a" program',
        'reset "a" program',
      ]);
      const changed = log.find(({ action }) => action === 'configure')!;
      expect(changed).to.include({ name: 'api', by: null });
      expect(
        [changed.before, changed.after].map((value) => (value as { policies: string[] }).policies),
      ).to.deep.equal([['2/1h'], ['5/1h']]);
      expect(await all(admin.log({ since: new Date(Date.now() + 60_000) }))).to.deep.equal([]);
    });

    it('changes of several interfaces are in one log, in order', async () => {
      const other = place.again({ from: 'cli' });
      for (let i = 0; i < 6; i++)
        await (i % 2 === 0 ? place.admin : other).ban(`k${i}`, '1h', { name: 'api', force: true });
      const log = await all(other.log());
      expect(log.map(({ key, from }) => [key, from])).to.deep.equal(
        [5, 4, 3, 2, 1, 0].map((i) => [`k${i}`, i % 2 === 0 ? 'admin' : 'cli']),
      );
    });

    it('a ban of addresses in another dimension than that of the key', async () => {
      const address = { name: 'addressed', policies: [{ limit: 9, window: '1h', by: 'address' }] } as const;
      const limiter = make({ ...address, ban: { by: 'address' } });
      await known('addressed');
      const options = { name: 'addressed', dimension: 'address' };
      const bans = [
        await place.admin.ban('198.51.100.0/30', '1h', options),
        await place.admin.ban('2001:db8:7::5', '1h', options),
        await place.admin.ban('customer/7', '1h', options),
        await place.admin.ban('1.2', '1h', options),
      ];
      expect(bans.map(({ keys }) => keys)).to.deep.equal([
        ['198.51.100.0', '198.51.100.1', '198.51.100.2', '198.51.100.3'],
        ['2001:db8:7::/56'],
        ['customer/7'],
        ['1.2'],
      ]);
      expect(await limiter.peek({ address: '198.51.100.2' })).to.include({ reason: 'banned' });
    });

    it('the effects of an import, line by line, without a change', async () => {
      const { admin } = place;
      await admin.ban('a', '1h', { name: 'api', ...NOTE });
      const ban = (key: string, length: string) => ({ name: 'api', key, for: length });
      const list = [
        ban('a', '30m'),
        ban('a', '2h'),
        ban('b', '1h'),
        ban('b', '1h'),
        ban('10.0.0.0/30', '1h'),
      ];
      const effects = await admin.previewBans([...list, ban('', '1h'), ban('c', 'x')]);
      expect(effects.map((each) => ('error' in each ? 'refused' : [each.effect, each.keys]))).to.deep.equal([
        ...[
          ['same', 1],
          ['longer', 1],
          ['new', 1],
          ['same', 1],
          ['new', 4],
        ],
        ...['refused', 'refused'],
      ]);
      expect(effects[5])
        .to.have.property('error')
        .that.matches(/is empty/);
      expect(effects[1]).to.include({ after: 7_200_000 });
      expect((await all(admin.bans())).map(({ key }) => key)).to.deep.equal(['a']);

      const wish = (key: string, change: string) => ({ key, change });
      await admin.override('a', '9/1h', { name: 'api', for: '1d', ...NOTE });
      const until = (await all(admin.overrides()))[0]!.until!;
      const wishes = [
        { ...wish('a', '9/1h'), until },
        wish('a', '9/1h'),
        wish('b', '9/1h'),
        wish('c', '9/zz'),
      ];
      const changes = await admin.previewOverrides(wishes, { name: 'api' });
      expect(changes.map((each) => ('error' in each ? 'refused' : each.effect))).to.deep.equal([
        ...['same', 'changed', 'new', 'refused'],
      ]);
      expect((await all(admin.overrides())).map(({ key }) => key)).to.deep.equal(['a']);
    });

    it('long lists come one by one', async function () {
      this.timeout(60_000);
      const keys = Array.from({ length: 10_000 }, (_, i) => ({ name: 'api', key: `k${i}`, for: '1h' }));
      expect(await place.admin.importBans(keys, NOTE)).to.include({ banned: 10_000, already: 0 });
      let count = 0;
      for await (const _ of place.admin.bans({ name: 'api' })) if (++count === 10) break;
      expect(count).to.equal(10);
      const seen = new Set<unknown>();
      for await (const { key } of place.admin.bans()) seen.add(key);
      expect(seen.size).to.equal(10_000);
      const [change] = await all(place.admin.log());
      expect(change).to.include({ action: 'import', keys: 10_000, by: 'ada' });
    });

    it('usage: the states of each limiter', async () => {
      for (const key of ['a', 'b', 'c']) await limiter.consume(key);
      const [usage] = await place.admin.usage();
      expect(usage).to.include({ name: 'api', states: 3 });
      if (kind === 'memory') expect(usage!.bytes).to.equal(null);
      else expect(usage!.bytes).to.be.within(100, 3000);
    });

    it('traffic is empty where nothing counts, and check finds no error', async () => {
      expect(await place.admin.traffic({ seconds: 10 })).to.deep.equal({
        ...{ spanMs: 10_000, instances: 0, isSampled: false, latency: null, limiters: [], processes: [] },
      });
      expect((await place.admin.check()).filter(({ level }) => level === 'error')).to.deep.equal([]);
    });

    it('refuses wrong arguments, by name and with a correct value', async () => {
      const { admin } = place;
      const codes = async (...calls: (() => unknown)[]) => {
        const found: unknown[] = [];
        for (const call of calls) {
          try {
            await call();
            found.push(undefined);
          } catch (error) {
            found.push((error as { code: string }).code);
          }
        }
        return found;
      };
      expect(
        await codes(
          () => admin.ban('', '1h', { name: 'api' }),
          () => admin.ban('a', 'soon', { name: 'api' }),
          () => admin.ban('a', '1h', {} as never),
          () => admin.ban('a', '1h', { name: 'api', why: 'x' } as never),
          () => admin.ban('a', '1h', { name: 'api', by: ' ' }),
          () => admin.ban('10.0.0.0/40', '1h', { name: 'api' }),
          () => all(admin.log({ since: new Date('x') })),
          () => all(admin.log({ actions: ['nothing'] as never })),
          () => admin.override('a', '0/1h', { name: 'api' }),
          () => admin.traffic({ seconds: 0 }),
          () => admin.key('a', { name: 'api', cost: -1 }),
        ),
      ).to.deep.equal([
        'HEADGATE_INVALID_ARGUMENT',
        'HEADGATE_INVALID_OPTION',
        'HEADGATE_INVALID_ARGUMENT',
        'HEADGATE_UNKNOWN_OPTION',
        'HEADGATE_INVALID_OPTION',
        'HEADGATE_INVALID_ARGUMENT',
        'HEADGATE_INVALID_OPTION',
        'HEADGATE_INVALID_OPTION',
        'HEADGATE_INVALID_OPTION',
        'HEADGATE_INVALID_OPTION',
        'HEADGATE_INVALID_OPTION',
      ]);
      expect(await all(admin.log())).to.deep.equal([]);
    });

    it('a limiter whose name is not ASCII: its changes are in the log, with their limiter', async () => {
      const named = make({ name: 'münchen', limit: 2, window: '1h', ban: {} });
      await known('münchen');
      await place.admin.ban('a', '1h', { name: 'münchen', ...NOTE });
      await named.unban('a', { by: 'grace' });
      await place.admin.ban('b', '1h', { name: 'münchen', ...NOTE });
      const expected = [
        ['ban', 'münchen'],
        ['unban', 'münchen'],
        ['ban', 'münchen'],
      ];
      for (const filter of [{}, { name: 'münchen' }]) {
        const log = await all(place.admin.log(filter));
        expect(log.map(({ action, name }) => [action, name])).to.deep.equal(expected);
      }
      expect((await place.admin.key('b', { name: 'münchen' }))[0]).to.include({ bannedBy: 'ada' });
    });

    it('limited: a removed override is not in force', async () => {
      await limiter.override('a', '1/1h');
      await limiter.consume('a');
      const [overridden] = await all(place.admin.limited({ name: 'api' }));
      expect(overridden).to.include({ overridden: true });
      await limiter.removeOverride('a');
      await limiter.consume('a');
      const [plain] = await all(place.admin.limited({ name: 'api' }));
      expect(plain).to.include({ key: 'a', overridden: false });
    });

    it('refuses damaged lists by their entry, and changes nothing', async () => {
      const { admin } = place;
      await limiter.overrideAll('9/1h');
      const refusal = async (call: () => Promise<unknown>) => {
        const error = (await call().then(
          () => ({ message: 'done' }),
          (reason: unknown) => reason,
        )) as { code?: string; message: string };
        return `${error.code} ${error.message.split('\n')[0]}`;
      };
      const good = { name: 'api', key: 'a', for: '1h' };
      for (const list of ['x', null, 5] as never[]) {
        expect(await refusal(() => admin.importBans(list))).to.match(
          /^HEADGATE_INVALID_ARGUMENT importBans: /,
        );
        const many = () => admin.overrideMany(list, { name: 'api' });
        expect(await refusal(many)).to.match(/^HEADGATE_INVALID_ARGUMENT overrideMany: /);
      }
      for (const entry of [null, 5, {}, { key: 'a' }, { change: '5/1h' }] as never[])
        expect(await refusal(() => admin.overrideMany([entry], { name: 'api' }))).to.match(
          /^HEADGATE_INVALID_ARGUMENT \[0\]: /,
        );
      for (const entry of [
        null,
        5,
        {},
        { name: 'api', key: 'a' },
        { ...good, extra: 1 },
        { ...good, key: null },
      ])
        expect(await refusal(() => admin.importBans([good, entry as never]))).to.match(
          /^HEADGATE_\w+ \[1\]: /,
        );
      expect(await all(admin.bans())).to.deep.equal([]);
      expect((await all(admin.overrides())).map(({ change }) => change)).to.deep.equal(['9/1h']);
    });

    it('refuses unknown kinds of facts, a dimension without bans, and a timeout that is too long', async () => {
      const { admin } = place;
      expect(await admin.keys({ kinds: ['x'] as never }).catch(String)).to.match(/kinds: "x"/);
      const unban = admin.unban('a', { name: 'api', dimension: 'org' });
      const code = await unban.catch((error: unknown) => (error as { code: string }).code);
      expect(code).to.equal('HEADGATE_NO_BANS');
      for (const timeout of ['x', '15m'])
        expect(() => place.again({ timeout })).to.throw("Pass '1ms' to '1m'");
    });

    if (kind !== 'sqlite' && kind !== 'postgres')
      it('refuses a limiter that is not known, or that does not check for bans', async () => {
        make({ name: 'open', limit: 1, window: '1h' });
        await known('open');
        const refusal = (name: string) =>
          place.admin.ban('a', '1h', { name }).catch((error: unknown) => (error as { code: string }).code);
        expect(await refusal('nope')).to.equal('HEADGATE_UNKNOWN_LIMITER');
        expect(await refusal('open')).to.equal('HEADGATE_NO_BANS');
        const forced = await place.admin.ban('a', '1h', { name: 'open', force: true });
        expect(forced.warnings.map(({ code }) => code)).to.deep.equal(['NO_BAN']);
      });
  });
}
