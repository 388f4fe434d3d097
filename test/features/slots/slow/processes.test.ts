// Processes that wait for the same slots: each process gets its share of the turns, on Redis and on an SQLite file, also after crashes.
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { compileChild } from '../../../support/programs.js';
import { startServer, type TestServer } from '../../../support/servers.js';
import type { SlotsTask } from '../../../support/slots-child.js';
import { makeDirectory } from '../../../support/sqlite.js';

/** A user with the commands of concurrency policies only. */
const NARROW = [
  'on',
  '>secret',
  '~*',
  '-@all',
  '+@scripting',
  '+@sortedset',
  '+@connection',
  '+info',
  '+time',
].concat(['+pexpireat', '+pttl', '+del']);

/** The turns by which shares are measured: 25 for each of four processes. */
const TURNS = 100;

/** Processes whose workers wait for slots. */
class Crew {
  readonly children: ChildProcess[] = [];
  /** The turns of each process. */
  readonly turns: number[] = [];
  /** The turns of each tenant. */
  readonly ofTenants: Record<string, number> = {};
  readonly failures: string[] = [];
  #count = 0;
  #reached = (): void => {};
  #wanted = Infinity;

  async start(tasks: readonly SlotsTask[]): Promise<void> {
    await Promise.all(tasks.map((task, n) => this.#fork(task, n)));
    for (const child of this.children) child.send('begin');
  }

  async #fork(task: SlotsTask, n: number): Promise<void> {
    const child = fork(await compileChild('slots-child.ts'), [JSON.stringify(task)], { execArgv: [] });
    this.children[n] = child;
    this.turns[n] = 0;
    await once(child, 'message');
    child.on('message', (message: string) => {
      const [word, tenant] = message.split(' ');
      if (word === 'turn') this.turns[n]!++;
      else this.failures.push(message);
      if (tenant !== undefined) this.ofTenants[tenant] = (this.ofTenants[tenant] ?? 0) + 1;
      if (++this.#count >= this.#wanted) this.#reached();
    });
  }

  /** Waits for more turns, and counts those of each process from then on. */
  async pass(turns: number): Promise<number[]> {
    const before = [...this.turns];
    this.#wanted = this.#count + turns;
    await new Promise<void>((resolve) => (this.#reached = resolve));
    return this.turns.map((count, n) => count - before[n]!);
  }

  async end(n: number): Promise<void> {
    const child = this.children[n]!;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, 'exit');
    child.kill('SIGKILL');
    await exit;
  }

  async endAll(): Promise<void> {
    await Promise.all(this.children.map((_, n) => this.end(n)));
  }
}

/** The least part of the turns that a process got, as a multiple of its share. */
const leastShare = (turns: readonly number[]) =>
  (Math.min(...turns) * turns.length) / turns.reduce((sum, count) => sum + count, 0);

const task = (store: SlotsTask['store'], by: SlotsTask['by'] = 'wait'): SlotsTask => ({
  ...{ by, store, limit: 2, workers: 10, workMs: 150 },
});

/** Processes of which one waits for two tenants, the others for the second tenant alone. @returns the first tenant's part of the turns */
async function partOfFirst(store: SlotsTask['store'], limit: number): Promise<number> {
  const shared = { ...task(store), limit, workers: 5 };
  const second = { ...shared, tenants: ['b'] };
  await crew.start([{ ...shared, tenants: ['a', 'b'] }, second, second]);
  await crew.pass(20);
  const before = { ...crew.ofTenants };
  await crew.pass(80);
  expect(crew.failures).to.deep.equal([]);
  return (crew.ofTenants['a']! - before['a']!) / 80;
}

let crew: Crew;
beforeEach(() => (crew = new Crew()));
afterEach(() => crew.endAll());

describe('processes that wait for slots on Redis', function () {
  this.timeout(120_000);
  let server: TestServer;
  let redis: Redis;
  let prefixes = 0;
  before(async () => {
    server = await startServer('redis');
    redis = new Redis(server.port);
  });
  after(async () => {
    redis.disconnect();
    await server.stop();
  });
  const place = () => [server.port, `lines${prefixes++}`] as const;
  const scripts = async () =>
    Number(/cmdstat_evalsha:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1] ?? 0);

  for (const count of [2, 4]) {
    it(`each of ${count} gets its share, and no call fails, with two questions a turn`, async () => {
      const store = place();
      await crew.start(Array.from({ length: count }, () => task(store)));
      await crew.pass(30);
      const before = await scripts();
      const turns = await crew.pass(TURNS);
      // A call of each turn releases the slot.
      expect(((await scripts()) - before) / TURNS - 1).to.be.at.most(2);
      expect(leastShare(turns)).to.be.at.least(0.8);
      expect(crew.failures).to.deep.equal([]);
    });
  }

  it('each of two gets its share, and no call fails: fetch', async () => {
    const store = place();
    await crew.start([task(store, 'fetch'), task(store, 'fetch')]);
    await crew.pass(30);
    expect(leastShare(await crew.pass(TURNS))).to.be.at.least(0.8);
    expect(crew.failures).to.deep.equal([]);
  });

  for (const limit of [1, 2]) {
    it(`tenants get equal parts of ${limit} shared slots, however they are spread over processes`, async () => {
      expect(await partOfFirst(place(), limit)).to.be.within(0.4, 0.6);
    });
  }

  it('one worker in each of two processes takes turns with the other', async () => {
    const store = place();
    const alone = { ...task(store), limit: 1, workers: 1 };
    await crew.start([alone, alone]);
    await crew.pass(20);
    expect(leastShare(await crew.pass(60))).to.be.at.least(0.8);
    expect(crew.failures).to.deep.equal([]);
  });

  it('a process that comes later gets its share, and processes that are killed hold up no other', async () => {
    const store = place();
    await crew.start([task(store), task(store)]);
    await crew.pass(50);
    const first = crew.turns.length;
    const later = new Crew();
    await later.start([task(store), task(store)]);
    await later.pass(10);
    const [before, others] = [crew.turns.map(Number), crew.pass(Infinity)];
    void others;
    const turns = [...(await later.pass(150)), ...crew.turns.map((count, n) => count - before[n]!)];
    expect(first).to.equal(2);
    expect(leastShare(turns)).to.be.at.least(0.8);
    await Promise.all([crew.end(0), crew.end(1)]);
    // The slots of the killed processes are free again after their lease, and the line has forgotten them.
    expect(leastShare(await later.pass(100))).to.be.at.least(0.8);
    expect([...crew.failures, ...later.failures]).to.deep.equal([]);
    await later.endAll();
  });

  it('a user who may neither GET nor SET gets slots, without a line', async () => {
    await redis.call('ACL', 'SETUSER', 'narrow', ...NARROW);
    const client = new Redis(server.port, { username: 'narrow', password: 'secret' });
    const [, prefix] = place();
    const limiter = createLimiter({
      ...{
        name: 'slots',
        algorithm: 'concurrency',
        limit: 1,
        lease: '10s',
        onStoreError: 'throw',
        timeout: '5s',
      },
      store: redisStore(client, { prefix }),
    });
    const first = await limiter.wait('k');
    const second = limiter.wait('k', { timeout: '10s' });
    await first.release();
    expect(await second).to.include({ allowed: true, degraded: false });
    expect((await redis.keys(`${prefix}:*`)).filter((key) => key.includes('}w2:'))).to.deep.equal([]);
    await limiter.close();
    client.disconnect();
  });

  it('every key of a line has a TTL', async () => {
    const store = place();
    await crew.start([task(store), task(store)]);
    await crew.pass(20);
    const keys = await redis.keys(`${store[1]}:*`);
    expect(keys.some((key) => key.includes('}w2:'))).to.equal(true);
    for (const key of keys) expect(await redis.pttl(key), key).to.not.equal(-1);
  });
});

describe('processes that wait for slots in an SQLite file', function () {
  this.timeout(120_000);

  it('tenants get equal parts of shared slots, however they are spread over processes', async () => {
    expect(await partOfFirst(join(makeDirectory(), 'slots.db'), 2)).to.be.within(0.4, 0.6);
  });

  for (const count of [2, 4]) {
    it(`each of ${count} gets its share, and no call fails`, async () => {
      const path = join(makeDirectory(), 'slots.db');
      await crew.start(Array.from({ length: count }, () => task(path)));
      await crew.pass(30);
      expect(leastShare(await crew.pass(TURNS))).to.be.at.least(0.8);
      expect(crew.failures).to.deep.equal([]);
    });
  }
});
