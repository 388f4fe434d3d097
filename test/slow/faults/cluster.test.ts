import assert from 'node:assert/strict';
import type { Suite } from 'mocha';
import { createLimiter, type Clock, type Policy } from 'headgate';
import { redisStore } from 'headgate/redis';
import { contractChecks } from 'headgate-testing';
import { describeChecks } from '../../support/kit.js';
import { freshPrefix } from '../../support/stores.js';
import { clusterKinds, type TestClient } from './clients.js';
import { majorOf, TestCluster } from './failover.js';
import { MODES, until } from './load.js';
import { check, play } from './play.js';

const severalPolicies: readonly Policy[] = [
  { name: 'burst', algorithm: 'token-bucket', limit: 5, window: '1m', burst: 2 },
  { name: 'hour', algorithm: 'sliding-window', limit: 100, window: '1h' },
  { name: 'day', algorithm: 'fixed-window', limit: 1000, window: '1d' },
];

describe('a cluster of six nodes', function () {
  this.timeout(180_000);
  let cluster: TestCluster;
  before(async () => (cluster = await TestCluster.start('redis')));
  after(() => cluster.stop());

  for (const [name, connect] of Object.entries(clusterKinds)) {
    it(`thousands of keys over cold script caches, several policies a key, by ${name}`, async () => {
      for (const admin of cluster.admins) await admin.script('FLUSH');
      const { client, end } = connect(cluster.ports);
      const limiter = createLimiter({
        store: redisStore(client, { prefix: freshPrefix() }),
        policies: severalPolicies,
        ban: { after: 100, within: '1m', for: '1m' },
        onStoreError: 'throw',
        timeout: '10s',
      });
      const keys = Array.from({ length: 3000 }, (_, i) => `user-${i}-}{${i}`);
      const admitted = await Promise.all(keys.map((key) => limiter.consume(key)));
      assert.ok(admitted.every(({ allowed, remaining }) => allowed && remaining === 1));
      await Promise.all(keys.map((key) => limiter.consume(key)));
      const denied = await Promise.all(keys.map((key) => limiter.consume(key)));
      assert.ok(denied.every(({ allowed, policy }) => !allowed && policy === 'burst'));
      await limiter.reset(keys[0]!);
      assert.ok((await limiter.consume(keys[0]!)).allowed);
      await limiter.close();
      end();
    });

    describe(`by ${name}`, () => {
      let made: TestClient;
      before(() => (made = connect(cluster.ports)));
      after(() => made.end());
      const createStore = (clock: Clock) => redisStore(made.client, { clock, prefix: freshPrefix() });
      describeChecks(`a cluster by ${name}`, contractChecks({ createStore }));
    });

    it(`a slot is moved while its keys are decided, by ${name}`, async () => {
      const { client, end } = connect(cluster.ports);
      const limiter = createLimiter({
        // Denials without a call would keep this process from moving the slot.
        store: redisStore(client, { prefix: freshPrefix(), localDenials: false }),
        policies: severalPolicies,
        onStoreError: 'throw',
        timeout: '10s',
      });
      const key = 'moving';
      const began = performance.now();
      await limiter.consume(key);
      const slot = await cluster.slotOf(key);
      let moved = false;
      let decided = 0;
      let remaining = 0;
      const deciding = Array.from({ length: 8 }, async () => {
        while (!moved) {
          const decision = await limiter.consume(key);
          assert.ok(!decision.degraded);
          decided++;
          if (decision.allowed) remaining++;
        }
      });
      const all = Promise.all(deciding);
      await Promise.all([all, cluster.moveSlot(slot, 20).finally(() => (moved = true))]);
      assert.ok(decided > 10);
      // The bucket has one of two units left, and gains one every 12 s.
      const gained = Math.ceil((performance.now() - began) / 12_000);
      assert.ok(remaining <= 1 + gained, `${remaining} more were admitted, of 1 and ${gained} gained`);
      await limiter.close();
      end();
    });

    it(`a charge from before its slot moved is given back, by ${name}`, async () => {
      const { client, end } = connect(cluster.ports);
      const prefix = freshPrefix();
      const store = redisStore(client, { prefix });
      const limiterOf = (name: string, policies: readonly Policy[]) =>
        createLimiter({ name, store, policies, onStoreError: 'throw', timeout: '1s' });
      const quotas = limiterOf('quotas', severalPolicies.slice(1));
      const slots = limiterOf('slots', [
        { name: 'few', algorithm: 'concurrency', limit: 5, lease: '1h' },
        { name: 'many', algorithm: 'concurrency', limit: 50, lease: '1h' },
      ]);
      const used = async (limiter: typeof quotas, key: string) =>
        (await limiter.peek(key)).policies.map(({ limit, remaining }) => limit - remaining);

      // The keys have been moved, except the keys that record give-backs, which do not exist yet. Redis then refuses each call with both
      // kinds of keys, and the clients stop retrying before the slot is closed.
      const decisions = await Promise.all(
        Array.from({ length: 9 }, () => quotas.consume('moved', { cost: 3 })),
      );
      const moved = await cluster.openSlot(await cluster.slotOf(`${prefix}:{quotas:moved}`));
      await moved.moveKeys();
      await Promise.all(decisions.map((decision) => decision.settle(1)));
      await moved.close();
      // Calls that took too long may have brought the server down for a moment.
      await until(async () => String(await used(quotas, 'moved').catch(() => [])) === '9,9');

      // The keys are still on the old server. A key that a script deletes there cannot be requested any more.
      await quotas.consume('here', { cost: 5 });
      const here = await cluster.openSlot(await cluster.slotOf(`${prefix}:{quotas:here}`));
      await quotas.refund('here', 5);
      await here.close();
      assert.deepEqual(await used(quotas, 'here'), [0, 0]);

      const held = await slots.consume('held');
      const holding = await cluster.openSlot(await cluster.slotOf(`${prefix}:{slots:held}`));
      assert.equal(await held.release(), true);
      await holding.close();
      assert.deepEqual(await used(slots, 'held'), [0, 0]);
      await quotas.close();
      await slots.close();
      end();
    });
  }
});

