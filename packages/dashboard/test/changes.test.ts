// The undo that the page offers after a change, and its result.
import { join } from 'node:path';
import { expect } from 'chai';
import { createLimiter, memoryStore, type Limiter, type Store } from 'headgate';
import { createAdmin, type Admin } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { drivers, makeDirectory, storeOn } from '../../../test/support/sqlite.js';
import { clients, freshPrefix } from '../../../test/support/stores.js';
import { LogEnd } from '../src/entries.js';
import { undo } from '../src/undos.js';
import { callerOf, type Caller } from './caller.js';

const REASON = 'INC-7';

const stores: Record<string, () => Store> = {
  memory: () => memoryStore(),
  ...(Object.keys(drivers).length > 0 && { SQLite: () => storeOn(join(makeDirectory(), 'limits.db')) }),
  Redis: () => redisStore(clients.redis, { prefix: freshPrefix(), publish: '50ms' }),
  'Redis with hashed keys': () =>
    redisStore(clients.redis, {
      prefix: freshPrefix(),
      publish: '50ms',
      hashKeys: 'a secret of 32 characters, or so',
    }),
};

for (const [name, open] of Object.entries(stores)) {
  describe(`the undo after a change, on ${name}`, () => {
    let limiters: Limiter[];
    let admin: Admin;
    let page: Caller;
    beforeEach(async () => {
      const store = open();
      limiters = ['api', 'login', 'chat'].map((each) =>
        createLimiter({ store, name: each, policies: ['5/1m'], overrides: true, ban: {} }),
      );
      for (const limiter of limiters) await limiter.consume('first');
      admin = createAdmin(store);
      while ((await admin.limiters()).limiters.length < 3) await new Promise((done) => setTimeout(done, 20));
      page = await callerOf({ store });
    });
    afterEach(() => Promise.all(limiters.map((limiter) => limiter.close())));

    const change = async (action: string, body: object) => {
      const sent = { action, name: 'api', reason: REASON, for: '2h', ...body };
      const answer = await page.post('api/change', sent);
      expect(answer.status, JSON.stringify(answer.body)).to.equal(200);
      return answer.body['entries'] as string[];
    };
    const newest = async () => {
      for await (const { id } of admin.log()) return id;
      return undefined;
    };
    const bannedIn = async (key: string) => {
      const reasons = await Promise.all(limiters.map((limiter) => limiter.peek(key)));
      return limiters.filter((_, i) => reasons[i]!.reason === 'banned').map((each) => each.name);
    };

    it('is that of the change itself, and there is none after a change of nothing', async () => {
      for (const [begin, end] of [
        ['ban', 'unban'],
        ['override', 'remove'],
      ] as const) {
        for (const action of [begin, end]) {
          const limits = action === 'override' ? { change: '50/1m' } : {};
          expect(await change(action, { key: 'A', ...limits }), action).to.deep.equal([await newest()]);
        }
        // Nothing is logged, so the last entry is that of A.
        expect(await change(end, { key: 'B' }), end).to.deep.equal([]);
      }
      expect(await change('override', { all: true, change: '50/1m' })).to.deep.equal([await newest()]);
      expect(await change('ban', { key: '10.1.2.0/30' })).to.deep.equal([await newest()]);
    });

    it('never ends another ban that the same operator made at the same time, for the same reason', async () => {
      const keys = ['P', 'Q', 'R', 'S'];
      const all = await Promise.all(keys.map((key) => change('ban', { key })));
      const ids = all.flat();
      expect(new Set(ids)).to.have.property('size', ids.length);
      for (const [i, [id]] of all.entries()) {
        // Of hashed keys, the log cannot tell, and offers none here.
        if (id === undefined) continue;
        const answer = await page.post('api/undo', { ids: [id], reason: REASON });
        expect(answer.status).to.equal(200);
        expect(await bannedIn(keys[i]!)).to.deep.equal([]);
      }
      if (!name.includes('hashed')) expect(ids).to.have.length(keys.length);
    });

    it('is offered by a process whose clock is ahead of the store', async () => {
      const { now } = Date;
      Date.now = () => now() + 90_000;
      try {
        expect(await change('override', { key: 'A', change: '50/1m' })).to.have.length(1);
      } finally {
        Date.now = now;
      }
    });

    it('undoes the other changes if one was undone by somebody else, and names that one', async () => {
      const ids = await change('ban', { all: true, key: 'A' });
      expect(ids).to.have.length(3);
      expect((await page.post('api/undo', { ids: [ids[1]], reason: REASON })).status).to.equal(200);
      const { status, body } = await page.post('api/undo', { ids, reason: REASON });
      expect(status).to.equal(200);
      const undone = body['undone'] as { id: string; error?: string }[];
      expect(undone.map(({ id }) => id)).to.deep.equal(ids);
      expect(undone.map(({ error }) => error !== undefined)).to.deep.equal([false, true, false]);
      expect(undone[1]!.error).to.contain('already undone by ada').and.not.contain('Nothing was changed');
      expect(await bannedIn('A')).to.deep.equal([]);
      const again = await page.post('api/undo', { ids, reason: REASON });
      expect(again.status).to.equal(400);
      expect(again.body['error']).to.contain('Nothing was changed');
    });
  });
}

