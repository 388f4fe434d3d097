// The keys of imports in the log: only the wanted ones are parsed, and other requests have their turn meanwhile.
import { expect } from 'chai';
import { createLimiter, memoryStore, type Limiter } from 'headgate';
import { createAdmin, type Admin, type LogOptions } from 'headgate/admin';
import { parsesDuring, turnsDuring } from '../support/parses.js';
import { all, places, type Place, useLimiters } from './stores.js';

const IMPORTS = 5;
const KEYS = 200;

const POLICIES = [
  { name: 'own', limit: 1, window: '1h' },
  { name: 'of', limit: 1, window: '1h', by: 'account' },
];

describe('the keys of imports', () => {
  let limiter: Limiter;
  let admin: Admin;
  beforeEach(async () => {
    const store = memoryStore();
    limiter = createLimiter({ store, name: 'api', limit: 2, window: '1h', ban: {} });
    admin = createAdmin(store);
    for (let n = 0; n < IMPORTS; n++)
      await admin.importBans(
        Array.from({ length: KEYS }, (_, i) => ({ name: 'api', key: `k${n}-${i}`, for: '1h' })),
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
