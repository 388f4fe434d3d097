import { join } from 'node:path';
import { expect } from 'chai';
import { createLimiter } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { TestClock } from '../support/clock.js';
import { describeSqlite, makeDirectory, storeOn } from '../support/sqlite.js';

describeSqlite('the stream of thresholds in a file', () => {
  const policies = [
    { name: 'month', algorithm: 'calendar', limit: 10, period: 'month', by: 'org', thresholds: [0.8, 1] },
    { name: 'minute', limit: 5, window: '1m', thresholds: [1] },
  ] as const;

  it('each group reads each crossing until it acknowledges it, also after a restart', async () => {
    const path = join(makeDirectory(), 'limits.db');
    const clock = new TestClock();
    const first = storeOn(path, { thresholds: 'stream', clock: clock.read });
    const limiter = createLimiter({ name: 'plan', store: first, timeout: '10s', policies });
    for (const key of ['a', 'a', 'a', 'a', 'a', 'b', 'b', 'b', 'b', 'b'])
      await limiter.consume({ key, org: 'acme {1}' });
    await first.close?.();

    const second = storeOn(path, { clock: clock.read });
    const mail = createAdmin(second).thresholds({ group: 'mail', redeliverAfter: '30s' });
    const [one, ...rest] = [...(await mail.read({ count: 2 })), ...(await mail.read())];
    const shown = [one!, ...rest].map(
      ({ name, dimension, key, policy, threshold, used, limit }) =>
        `${name as string} ${policy} ${dimension ?? 'key'}=${key as string} ${threshold}: ${used}/${limit}`,
    );
    expect(shown).to.have.members([
      'plan minute key=a 1: 5/5',
      'plan month org=acme {1} 0.8: 8/10',
      'plan month org=acme {1} 1: 10/10',
      'plan minute key=b 1: 5/5',
    ]);
    await mail.ack(...rest);
    expect(await createAdmin(second).thresholds({ group: 'billing' }).read()).to.have.length(4);
    clock.now += 29_999;
    expect(await mail.read()).to.deep.equal([]);
    clock.now += 1;
    expect(await mail.read()).to.deep.equal([one]);
    await mail.ack(one!);
    clock.now += 60_000;
    expect(await mail.read()).to.deep.equal([]);
    await second.close?.();
  });

  it('hashed keys stay hashed', async () => {
    const hashKeys = 'a secret of 16 characters';
    const store = storeOn(join(makeDirectory(), 'limits.db'), { thresholds: 'stream', hashKeys });
    const limiter = createLimiter({ store, limit: 1, window: '1h', thresholds: [1], timeout: '10s' });
    await limiter.consume('ada');
    const [crossing] = await createAdmin(store).thresholds({ group: 'mail' }).read();
    expect(crossing!.key).to.have.property('hash');
    await store.close?.();
  });

  it('without the option, nothing is written for readers', async () => {
    const store = storeOn(join(makeDirectory(), 'limits.db'));
    await createLimiter({ store, limit: 1, window: '1h', thresholds: [1], timeout: '10s' }).consume('k');
    expect(await createAdmin(store).thresholds({ group: 'mail' }).read()).to.deep.equal([]);
    await store.close?.();
  });
});
