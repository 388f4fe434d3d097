// The looks at state by which a search of all keys finds the limited ones.
import { expect } from 'chai';
import { createLimiter } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { RedisState } from '../../src/admin/redis/redis-state.js';
import { clients, freshPrefix } from '../support/stores.js';

describe('a search for limited keys', () => {
  it('looks once at a key with states of several policies, whatever page of the search has them', async () => {
    const prefix = freshPrefix();
    const store = redisStore(clients.redis, { prefix });
    const policies = ['few=2/1h', 'many=fixed-window 100/1h'];
    const limiter = createLimiter({ name: 'api', store, policies });
    for (let i = 0; i < 40; i++) for (let n = 0; n < (i < 5 ? 3 : 1); n++) await limiter.consume(`user:${i}`);
    let looked = 0;
    const { prototype } = RedisState;
    const { look } = prototype;
    prototype.look = function (set, owners) {
      looked += owners.length;
      return look.call(this, set, owners);
    };
    const found: unknown[] = [];
    try {
      const search = createAdmin(clients.redis, { prefix }).limited({ name: 'api', policies, count: 10 });
      for await (const { key } of search) found.push(key);
    } finally {
      prototype.look = look;
      await limiter.close();
    }
    expect(found.sort()).to.deep.equal([0, 1, 2, 3, 4].map((i) => `user:${i}`));
    expect(looked).to.equal(40);
  });
});
