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
