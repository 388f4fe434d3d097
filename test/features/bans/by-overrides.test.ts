// The bans by denials since an override began, if there are very many.
import { expect } from 'chai';
import { createLimiter, memoryStore } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { all } from '../../admin/stores.js';

const NAMED = { name: 'api', by: 'ada', reason: 'attack' };

describe('many bans by denials since an override began', () => {
  const open = async (keys: number) => {
    const store = memoryStore({ maxKeys: 50_000 });
    const ban = { after: 1, within: '10m', for: '1h' } as const;
    const options = { name: 'api', store, limit: 100, window: '1m', overrides: true, ban } as const;
    const limiter = createLimiter({ ...options, warnings: false });
    const admin = createAdmin(store);
    await admin.ban('before', '1h', NAMED);
    await admin.overrideAll({ limit: 1 }, { ...NAMED, for: '1h' });
    for (let i = 0; i < keys; i++) for (const _ of [1, 2]) await limiter.consume(`c${i}`);
    const banned = async () => (await all(admin.bans())).length;
    return { limiter, admin, banned };
  };

  it('all end, and the log keeps earlier changes', async () => {
    const { limiter, admin, banned } = await open(1300);
    expect(await banned()).to.equal(1301);
    const { unbanned, warnings } = await admin.removeOverride(undefined, { ...NAMED, unban: true });
    expect([unbanned!.length, warnings]).to.deep.equal([1300, []]);
    expect(await banned()).to.equal(1);
    const log = await all(admin.log({ actions: ['unban'] }));
    expect(log.map(({ keys }) => keys)).to.deep.equal([300, ...Array.from({ length: 1000 }, () => 1)]);
    expect(log[0]).to.include({ name: 'api', by: 'ada' }).and.not.have.property('key');
    const error = (await admin.undo(log[0]!).catch((thrown: unknown) => thrown)) as object;
    expect(error).to.have.property('code', 'HEADGATE_CANNOT_UNDO');
    expect((await admin.undo(log[1]!)).action).to.equal('ban');
    await limiter.close();
  });

  it('the removal of an override reports that there are more than it lists', async () => {
    const { limiter, admin } = await open(1001);
    const { stillBanned, warnings } = await admin.removeOverride(undefined, NAMED);
    expect(stillBanned).to.have.lengthOf(1000);
    expect(warnings.map(({ message }) => message).join()).to.match(/^1000 keys or more are still banned/);
    await limiter.close();
  });

  it('reports that the log no longer has the earlier ones', async () => {
    const { limiter, admin } = await open(10_001);
    const { warnings } = await admin.removeOverride(undefined, { ...NAMED, unban: true });
    expect(warnings.map(({ code }) => code)).to.deep.equal(['STILL_BANNED']);
    expect(warnings[0]!.message).to.include('the log has only the last 10000 automatic changes');
    await limiter.close();
  });
});
