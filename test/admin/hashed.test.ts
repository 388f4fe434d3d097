// The administration of a database that hashes its keys: each key is hashed together with its dimension.
import { join } from 'node:path';
import { expect } from 'chai';
import { createAdmin } from 'headgate/admin';
import { limiterOn } from '../support/stores.js';
import { describeSqlite, makeDirectory, storeOn } from '../support/sqlite.js';
import { all } from './stores.js';

describeSqlite('the administration of hashed keys in a database', () => {
  const open = (options: object) => {
    const store = storeOn(join(makeDirectory(), 'limits.db'), { hashKeys: 'a secret of the tests' });
    return {
      store,
      limiter: limiterOn(store, { name: 'api', ...options } as never),
      admin: createAdmin(store),
    };
  };

  it('limited finds denied keys of each dimension, because the policy of the state has it', async () => {
    const policies = [
      { name: 'ip', limit: 1, window: '1h' },
      { name: 'org', limit: 1, window: '1h', by: 'org' },
    ];
    const { store, limiter, admin } = open({ policies });
    await limiter.consume({ org: 'acme' });
    const found = await all(admin.limited());
    expect(found.map(({ dimension, policy }) => [dimension, policy])).to.deep.equal([['org', 'org']]);
    await limiter.close();
    await store.close?.();
  });

  it('a hash is refused in place of a key, because it would be another key', async () => {
    const { store, limiter, admin } = open({ limit: 9, window: '1h', ban: {}, overrides: true });
    await admin.ban('ada', '1h', { name: 'api' });
    await admin.override('ada', '5/1h', { name: 'api' });
    const [banned] = await all(admin.bans());
    const hash = `hmac:${(banned!.key as { hash: string }).hash}`;
    const of = { name: 'api' };
    const calls: Record<string, () => Promise<unknown>> = {
      ban: () => admin.ban(hash, '2h', of),
      unban: () => admin.unban(hash, of),
      override: () => admin.override(hash, '3/1h', of),
      removeOverride: () => admin.removeOverride(hash, of),
      reset: () => admin.reset(hash, of),
      key: () => admin.key(hash, of),
      importBans: () => admin.importBans([{ ...of, key: hash, for: '2h' }]),
    };
    for (const [what, call] of Object.entries(calls)) {
      const error = (await call().catch((thrown: unknown) => thrown)) as { code?: string; message?: string };
      expect(error, what).to.have.property('code', 'HEADGATE_INVALID_ARGUMENT');
      expect(error.message, what).to.include('needs the key itself, not its hash');
    }
    expect(await all(admin.bans())).to.have.lengthOf(1);
    expect(await all(admin.overrides())).to.have.lengthOf(1);
    // Taken literally, the text is a key like any other.
    await admin.override(hash, '3/1h', { ...of, raw: true });
    expect((await limiter.overrideOf(hash))!.change).to.equal('3/1h');
    await limiter.close();
    await store.close?.();
  });

  it('an override of a key, or its removal, cannot be undone, because the log has only a hash', async () => {
    const { store, limiter, admin } = open({ limit: 9, window: '1h', overrides: true });
    const refusal = async () => {
      const [newest] = await all(admin.log());
      for (const dryRun of [true, false]) {
        const error = (await admin.undo(newest!, { dryRun }).catch((thrown: unknown) => thrown)) as object;
        expect(error).to.have.property('code', 'HEADGATE_CANNOT_UNDO');
      }
    };
    await admin.override('ada', '5/1h', { name: 'api' });
    await admin.override('ada', '3/1h', { name: 'api' });
    await refusal();
    expect((await limiter.overrideOf('ada'))!.change).to.equal('3/1h');
    await admin.removeOverride('ada', { name: 'api' });
    await refusal();
    expect(await all(admin.overrides())).to.deep.equal([]);
    await limiter.close();
    await store.close?.();
  });

  it('an override of all keys is listed with the name of its limiter, and can be undone', async () => {
    const { store, limiter, admin } = open({ limit: 9, window: '1h', overrides: true });
    const other = limiterOn(store, { name: '日本', limit: 9, window: '1h', overrides: true });
    for (const name of ['api', '日本']) {
      await admin.overrideAll('3/1h', { name });
      const listed = await all(admin.overrides());
      expect(listed.map((each) => [each.name, each.key])).to.deep.equal([[name, undefined]]);
      const [last] = await all(admin.log());
      expect((await admin.undo(last!)).action).to.equal('remove');
      expect(await all(admin.overrides())).to.deep.equal([]);
    }
    await limiter.close();
    await other.close();
    await store.close?.();
  });

  it('key shows no guessed answer to a tenant of slots, because the key of the limit is unknown', async () => {
    const { store, limiter, admin } = open({
      algorithm: 'concurrency',
      limit: 2,
      lease: '1h',
      by: 'key',
      share: 'tenant',
    });
    await limiter.consume({ key: 'provider', tenant: 'acme' });
    const views = await admin.key('acme', { dimension: 'tenant' });
    expect(views.filter(({ within }) => within !== undefined)).to.deep.equal([]);
    await limiter.close();
    await store.close?.();
  });
});
