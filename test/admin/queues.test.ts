// The slots in use and the waiting requests, by key and process.
import { expect } from 'chai';
import { createLimiter, memoryStore, type Limiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { createAdmin } from 'headgate/admin';
import { clients, freshPrefix } from '../support/stores.js';
import { serverKinds } from '../support/shared-servers.js';
import { places, until, useLimiters, type Place } from './stores.js';

const POLICIES = { policies: ['slots=concurrency 2/1m by report'] };

/** Takes both slots of a key, and waits for a third. */
async function fill(limiter: Limiter): Promise<() => Promise<unknown>> {
  const held = [await limiter.acquire({ report: 'pdf' }), await limiter.acquire({ report: 'pdf' })];
  await limiter.acquire({ report: 'csv' });
  const stop = new AbortController();
  const waits = limiter.wait({ report: 'pdf' }, { timeout: '1m', signal: stop.signal }).catch(() => {});
  return async () => {
    stop.abort();
    await Promise.all([...held.map((each) => each.release()), waits]);
  };
}

for (const [kind, open] of Object.entries(places))
  describe(`slots and waiting requests, ${kind}`, () => {
    let place: Place;
    const { make, known } = useLimiters(open, (opened) => (place = opened));

    it('have their key, their process and the longest time', async () => {
      const limiter = make({ name: 'reports', ...POLICIES });
      make({ name: 'api', policies: ['10/1m'] });
      await known('reports', 'api');
      const end = await fill(limiter);
      const keys = async () => (await place.admin.queues()).keys;
      await until(async () => (await keys()).some(({ waiting, waitedMs }) => waiting === 1 && waitedMs > 0));
      const { keys: found, cut } = await place.admin.queues({ name: 'reports' });
      expect(cut).to.deep.equal([]);
      const whose = { name: 'reports', dimension: 'report', pid: process.pid };
      expect(found).to.have.length(2);
      expect(found[0]).to.include({ ...whose, key: 'pdf', slots: 2, waiting: 1 });
      expect(found[0]!.heldMs).to.be.within(found[0]!.waitedMs, 20_000);
      expect(found[1]).to.include({ ...whose, key: 'csv', slots: 1, waiting: 0, waitedMs: 0 });
      expect(await place.admin.queues({ name: 'api' })).to.deep.equal({ keys: [], cut: [] });
      const [view] = await place.admin.key('pdf', { name: 'reports', dimension: 'report' });
      expect(view!.slots).to.include({ uncounted: 0 });
      expect(view!.slots!.freeAfterMs).to.be.within(1, 60_000);
      expect(view!.slots!.processes).to.have.length(1);
      expect(view!.slots!.processes[0]).to.include({ pid: process.pid, slots: 2, waiting: 1 });
      const all = await place.admin.key('pdf');
      expect(all.map(({ name, slots }) => [name, slots !== undefined])).to.deep.equal([
        ['api', false],
        ['reports', true],
      ]);
      await end();
    });
  });

for (const [kind, open] of Object.entries(places))
  describe(`slots of several dimensions, ${kind}`, () => {
    let place: Place;
    const { make, known } = useLimiters(open, (opened) => (place = opened));

    it('are counted for the key of each, and an idle limiter has none', async () => {
      const policies = ['a=concurrency 5/1m by user', 'b=concurrency 50/1m by address'];
      const limiter = make({ name: 'both', policies });
      make({ name: 'idle', policies });
      await known('both', 'idle');
      const slot = await limiter.acquire({ user: 'ada', address: '192.0.2.1' });
      const slotsOf = async (key: string, dimension: string, name: string) =>
        (await place.admin.key(key, { name, dimension }))[0]!.slots;
      await until(async () => (await place.admin.queues()).keys.length === 2);
      for (const [key, dimension] of [
        ['ada', 'user'],
        ['192.0.2.1', 'address'],
      ] as const) {
        const slots = await slotsOf(key, dimension, 'both');
        expect(slots).to.include({ uncounted: 0 });
        expect(slots!.processes[0]).to.include({ slots: 1, pid: process.pid });
        expect(await slotsOf(key, dimension, 'idle')).to.equal(undefined);
      }
      await slot.release();
    });
  });

describe('slots without a process', () => {
  it('are named in the answer to their key', async function () {
    if (!serverKinds.includes('redis')) this.skip();
    const prefix = freshPrefix();
    const store = redisStore(clients.redis, { prefix, publish: '10ms' });
    // As a process that was killed left it: nobody counts its slot.
    const dead = redisStore(clients.redis, { prefix, publish: false, counts: false });
    const admin = createAdmin(clients.redis, { prefix });
    const options = { name: 'reports', ...POLICIES };
    const limiter = createLimiter({ ...options, store });
    const other = createLimiter({ ...options, store: dead });
    await other.acquire({ report: 'pdf' });
    await limiter.acquire({ report: 'pdf' });
    const slots = async () => (await admin.key('pdf', { name: 'reports', dimension: 'report' }))[0]?.slots;
    await until(async () => (await slots())?.processes.length === 1);
    expect(await slots()).to.include({ uncounted: 1 });
    await Promise.all([limiter.close(), other.close()]);
    for (const key of await clients.redis.keys(`${prefix}:*`)) await clients.redis.del(key);
  });

  it('are unknown if a process has more keys than it reports', async () => {
    const store = memoryStore({ counts: true });
    const limiter = createLimiter({ name: 'reports', store, ...POLICIES });
    for (let i = 0; i < 30; i++) await limiter.acquire({ report: `r${i}` });
    const admin = createAdmin(store);
    await until(async () => (await admin.queues()).keys.length > 0);
    const { keys, cut } = await admin.queues();
    expect(keys).to.have.length(20);
    expect(cut).to.deep.equal(['reports']);
    const views = await admin.key('r29', { name: 'reports', dimension: 'report' });
    expect(views[0]!.slots).to.deep.include({ processes: [], uncounted: null });
    await limiter.close();
  });
});
