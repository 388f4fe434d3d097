// The keys of imports in the log: only the wanted ones are parsed, and other requests have their turn meanwhile.
import { expect } from 'chai';
import { createLimiter, memoryStore, type Limiter, type Store } from 'headgate';
import { createAdmin, type Admin, type LogOptions } from 'headgate/admin';
import { parsesDuring, turnsDuring } from '../support/parses.js';
import { all, places, type Place, until, useLimiters } from './stores.js';

const IMPORTS = 5;
const KEYS = 200;

const POLICIES = [
  { name: 'own', limit: 1, window: '1h' },
  { name: 'of', limit: 1, window: '1h', by: 'account' },
];

describe('the keys of imports', () => {
  let limiter: Limiter;
  let admin: Admin;
  let store: Store;
  beforeEach(async () => {
    store = memoryStore();
    limiter = createLimiter({ store, name: 'api', limit: 2, window: '1h', ban: {} });
    admin = createAdmin(store);
    for (let n = 0; n < IMPORTS; n++)
      await admin.importBans(
        Array.from({ length: KEYS }, (_, i) => ({ name: 'api', key: `k${n}-${i}`, for: '1h' })),
        { by: 'ada' },
      );
  });
  afterEach(() => limiter.close());
  const parsesOf = (options: LogOptions) => parsesDuring(() => all(admin.log(options)));

  it('are parsed only as far as they are returned', async () => {
    const parses = await parsesOf({});
    const changes = await all(admin.log({ withKeys: 3 }));
    expect(changes.map(({ imported }) => imported!.map(({ key }) => key))).to.deep.equal(
      [4, 3, 2, 1, 0].map((n) => [0, 1, 2].map((i) => `k${n}-${i}`)),
    );
    expect(await parsesOf({ withKeys: 3 })).to.equal(parses + 3 * IMPORTS);
    expect(await parsesOf({ withKeys: true })).to.equal(parses + KEYS * IMPORTS);
    expect(await parsesOf({ withKeys: true, name: 'other' })).to.equal(parses - IMPORTS);
    expect(await parsesOf({ withKeys: true, id: 'invented' })).to.equal(0);
    const [, { id } = { id: '' }] = changes;
    const [only, ...others] = await all(admin.log({ withKeys: true, id }));
    expect([only!.id, only!.imported!.length, others]).to.deep.equal([id, KEYS, []]);
    expect(await parsesOf({ withKeys: true, id })).to.be.below(KEYS + 5);
    expect(await parsesOf({ withKeys: [{ name: 'api', key: 'k3-7' }] })).to.equal(parses + 1);
  });

  it('are compared without parsing them, for the changes of a key', async () => {
    const found = await all(admin.log({ key: 'k3-7' }));
    expect(found.map(({ action, forMs }) => [action, forMs])).to.deep.equal([['import', 3_600_000]]);
    expect(await parsesOf({ key: 'k3-7' })).to.be.below(10 * IMPORTS);
  });

  it('leave turns to other requests', async () => {
    for (let i = 0; i < 300; i++) await limiter.ban(`b${i}`, '1h');
    const turnsOf = (options: LogOptions) => turnsDuring(() => all(admin.log(options)));
    expect(await turnsOf({})).to.be.at.least(3);
    expect(await turnsOf({ withKeys: true })).to.be.at.least(3 + IMPORTS - 1);
    expect(await turnsOf({ id: 'invented' })).to.be.at.least(3);
  });

  it('are not read for a key without a ban, and leave turns to other requests for one with a ban', async () => {
    for (let n = 0; n < 25; n++)
      await admin.importBans(
        Array.from({ length: 1000 }, (_, i) => ({ name: 'api', key: `many${n}-${i}`, for: '1h' })),
      );
    const memory = store as unknown as { log: { newest(): unknown } };
    const newest = memory.log.newest.bind(memory.log);
    let reads = 0;
    memory.log.newest = () => (reads++, newest());
    await admin.key('nobody');
    expect(reads).to.equal(0);
    const bannedBy = async () => expect((await admin.key('k0-7'))[0]).to.include({ bannedBy: 'ada' });
    expect(await turnsDuring(bannedBy)).to.be.at.least(1);
    expect(reads).to.equal(1);
    const bans = [{ name: 'api', key: 'k3-7' }];
    expect(await turnsDuring(() => admin.banOrigins(bans))).to.be.at.least(1);
    expect(await admin.banOrigins(bans, { changes: 25 })).to.deep.equal([null]);
    expect(await admin.banOrigins(bans)).to.deep.equal([
      { action: 'import', from: 'admin', by: 'ada', reason: null },
    ]);
  });

  it('are refused for anything but a boolean, a number, or keys', async () => {
    for (const withKeys of ['no', 0, 1.5, 1001, {}, null]) {
      const error = await all(admin.log({ withKeys } as never)).catch((thrown: unknown) => thrown);
      expect(error, JSON.stringify(withKeys)).to.include({ code: 'HEADGATE_INVALID_OPTION' });
    }
  });
});

