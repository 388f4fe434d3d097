// admin.memory: the memory of servers, its growth, and the time until a server is full.
import { expect } from 'chai';
import { createAdmin } from 'headgate/admin';
import { MemoryReader } from '../../src/admin/redis/memory.js';
import { serverKinds } from '../support/shared-servers.js';
import { clients, freshPrefix } from '../support/stores.js';
import { places } from './stores.js';

/** Servers with scripted answers to INFO, in place of a cluster. */
function readerOf(infos: Record<string, string | Error>): MemoryReader {
  const servers = Object.keys(infos).map((name) => ({ name, send: () => name }));
  const calls = {
    servers: () => Promise.resolve(servers),
    commands: { keyPrefix: '' },
    ask: async (name: string) => {
      const info = infos[name]!;
      return typeof info === 'string' ? Promise.resolve(info) : Promise.reject(info);
    },
  };
  return new MemoryReader(calls as never);
}

const infoOf = (used: number, max: number, data = used): string =>
  `# Memory\r\nused_memory:${used}\r\nused_memory_dataset:${data}\r\nmaxmemory:${max}\r\n`;

describe('admin.memory', () => {
  const { now } = Date;
  let time: number;

  beforeEach(() => {
    time = 1e12;
  });
  afterEach(() => {
    Date.now = now;
  });

  for (const kind of serverKinds)
    it(`${kind}: the memory of the server`, async () => {
      const admin = createAdmin(clients[kind], { prefix: freshPrefix() });
      const [memory, ...others] = await admin.memory();
      expect(others).to.deep.equal([]);
      expect(memory).to.include({ server: '', maxBytes: null, growth: null, fullInMs: null });
      expect(memory!.usedBytes).to.be.greaterThan(100_000);
    });

  for (const [kind, open] of Object.entries(places))
    if (kind !== 'redis')
      it(`${kind}: no servers`, async () => {
        const place = await open();
        expect(await place.admin.memory()).to.deep.equal([]);
        await place.close();
      });

  it('growth: since the first reading of the last five minutes, from a second on', async () => {
    Date.now = () => time;
    const infos = { '': infoOf(1_000_000, 0) };
    const reader = readerOf(infos);
    const growthAt = async (ms: number, bytes: number) => {
      time = 1e12 + ms;
      infos[''] = infoOf(9_000_000, 0, bytes);
      return (await reader.read())[0]!.growth;
    };
    expect(await growthAt(0, 1_000_000)).to.equal(null);
    expect(await growthAt(999, 2_000_000)).to.equal(null);
    expect(await growthAt(2000, 3_000_000)).to.equal(1_000_000);
    expect(await growthAt(4000, 1_000_000)).to.equal(0);
    expect(await growthAt(301_000, 4_000_000)).to.equal(Math.round(1_000_000 / 299));
    expect(await growthAt(900_000, 4_000_000)).to.equal(null);
  });

  it('the time until a server is full: with a limit and a steady growth only', async () => {
    Date.now = () => time;
    const infos: Record<string, string> = {};
    const reader = readerOf(Object.assign(infos, { a: '', b: '', c: '', d: '' }));
    const forecasts = async () => (await reader.read()).map(({ fullInMs }) => fullInMs);
    for (let second = 0; second <= 120; second += 2) {
      time = 1e12 + 1000 * second;
      const grown = 1_000_000 + 1000 * second;
      infos['a'] = infoOf(grown, 2_000_000);
      infos['b'] = infoOf(grown, 0);
      // Another program writes once, in the middle.
      infos['c'] = infoOf(second < 61 ? 1_000_000 : 1_900_000, 2_000_000);
      // The same, besides a steady growth.
      infos['d'] = infoOf(second < 61 ? grown : grown + 500_000, 2_000_000);
      const [a, b, c, d] = await forecasts();
      if (second < 60) expect([a, b, c, d]).to.deep.equal([null, null, null, null]);
      if (second < 120) continue;
      expect([a, b, c, d]).to.deep.equal([880_000, null, null, 380_000]);
    }
  });

  it('our own part of a server beside the total: by a sample of keys', async () => {
    const prefix = freshPrefix();
    const { redis } = clients;
    const own = Array.from({ length: 300 }, (_, i) => `${prefix}:{api:${i}}`);
    const others = Array.from({ length: 300 }, (_, i) => `${prefix}-other-${i}`);
    for (const key of own) await redis.set(key, 'x'.repeat(1000), 'PX', 60_000);
    for (const key of others) await redis.set(key, 'x'.repeat(100_000), 'PX', 60_000);
    try {
      const bytes = Number(await redis.memory('USAGE', own[0]!)) * own.length;
      const [memory] = await createAdmin(redis, { prefix }).memory();
      expect(memory!.ownBytes).to.be.within(bytes / 2, 2 * bytes);
      const [nothing] = await createAdmin(redis, { prefix: freshPrefix() }).memory();
      expect(nothing!.ownBytes).to.equal(0);
    } finally {
      await redis.del(...own, ...others);
    }
  });

  it('our own part of a server with few keys: exactly', async () => {
    const prefix = freshPrefix();
    const redis = clients.redis.duplicate({ db: 9 });
    try {
      const sizes = [50_000, ...Array.from({ length: 200 }, () => 10)];
      for (const [i, size] of sizes.entries()) {
        await redis.set(`${prefix}:{api:${i}}`, 'x'.repeat(size), 'PX', 60_000);
        await redis.set(`${prefix}-other-${i}`, 'x'.repeat(1000), 'PX', 60_000);
      }
      const usages = await Promise.all(sizes.map((_, i) => redis.memory('USAGE', `${prefix}:{api:${i}}`)));
      const [memory] = await createAdmin(redis, { prefix }).memory();
      expect(memory!.ownBytes).to.equal(usages.reduce<number>((sum, bytes) => sum + Number(bytes), 0));
    } finally {
      await redis.flushdb();
      redis.disconnect();
    }
  });

  it('servers that refuse INFO, or do not report their memory, are omitted', async () => {
    const reader = readerOf({ a: new Error('NOPERM'), b: '# Memory\r\n', c: infoOf(1, 0) });
    expect((await reader.read()).map(({ server }) => server)).to.deep.equal(['c']);
  });
});
