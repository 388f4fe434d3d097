// The stream of thresholds as two stores on the same state see it, one after the other or in two processes.
import { expect } from 'chai';
import { createLimiter, type Store } from 'headgate';
import { createAdmin } from 'headgate/admin';
import type { TestClock } from './clock.js';

const policies = [
  { name: 'month', algorithm: 'calendar', limit: 10, period: 'month', by: 'org', thresholds: [0.8, 1] },
  { name: 'minute', limit: 5, window: '1m', thresholds: [1] },
] as const;

/** Charges on a store with a stream until several thresholds are crossed. */
export async function crossThresholds(store: Store): Promise<void> {
  const limiter = createLimiter({ name: 'plan', store, timeout: '30s', policies });
  for (const key of ['a', 'a', 'a', 'a', 'a', 'b', 'b', 'b', 'b', 'b'])
    await limiter.consume({ key, org: 'acme {1}' });
}

/** Fails unless each group reads each crossing of `crossThresholds` until it acknowledges the crossing. @param clock the store's clock */
export async function expectCrossings(store: Store, clock: TestClock): Promise<void> {
  const mail = createAdmin(store).thresholds({ group: 'mail', redeliverAfter: '30s' });
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
  await mail.ack(...rest, { id: 'not an id' });
  expect(await createAdmin(store).thresholds({ group: "bill'ing" }).read()).to.have.length(4);
  clock.now += 29_999;
  expect(await mail.read()).to.deep.equal([]);
  clock.now += 1;
  expect(await mail.read()).to.deep.equal([one]);
  await mail.ack(one!);
  clock.now += 60_000;
  expect(await mail.read()).to.deep.equal([]);
}
