// Law 20 on Redis: every pair of features; and on a cluster acrossSlots beside every other feature.
import { expect } from 'chai';
import type { HeadgateError } from 'headgate';
import { redisStore } from 'headgate/redis';
import { refusedPairs } from '../../scripts/docs/together.js';
import { FEATURE_NAMES } from '../../src/contract/together.js';
import { startCluster, type TestCluster } from '../support/cluster.js';
import { describePairs } from '../support/feature-pairs.js';
import { tryOut } from '../support/feature-samples.js';
import { clients, freshPrefix } from '../support/stores.js';

describePairs('redis', ({ store }) => redisStore(clients.redis, { prefix: freshPrefix(), ...store }));

describe('law 20: pairs of features, on a cluster', () => {
  let cluster: TestCluster;
  let client: Awaited<ReturnType<TestCluster['connect']>>;
  before(async () => {
    cluster = await startCluster('redis');
    client = await cluster.connect();
  });
  after(async () => {
    client.disconnect();
    await cluster.stop();
  });

  for (const other of FEATURE_NAMES) {
    if (other === 'acrossSlots') continue;
    it(`acrossSlots + ${other}`, async () => {
      const refusal = refusedPairs().get(['acrossSlots', other].sort().join(' + '));
      const failure = await tryOut(['acrossSlots', other], ({ store }) =>
        redisStore(client, { prefix: freshPrefix(), ...store }),
      ).then(
        () => undefined,
        (error: HeadgateError) => error,
      );
      expect(failure?.code, failure?.stack).to.equal(refusal?.code);
    });
  }
});