for (const [kind, open] of Object.entries(places))
  describe(`wanted keys of imports on ${kind}`, () => {
    let place: Place;
    const { make, known } = useLimiters(open, (opened) => (place = opened));

    it('are found by name, key and dimension, long and not ASCII ones, too', async () => {
      make({ name: 'zähler', policies: POLICIES, ban: {} });
      await known('zähler');
      const long = 'x'.repeat(300);
      const wanted = [
        ...['ada', long, 'ä:b'].map((key) => ({ name: 'zähler', key })),
        { name: 'zähler', key: 'ada', dimension: 'account' },
      ];
      const bans = [...wanted, { name: 'zähler', key: 'eve' }].map((each, i) => ({
        ...each,
        for: `${i + 1}h`,
      }));
      await place.admin.importBans(bans, { force: true });
      for (const [i, each] of wanted.entries()) {
        const [change] = await all(place.admin.log({ withKeys: [each], actions: ['import'] }));
        expect(
          change!.imported!.map(({ forMs }) => forMs / 3_600_000),
          JSON.stringify(each),
        ).to.deep.equal([i + 1]);
      }
      const others = [
        { name: 'other', key: 'ada' },
        { name: 'zähler', key: 'ada', within: 'account acme' },
      ];
      const [none] = await all(place.admin.log({ withKeys: others, actions: ['import'] }));
      expect(none!.imported).to.deep.equal([]);
    });

    it('of a network have its dimension', async () => {
      make({ name: 'api', policies: POLICIES, ban: {} });
      await known('api');
      await place.admin.ban('10.0.0.0/30', '1h', { name: 'api', dimension: 'account', force: true });
      await place.admin.ban('10.0.0.0/30', '1h', { name: 'api', force: true });
      const changes = await all(place.admin.log());
      expect(changes.map(({ network, dimension }) => [network, dimension])).to.have.deep.members([
        ['10.0.0.0/30', 'account'],
        ['10.0.0.0/30', undefined],
      ]);
      // The undo ends the bans of the same keys.
      const { id } = changes.find(({ dimension }) => dimension === 'account')!;
      await place.admin.undo(id);
      const left = (await all(place.admin.bans({ name: 'api' }))).map(({ dimension }) => dimension);
      expect(left).to.deep.equal([undefined, undefined, undefined, undefined]);
    });
  });

for (const [kind, open] of Object.entries(places))
  describe(`the origins of bans on ${kind}`, () => {
    let place: Place;
    const { make, known } = useLimiters(open, (opened) => (place = opened));

    it('are those of the newest changes: denials, the program, networks, imports, keys within others', async () => {
      const long = make({ name: 'ü'.repeat(100), policies: POLICIES, ban: {} });
      const limiter = make({ name: 'main', policies: POLICIES, ban: { after: 2, for: '1h' } });
      const slots = make({ name: 'slots', policies: [POLICIES[1]], slotBy: 'account', ban: {} });
      await known('ü'.repeat(100), 'main', 'slots');
      await long.ban({ key: 'hashed', account: 'a' }, '1h');
      for (let i = 0; i < 4; i++) await limiter.consume({ key: 'denied', account: 'a' });
      await limiter.ban({ key: 'programs', account: 'a' }, '1h');
      await slots.ban({ key: 'within', account: 'acme' }, '1h');
      const name = { name: 'main' };
      await place.admin.ban('192.0.2.0/30', '1h', { ...name, by: 'ada' });
      await place.admin.importBans([
        { ...name, key: 'imported', for: '2h' },
        { ...name, key: 'other', for: '2h' },
      ]);
      await place.admin.ban('undone', '1h', { ...name, by: 'ada' });
      const { id } = (await all(place.admin.log({ key: 'undone' })))[0]!;
      await place.admin.ban('ended', '1h', name);
      await place.admin.unban('ended', name);
      await place.admin.undo(id);
      await until(async () => (await all(place.admin.log())).length >= 10);
      const keys = ['denied', 'programs', '192.0.2.1', '192.0.2.0/30', 'imported', 'undone', 'ended', 'none'];
      const bans = [
        ...keys.map((key) => ({ ...name, key })),
        { name: 'slots', key: 'within', within: 'account acme' },
        { name: 'slots', key: 'within' },
        { name: 'ü'.repeat(100), key: 'hashed' },
      ];
      const origins = await place.admin.banOrigins(bans);
      expect(origins.map((each) => each && [each.action, each.from, each.by ?? each.reason])).to.deep.equal([
        ['ban', 'denials', 'denied by policy own'],
        ['ban', 'program', null],
        ['ban', 'admin', 'ada'],
        ['ban', 'admin', 'ada'],
        ['import', 'admin', null],
        ...[null, null, null],
        ['ban', 'program', null],
        null,
        ['ban', 'program', null],
      ]);
      const found = (await all(place.admin.bans())).filter((ban) => ban.by === null);
      const ofFound = (await place.admin.banOrigins(found)).map((each) => each?.from);
      expect(ofFound).to.have.members(['denials', 'program', 'admin', 'admin', 'program', 'program']);
    });
  });
