// Units and slots that are given back while the store is down are given back when it is up again.
import assert from 'node:assert/strict';
import { createLimiter, memoryStore, type Policy, type Store } from 'headgate';
import { redisStore } from 'headgate/redis';
import { servers } from '../../support/shared-servers.js';
import { freshPrefix } from '../../support/stores.js';
import { Backlog } from '../../../src/limiter/guard/backlog.js';
import { clientKinds } from './clients.js';
import { sleep, until } from './load.js';
import { Proxy } from './proxy.js';

const POLICIES: Policy[] = [
  { name: 'quota', algorithm: 'fixed-window', limit: 1000, window: '10m' },
  { name: 'slots', algorithm: 'concurrency', limit: 1000, lease: '10m' },
];

describe('give-backs', () => {
  for (const [name, connect] of Object.entries(clientKinds)) {
    it(`of requests that were denied while replies stalled are not lost, by ${name}`, async () => {
      const proxy = new Proxy(servers.redis.port);
      await proxy.open();
      const { client, end } = connect(proxy.port);
      const limiter = createLimiter({
        store: redisStore(client, { prefix: freshPrefix() }),
        policies: POLICIES,
        onStoreError: 'deny',
        timeout: '50ms',
      });
      assert.ok((await limiter.consume('key')).allowed);
      const held = await Promise.all(Array.from({ length: 50 }, () => limiter.consume('key')));
      proxy.hold();
      // The server runs these calls, but their callers are denied before the replies arrive.
      const decisions: Promise<{ degraded: boolean }>[] = [];
      for (let i = 0; i < 100; i++) {
        decisions.push(limiter.consume('key'));
        await sleep(10);
      }
      assert.ok((await Promise.all(decisions)).every(({ degraded }) => degraded));
      assert.equal(limiter.health.state, 'down');
      // Cancelling fails for no decision, and does not wait for the store.
      await Promise.all(held.map((decision) => decision.cancel()));
      proxy.release();
      const rest = async () => (await limiter.peek('key')).policies.map(({ remaining }) => remaining);
      // A single request keeps its unit.
      await until(async () => (await rest()).join() === '999,999').catch(() => {});
      assert.deepEqual(await rest(), [999, 999]);
      await limiter.close();
      end();
      await proxy.close();
    });
  }

  for (const [name, connect] of Object.entries(clientKinds)) {
    it(`of slots whose reply was lost with its connection, by ${name}`, async () => {
      const proxy = new Proxy(servers.redis.port);
      await proxy.open();
      const { client, end } = connect(proxy.port);
      const limiter = createLimiter({
        ...{ store: redisStore(client, { prefix: freshPrefix() }), onStoreError: 'deny', timeout: '5s' },
        policies: [{ name: 'slots', algorithm: 'concurrency', limit: 1000, lease: '10m' }],
      });
      const isBack = () => until(async () => !(await limiter.peek('key')).degraded);
      let held = 0;
      let lost = 0;
      for (let round = 0; round < 5; round++) {
        await isBack();
        proxy.cutNextReply();
        const decisions = await Promise.all(Array.from({ length: 20 }, () => limiter.consume('key')));
        for (const { allowed, degraded } of decisions) {
          if (allowed) held++;
          if (degraded) lost++;
        }
      }
      assert.ok(lost > 0, 'no reply was lost');
      await isBack();
      const left = async () => (await limiter.peek('key')).remaining;
      await until(async () => (await left()) === 1000 - held).catch(() => {});
      assert.equal(await left(), 1000 - held);
      await limiter.close();
      end();
      await proxy.close();
    });
  }

  for (const [words, times] of [
    // The refusal of long commands by a server that asks for a password: the server has run nothing.
    ['ERR Protocol error: unauthenticated multibulk length', 2],
    ['ERR max number of clients reached', 2],
    ['NOAUTH Authentication required.', 2],
    ["ERR The user executing the script can't run this command or subcommand", 1],
  ] as const) {
    it(`that are answered with "${words}" are ${times === 2 ? 'tried again' : 'not tried again'}`, async () => {
      const memory = memoryStore();
      let calls = 0;
      const store: Store = {
        decide: async (query) => memory.decide(query),
        adjust: async (change) => memory.adjust(change),
        lease: async (change) => {
          if (calls++ === 0) throw new Error(words);
          return memory.lease(change);
        },
        reset: async (subject) => memory.reset(subject),
        ban: async (subject, duration) => memory.ban(subject, duration),
      };
      const limiter = createLimiter({ store, policies: POLICIES });
      const decision = await limiter.acquire('key');
      await decision.release();
      await until(() => calls === times);
      await sleep(250);
      assert.equal(calls, times);
      assert.equal((await limiter.peek('key')).policies[1]!.remaining, times === 2 ? 1000 : 999);
      await limiter.close();
    });
  }

  for (const words of [
    'BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.',
    'NOREPLICAS Not enough good replicas to write.',
  ]) {
    it(`of units that are answered with "${words}" are tried again: the server has run nothing`, async () => {
      const memory = memoryStore();
      let calls = 0;
      const store: Store = {
        decide: async (query) => memory.decide(query),
        adjust: async (change) => {
          if (calls++ === 0) throw new Error(words);
          return memory.adjust(change);
        },
        lease: async (change) => memory.lease(change),
        reset: async (subject) => memory.reset(subject),
        ban: async (subject, duration) => memory.ban(subject, duration),
      };
      const limiter = createLimiter({ store, limit: 1000, window: '10m' });
      const decision = await limiter.consume('key');
      await decision.refund();
      await until(() => calls === 2);
      assert.equal((await limiter.peek('key')).remaining, 1000);
      await limiter.close();
    });
  }

  it('wait in a queue that is bounded: the oldest are forgotten', async () => {
    let isUp = false;
    const backlog = new Backlog(() => isUp);
    const done: number[] = [];
    for (let i = 0; i < 10_005; i++) backlog.add(async () => done.push(i));
    assert.equal(backlog.size, 10_000);
    isUp = true;
    backlog.drain();
    await until(() => done.length === 10_000);
    assert.equal(backlog.size, 0);
    assert.ok(Math.min(...done) === 5);
  });

  it('are sent 64 at a time, the oldest first', async () => {
    let isUp = false;
    const backlog = new Backlog(() => isUp);
    const begun: number[] = [];
    const ends: (() => void)[] = [];
    for (let i = 0; i < 70; i++) {
      backlog.add(() => {
        begun.push(i);
        return new Promise<void>((resolve) => ends.push(resolve));
      });
    }
    isUp = true;
    backlog.drain();
    assert.deepEqual(begun, [...Array(64).keys()]);
    ends[5]!();
    await new Promise(setImmediate);
    assert.deepEqual(begun.slice(64), [64]);
    // Give-backs that were not sent wait again.
    isUp = false;
    for (const end of ends.splice(0)) end();
    await new Promise(setImmediate);
    assert.deepEqual([begun.length, backlog.size], [65, 5]);
  });

  it('that fail while the store is up are tried again, and wait again if it goes down', async () => {
    let isUp = true;
    let tries = 0;
    const backlog = new Backlog(() => isUp);
    const giveBack = async (): Promise<void> => {
      if (++tries < 3) backlog.add(giveBack);
    };
    backlog.add(giveBack);
    await until(() => tries === 2);
    isUp = false;
    await sleep(300);
    assert.equal(tries, 2);
    assert.equal(backlog.size, 1);
    isUp = true;
    backlog.drain();
    assert.equal(tries, 3);
  });
});