// Valkey moves slots in one step since 9.0. CI has 8.0: see docs/versions.md.
if (majorOf('valkey') >= 9) describe('a cluster of Valkey that moves slots in one step', movesSlots);

function movesSlots(this: Suite): void {
  this.timeout(180_000);
  let cluster: TestCluster;
  before(async () => (cluster = await TestCluster.start('valkey')));
  after(() => cluster.stop());

  for (const [name, connect] of Object.entries(clusterKinds)) {
    it(`keeps every charge while the slot of the key moves, by ${name}`, async () => {
      const { client, end } = connect(cluster.ports);
      const limiter = createLimiter({
        name: freshPrefix(),
        store: redisStore(client),
        policies: 'fixed-window 1000000/1d',
        onStoreError: 'throw',
        timeout: '10s',
      });
      try {
        await limiter.consume('moving');
        const slot = await cluster.slotOf('moving');
        let [decided, isMoving] = [1, true];
        const deciding = Array.from({ length: 8 }, async () => {
          for (; isMoving; decided++) assert.ok(!(await limiter.consume('moving')).degraded);
        });
        const move = async (): Promise<void> => {
          for (let moves = 0; moves < 3; moves++) await cluster.moveSlotAtOnce(slot);
        };
        await Promise.all([move().finally(() => (isMoving = false)), ...deciding]);
        const { limit, remaining } = await limiter.peek('moving');
        assert.equal(limit - remaining, decided);
        await limiter.reset('moving');
      } finally {
        await limiter.close();
        end();
      }
    });
  }
}

describe('a cluster that loses a primary, under load', function () {
  this.timeout(180_000);
  let cluster: TestCluster;
  before(async () => (cluster = await TestCluster.start('redis')));
  after(() => cluster.stop());

  // Each client loses another primary, because the new primary stays.
  for (const [i, name] of (['ioredis 6', 'ioredis 5', 'node-redis'] as const).entries()) {
    it(`loses at most the charges that were not replicated, by ${name}`, async () => {
      const { client, end } = clusterKinds[name](cluster.ports);
      try {
        const stores = MODES.map(() => redisStore(client, { prefix: freshPrefix() }));
        const scene = {
          forgets: true,
          break: () => cluster.kill(i),
          mend: () => cluster.failedOver(i),
        } as const;
        const outcome = await play(scene, stores, () => 0);
        await check(`a primary of a cluster killed (${name})`, scene, stores, outcome);
      } finally {
        end();
      }
    });
  }
});