describe('the undo of several changes', () => {
  it('stops if the store fails, and names the changes that were not tried', async () => {
    const asked: string[] = [];
    const admin = {
      undo: (id: string) => {
        asked.push(id);
        return id === '1'
          ? Promise.resolve({ warnings: [] })
          : Promise.reject(new Error('the store is down'));
      },
    } as unknown as Admin;
    const { undone } = await undo(admin, { ids: ['1', '2', '3'], reason: REASON }, 'ada');
    expect(undone).to.deep.equal([
      { id: '1' },
      { id: '2', error: 'the store is down' },
      { id: '3', error: 'not tried' },
    ]);
    expect(asked).to.deep.equal(['1', '2']);
    const failed = await undo(admin, { ids: ['2', '3'], reason: REASON }, 'ada').catch(
      (error: Error) => error,
    );
    expect(failed).to.have.property('message', 'the store is down');
  });

  it('shows on the page at once, also if it failed half-way', async () => {
    const store = memoryStore();
    const limiter = createLimiter({ store, name: 'api', policies: ['5/1m'], ban: {} });
    const page = await callerOf({ store });
    const changes = async () =>
      ((await page.get('api/now')).body['set'] as { changes: { action: string }[] }).changes;
    expect(await changes()).to.deep.equal([]);
    await limiter.ban('ada', '1h');
    // Nothing is undone, while the ban is a change since the last reading.
    expect((await page.post('api/undo', { ids: ['99'], reason: REASON })).status).to.equal(400);
    expect((await changes()).map(({ action }) => action)).to.deep.equal(['ban']);
    await limiter.close();
  });
});

describe('the end of the log before a change', () => {
  it('is recognized by the ids of entries, if the change was made in the same moment', async () => {
    const store = memoryStore({ clock: () => 1_000_000 });
    const limiter = createLimiter({ store, name: 'api', policies: ['5/1m'], ban: {} });
    const admin = createAdmin(store);
    const note = { by: 'ada', reason: REASON };
    await admin.ban('A', '1h', { name: 'api', ...note });
    const end = await LogEnd.read(admin);
    const written = { action: 'ban', name: 'api', key: 'A' } as const;
    expect(await end.idsOf([written], note)).to.deep.equal([]);
    await admin.ban('A', '2h', { name: 'api', ...note });
    expect(await end.idsOf([written], note)).to.deep.equal(['2']);
    // Two bans of one key cannot be told apart.
    await admin.ban('A', '3h', { name: 'api', ...note });
    expect(await end.idsOf([written], note)).to.deep.equal([]);
    await limiter.close();
  });
});
