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

  it('the time until a server is full: with a limit and a growth only', async () => {
    Date.now = () => time;
    const infos: Record<string, string> = { a: infoOf(400, 1000), b: infoOf(400, 0), c: infoOf(400, 1000) };
    const reader = readerOf(infos);
    await reader.read();
    time += 2000;
    Object.assign(infos, { a: infoOf(600, 1000), b: infoOf(600, 0), c: infoOf(400, 1000) });
    expect(await reader.read()).to.deep.equal([
      { server: 'a', usedBytes: 600, maxBytes: 1000, growth: 100, fullInMs: 4000 },
      { server: 'b', usedBytes: 600, maxBytes: null, growth: 100, fullInMs: null },
      { server: 'c', usedBytes: 400, maxBytes: 1000, growth: 0, fullInMs: null },
    ]);
  });

  it('servers that refuse INFO, or do not report their memory, are omitted', async () => {
    const reader = readerOf({ a: new Error('NOPERM'), b: '# Memory\r\n', c: infoOf(1, 0) });
    expect((await reader.read()).map(({ server }) => server)).to.deep.equal(['c']);
  });
});
