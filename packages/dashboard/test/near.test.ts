// The keys above 80 % of a limit, with their trend and the time until they are full.
import { expect } from 'chai';
import { createLimiter, memoryStore } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { Near } from '../src/near.js';
import { Searches } from '../src/searches.js';

describe('keys near their limit', () => {
  const shown = (key: unknown) => key as never;
  const { now } = Date;
  afterEach(() => {
    Date.now = now;
  });

  it('have their use at once, and their trend and end from the second list on', async () => {
    let time = now();
    Date.now = () => time;
    const store = memoryStore();
    const limiter = createLimiter({
      store,
      name: 'api',
      policies: [{ algorithm: 'fixed-window', limit: 100, window: '1d' }],
    });
    const near = new Near(new Searches(createAdmin(store), shown), shown);
    await limiter.consume('few', { cost: 79 });
    await limiter.consume('many', { cost: 80 });
    await limiter.consume('all', { cost: 100 });
    const first = await near.of('api');
    expect(first).to.deep.include({ isCut: false, isUnknown: false });
    expect(first.rows).to.deep.equal([
      { key: 'all', policy: 'default', used: 100, limit: 100, trend: null, fullInMs: null },
      { key: 'many', policy: 'default', used: 80, limit: 100, trend: null, fullInMs: null },
    ]);
    await limiter.consume('many', { cost: 10 });
    expect(await near.of('api')).to.equal(first);
    time += 20_000;
    const second = await near.of('api');
    expect(second.rows[0]).to.include({ key: 'all', trend: 0, fullInMs: 0 });
    expect(second.rows[1]).to.include({ key: 'many', used: 90, trend: 0.5, fullInMs: 20_000 });
    await limiter.close();
  });

  it('are unknown if the limits depend on the request', async () => {
    const store = memoryStore();
    const near = new Near(new Searches(createAdmin(store), shown), shown);
    expect(await near.of('unknown')).to.deep.equal({ rows: [], isCut: false, isUnknown: true });
  });
});
