// The authors of bans without a note, which only the log knows.
import { expect } from 'chai';
import { memoryStore, type Limiter } from 'headgate';
import { createAdmin, type Admin } from 'headgate/admin';
import { all } from '../../../test/admin/stores.js';
import { limiterOn } from '../../../test/support/stores.js';
import { BanAuthors, authorOf } from '../src/ban-authors.js';

const UNKNOWN = 'unknown: automatic, an import, or your code';
const BY_DENIALS = 'denials: denied by policy default';

describe('the author of a ban without a note', () => {
  let admin: Admin;
  let limiters: Limiter[];

  beforeEach(async () => {
    const store = memoryStore();
    admin = createAdmin(store);
    limiters = ['api', 'web'].map((name) =>
      limiterOn(store, { name, limit: 1, window: '1h', ban: { after: 2, for: '1m' } }),
    );
    for (const limiter of limiters) for (let i = 0; i < 4; i++) await limiter.consume('wild');
  });
  afterEach(() => Promise.all(limiters.map((limiter) => limiter.close())));

  /** The authors of the bans of a key, as `list` and as `key` show them. */
  const authors = async (key: string) => {
    const views = await admin.key(key);
    const listed = new BanAuthors(admin);
    return Promise.all(
      views.map(async (view) => {
        expect(view.bannedForMs).to.be.above(0);
        const author = await listed.of({ name: view.name, key, dimension: 'key', by: null, reason: null });
        const behind = await authorOf(admin, view);
        expect(behind).to.equal(author === UNKNOWN ? `, author ${UNKNOWN}` : ` by ${author}`);
        return `${view.name}: ${author}`;
      }),
    );
  };
  const imported = (...keys: readonly string[]) =>
    admin.importBans(keys.map((key) => ({ name: 'api', key, for: '5h' })));
  const many = (count: number) => Array.from({ length: count }, (_, i) => `key-${i}`);

  it('is denials, also if an import bans other keys', async () => {
    await imported('other', 'another');
    expect(await authors('wild')).to.deep.equal([`api: ${BY_DENIALS}`, `web: ${BY_DENIALS}`]);
  });

  for (const [what, others] of [
    ['an import of this key', []],
    ['an import with this key', ['other']],
    ['an import of so many keys that the log has none of them', many(1000)],
  ] as const)
    it(`is unknown after ${what}`, async () => {
      await imported('wild', ...others);
      expect(await authors('wild')).to.deep.equal([`api: ${UNKNOWN}`, `web: ${BY_DENIALS}`]);
    });

  it('is the author of a later ban, and denials again after the import is undone', async () => {
    await imported('wild', 'other');
    const [newest] = await all(admin.log());
    await admin.undo(newest!.id);
    expect(await authors('wild')).to.deep.equal([`api: ${BY_DENIALS}`, `web: ${BY_DENIALS}`]);
    await imported('wild', ...many(1000));
    await limiters[0]!.ban('wild', '9h');
    expect(await authors('wild')).to.deep.equal(['api: the program', `web: ${BY_DENIALS}`]);
  });

  it('is read from the log only as far as it is needed', async () => {
    for (let i = 0; i < 20; i++) await imported(`key-${i}`);
    await limiters[0]!.ban('eve', '1h');
    let read = 0;
    const log: Admin['log'] = async function* (options) {
      for await (const change of admin.log(options)) {
        read++;
        yield change;
      }
    };
    const listed = new BanAuthors({ ...admin, log });
    const author = () => listed.of({ name: 'api', key: 'eve', by: null, reason: null });
    expect([await author(), await author(), read]).to.deep.equal(['the program', 'the program', 1]);
  });
});
