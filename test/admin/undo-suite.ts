// Undoing logged changes.
import { expect } from 'chai';
import type { Limiter } from 'headgate';
import type { LoggedChange } from 'headgate/admin';
import { all, until, type Place, useLimiters } from './stores.js';

const NOTE = { by: 'ada', reason: 'INC-7' };

export function undoSuite(kind: string, open: () => Promise<Place>): void {
  describe(`undo on ${kind}`, () => {
    let place: Place;
    let limiter: Limiter;

    const { make, known } = useLimiters(open, (opened) => (place = opened));

    beforeEach(async () => {
      limiter = make({ name: 'api', limit: 2, window: '1h', ban: {}, overrides: true });
      await known('api');
    });

    const named = { name: 'api', ...NOTE };
    const last = async (): Promise<LoggedChange> => (await all(place.admin.log()))[0]!;
    const bannedFor = async (key: string) => (await place.admin.key(key, { name: 'api' }))[0]!.bannedForMs;
    const overrideOf = async (key: string) => (await place.admin.key(key, { name: 'api' }))[0]!.override;
    const codeOf = async (entry: LoggedChange | string) => {
      const error = await place.admin.undo(entry, NOTE).catch((thrown: unknown) => thrown);
      return (error as { code?: string }).code;
    };

    it('a ban: ends, or the earlier ban returns for its rest', async () => {
      await place.admin.ban('a', '1h', named);
      const first = await last();
      await place.admin.ban('a', '2h', named);
      const second = await last();
      expect(await codeOf(first)).to.equal('HEADGATE_CHANGED_SINCE');
      const dry = await place.admin.undo(second.id, { dryRun: true });
      expect(dry).to.deep.include({ action: 'ban', warnings: [] });
      expect(await bannedFor('a')).to.be.above(7_000_000);
      const { action, change } = await place.admin.undo(second, { by: 'eve' });
      expect([action, change.id, change.key]).to.deep.equal(['ban', second.id, 'a']);
      expect(await bannedFor('a')).to.be.within(3_590_000, 3_600_000);
      expect(await last()).to.include({
        action: 'ban',
        by: 'eve',
        reason: `undo of ${second.id}`,
        undoes: second.id,
      });
      // The first ban is in force again, so that its undo is possible, too.
      expect((await place.admin.undo(first, NOTE)).action).to.equal('unban');
      expect(await bannedFor('a')).to.equal(0);
      expect(await codeOf(first)).to.equal('HEADGATE_CHANGED_SINCE');
    });

    it('an unban, and a ban of a network', async () => {
      await place.admin.ban('a', '1h', named);
      await place.admin.unban('a', named);
      expect((await place.admin.undo(await last(), NOTE)).action).to.equal('ban');
      expect(await bannedFor('a')).to.be.within(3_590_000, 3_600_000);
      await place.admin.ban('203.0.113.0/30', '1h', named);
      const network = await last();
      await place.admin.unban('203.0.113.2', named);
      expect(await codeOf(network)).to.equal('HEADGATE_CHANGED_SINCE');
      expect((await place.admin.undo(await last(), NOTE)).action).to.equal('ban');
      expect((await place.admin.undo(network, NOTE)).action).to.equal('unban');
      for (const key of ['203.0.113.0', '203.0.113.3']) expect(await bannedFor(key)).to.equal(0);
      expect(
        (await all(place.admin.log({ key: '203.0.113.0/30' }))).map(({ action }) => action),
      ).to.deep.equal(['unban', 'ban']);
    });

    it('a ban that returns has its own author and reason again, and the log has those of the undo', async () => {
      await place.admin.ban('a', '1h', named);
      await place.admin.ban('a', '2h', { name: 'api', by: 'eve', reason: 'mistake' });
      await place.admin.undo(await last(), { by: 'joe' });
      const noted = async () => {
        const [view] = await place.admin.key('a', { name: 'api' });
        return { by: view!.bannedBy, reason: view!.banReason };
      };
      expect(await noted()).to.deep.equal(NOTE);
      await place.admin.unban('a', { name: 'api', by: 'eve', reason: 'another mistake' });
      await place.admin.undo(await last(), { by: 'joe', reason: 'no' });
      expect(await last()).to.include({ action: 'ban', by: 'joe', reason: 'no' });
      expect(await noted()).to.deep.equal(NOTE);
      const [ban] = await all(place.admin.bans({ name: 'api' }));
      expect(ban).to.include(NOTE);
    });

    it('an override and its removal: the earlier override returns with its end', async () => {
      await place.admin.override('a', '9/1h', { ...named, for: '1d' });
      const first = await last();
      await place.admin.override('a', '99/1h', named);
      const second = await last();
      expect(await codeOf(first)).to.equal('HEADGATE_CHANGED_SINCE');
      expect((await place.admin.undo(second, NOTE)).action).to.equal('override');
      const restored = (await overrideOf('a'))!;
      expect(restored).to.include({ change: '9/1h', by: 'ada', reason: 'INC-7', all: false });
      expect(restored.until!.getTime() - Date.now()).to.be.within(86_390_000, 86_401_000);
      expect(await last()).to.include({ action: 'override', undoes: second.id, after: '9/1h' });
      await place.admin.removeOverride('a', named);
      expect((await place.admin.undo(await last(), NOTE)).action).to.equal('override');
      expect((await overrideOf('a'))!.change).to.equal('9/1h');
      await place.admin.overrideAll('7/1h', named);
      expect((await place.admin.undo(await last(), NOTE)).action).to.equal('remove');
      expect((await overrideOf('b'))?.change).to.equal(undefined);
      expect(await last()).to.include({ action: 'remove' });
    });

    it('a ban or an import by hand: denials, and the growth of bans, stay as they were', async () => {
      const { admin } = place;
      const ban = { after: 3, within: '1h', for: '20ms', max: '1h' };
      const strict = make({ name: 'strict', limit: 1, window: '1h', ban });
      await known('strict');
      const deny = async (key: string, times: number) => {
        for (let i = 0; i < times; i++) expect((await strict.consume(key)).allowed).to.equal(i === 0);
      };
      const named = { name: 'strict', ...NOTE };
      for (const key of ['a', 'b']) await deny(key, 3);
      await deny('grown', 4);
      await new Promise((resolve) => setTimeout(resolve, 30));
      for (const key of ['a', 'grown']) {
        await admin.ban(key, '1h', named);
        expect((await admin.undo(await last(), NOTE)).action).to.equal('unban');
      }
      await admin.importBans([{ name: 'strict', key: 'b', for: '1h' }], NOTE);
      expect((await admin.undo(await last(), NOTE)).action).to.equal('unban');
      expect((await strict.peek('grown')).reason).to.equal('quota-exceeded');
      expect(await admin.unban('grown', named)).to.include({ banned: 0, lastBanMs: 20 });
      for (const key of ['a', 'b']) {
        expect((await strict.peek(key)).reason, key).to.equal('quota-exceeded');
        expect(await admin.unban(key, named), key).to.include({ banned: 0, denials: 2, lastBanMs: 0 });
      }
    });

    it('an import: its bans end, earlier ones return for their rest, and keys with another ban keep it', async () => {
      const { admin } = place;
      await admin.ban('a', '1h', { ...named, by: 'grace', reason: 'first' });
      const keys = ['a', 'b', 'c', '10.0.0.0/30', 'd:{}'];
      await admin.importBans(
        keys.map((key) => ({ name: 'api', key, for: '2h' })),
        NOTE,
      );
      const entry = await last();
      expect(entry).to.include({ action: 'import', keys: 8 }).and.not.to.have.any.keys('after', 'key');
      await admin.unban('c', named);
      const { action, warnings } = await admin.undo(entry, NOTE);
      expect(action).to.equal('unban');
      expect(warnings.map(({ code, message }) => [code, message])).to.deep.equal([
        ['CHANGED_SINCE', '1 of 8 keys have another ban now, or none, and keep it.'],
      ]);
      expect(await bannedFor('a')).to.be.within(3_590_000, 3_601_000);
      expect((await all(admin.bans())).map(({ key, by, reason }) => [key, by, reason])).to.deep.equal([
        ['a', 'grace', 'first'],
      ]);
      expect(await last()).to.include({ action: 'unban', keys: 7, undoes: entry.id, by: 'ada' });
      expect(await codeOf(entry)).to.equal('HEADGATE_CHANGED_SINCE');

      await admin.importBans([{ name: 'api', key: 'alone', for: '2h' }], NOTE);
      expect(await last()).to.include({ action: 'import', keys: 1, key: 'alone' });
      await admin.undo(await last(), NOTE);
      expect(await last()).to.include({ action: 'unban', keys: 1, key: 'alone' });
      expect(await bannedFor('alone')).to.equal(0);
    });

    it('bans of networks and imports keep their author and reason, also after an undo', async () => {
      const { admin } = place;
      const notes = async () =>
        new Map((await all(admin.bans())).map(({ key, by, reason }) => [key, `${by} ${reason}`]));
      const api = { name: 'api', for: '2h' };
      await admin.ban('203.0.113.0/31', '1h', { name: 'api', by: 'grace', reason: 'net' });
      await admin.importBans(
        [
          { ...api, key: '203.0.113.0' },
          { ...api, key: 'b', by: 'olga', reason: 'own' },
          { ...api, key: 'c', by: null },
        ],
        { by: 'eve', reason: 'feed' },
      );
      const expected = new Map(
        Object.entries({
          ...{ b: 'olga own', c: 'null null' },
          ...{ '203.0.113.0': 'eve feed', '203.0.113.1': 'grace net' },
        }),
      );
      expect(await notes()).to.deep.equal(expected);
      await admin.ban('203.0.113.1', '3h', { name: 'api', by: 'zoe', reason: 'longer' });
      await admin.undo(await last(), NOTE);
      expect(await notes()).to.deep.equal(expected);
      await admin.unban('203.0.113.0', named);
      await admin.undo(await last(), NOTE);
      expect(await notes()).to.deep.equal(expected);
      const [entry] = await all(admin.log({ actions: ['import'] }));
      await admin.undo(entry!, NOTE);
      expect(await notes()).to.deep.equal(
        new Map(['203.0.113.0', '203.0.113.1'].map((key) => [key, 'grace net'])),
      );
    });

    it('refuses changes that cannot be restored, and unknown ids', async () => {
      await limiter.consume('a');
      await place.admin.reset('a', named);
      expect(await codeOf(await last())).to.equal('HEADGATE_CANNOT_UNDO');
      const many = Array.from({ length: 1001 }, (_, i) => ({ name: 'api', key: `k${i}`, for: '1h' }));
      await place.admin.importBans(many, NOTE);
      expect(await codeOf(await last())).to.equal('HEADGATE_CANNOT_UNDO');
      await place.admin.ban('b', '20ms', named);
      const ended = await last();
      await until(async () => (await bannedFor('b')) === 0);
      expect(await codeOf(ended)).to.equal('HEADGATE_CANNOT_UNDO');
      expect(await codeOf('nope')).to.equal('HEADGATE_UNKNOWN_CHANGE');
    });
  });
}
