// An operator's change wakes the requests that wait for the key.
import { expect } from 'chai';
import { createLimiter, memoryStore, type Limiter } from 'headgate';
import { createAdmin, type Admin } from 'headgate/admin';

/** Each change, and the reason for which a request waits before it. */
const changes: Record<
  string,
  [before: (limiter: Limiter) => Promise<unknown>, change: (admin: Admin) => unknown]
> = {
  reset: [(limiter) => limiter.consume('k', { cost: 2 }), (admin) => admin.reset('k', { name: 'api' })],
  unban: [(limiter) => limiter.ban('k', '1h'), (admin) => admin.unban('k', { name: 'api' })],
  'unban with fresh': [
    async (limiter) => {
      await limiter.consume('k', { cost: 2 });
      await limiter.ban('k', '1h');
    },
    (admin) => admin.unban('k', { name: 'api', fresh: true }),
  ],
  'an override with a higher limit': [
    (limiter) => limiter.consume('k', { cost: 2 }),
    (admin) => admin.override('k', { limit: 5 }, { name: 'api' }),
  ],
  'the end of an override': [
    async (limiter) => {
      await limiter.override('k', { limit: 2 });
      await limiter.consume('k');
    },
    (admin) => admin.removeOverride('k', { name: 'api' }),
  ],
};

describe('waiting requests and changes by an operator', () => {
  for (const [name, [before, change]] of Object.entries(changes))
    it(`in memory, ${name} lets a request go on at once`, async () => {
      const store = memoryStore();
      const limiter = createLimiter({ name: 'api', store, limit: 3, window: '1h', ban: {}, overrides: true });
      await before(limiter);
      const waiting = limiter.wait('k', { cost: 2 });
      await limiter.peek('k');
      await change(createAdmin(store));
      expect((await waiting).allowed).to.equal(true);
    });
});
