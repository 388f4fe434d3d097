// The SQLite store: options, file and faults.
import {
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import sinon from 'sinon';
import { createAdmin } from 'headgate/admin';
import { createLimiter, type CreateLimiterOptions, type Health, type Store } from 'headgate';
import {
  sqliteStore,
  type SqliteDatabase,
  type SqliteStatement,
  type SqliteStoreOptions,
} from 'headgate/sqlite';
import { emittedCodes } from '../../src/common/warnings.js';
import type { DatabaseClass } from '../../src/stores/sqlite/driver.js';
import { limiterOn, START, TestClock } from '../support/stores.js';
import { DatabaseSync, itOpens, makeDirectory, openDatabase, storeOn } from '../support/sqlite.js';

const policy: CreateLimiterOptions = { name: 'api', algorithm: 'fixed-window', limit: 5, window: '1h' };
const errorOf = (call: () => unknown): string => {
  try {
    call();
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    return `${code} ${message}`;
  }
  throw new Error('did not throw');
};
const count = (database: SqliteDatabase): number =>
  (database.prepare('SELECT count(*) AS n FROM headgate').get() as { n: number }).n;
const keysOf = (database: SqliteDatabase): string =>
  (database.prepare('SELECT group_concat(key) AS keys FROM headgate').get() as { keys: string }).keys;

describe('the SQLite store: its arguments', () => {
  const wrong: [string, unknown, unknown, RegExp][] = [
    ['nothing', undefined, {}, /INVALID_OPTION sqliteStore.*path/],
    ['another client', { get() {} }, {}, /INVALID_OPTION sqliteStore.*path/],
    ['a database in memory', ':memory:', {}, /INVALID_OPTION .*memoryStore/],
    ['an empty path', '', {}, /INVALID_OPTION .*path/],
    ['a URI', 'file:limits.db', {}, /INVALID_OPTION .*path/],
    [
      'a durability that there is not',
      '/tmp/x',
      { synchronous: 'extra' },
      /synchronous.*'off', 'normal', 'full'/,
    ],
    ['an option that there is not', '/tmp/x', { sync: 'off' }, /UNKNOWN_OPTION/],
    ['a secret that is missing', '/tmp/x', { hashKeys: undefined }, /hashKeys.*undefined/],
    ['a clock that is none', '/tmp/x', { clock: 5 }, /sqliteStore.clock.*function/],
  ];
  for (const [what, database, options, message] of wrong) {
    it(`refuses ${what}`, () => {
      const make = () => sqliteStore(database as string, options as SqliteStoreOptions);
      expect(errorOf(make)).to.match(message);
    });
  }

  it('refuses a network file system, because locks do not hold there', function () {
    if (process.platform !== 'linux') this.skip();
    const stub = sinon.stub(fs, 'statfsSync').returns({ type: 0x6969 } as fs.StatsFs);
    syncBuiltinESMExports();
    try {
      expect(errorOf(() => sqliteStore('/mnt/shared/limits.db'))).to.match(/redisStore/);
    } finally {
      stub.restore();
      syncBuiltinESMExports();
    }
  });

  if (!DatabaseSync) {
    it('refuses a path with the fix if Node has no SQLite', () => {
      expect(errorOf(() => sqliteStore('/tmp/limits.db'))).to.match(
        /INVALID_OPTION .*22\.13.*better-sqlite3/,
      );
    });
  }
});

describe('the SQLite store', () => {
  let directory: string;
  let path: string;
  const open: { close?(): unknown }[] = [];
  const keep = <T extends { close?(): unknown }>(each: T): T => {
    open.push(each);
    return each;
  };
  const store = (options?: SqliteStoreOptions) => keep(storeOn(path, options));
  const limiter = (options: Partial<CreateLimiterOptions> = {}, on: Store = store()) =>
    keep(
      createLimiter({
        ...policy,
        onStoreError: 'throw',
        warnings: false,
        ...options,
        store: on,
      } as CreateLimiterOptions),
    );
  const codeOf = (promise: Promise<unknown>): Promise<string> =>
    promise.then(
      () => 'no error',
      (error: { code?: string; message: string }) => `${error.code} ${error.message}`,
    );

  beforeEach(() => {
    directory = makeDirectory();
    path = join(directory, 'limits.db');
  });
  afterEach(async () => {
    for (const each of open.splice(0).reverse()) await each.close?.();
  });

  it('keeps counts, bans and overrides when the process ends', async () => {
    const first = limiter({ overrides: true, ban: { after: 3, for: '1h' } });
    await first.consume('ada', { cost: 3 });
    await first.ban('eve', '1h');
    await first.override('bob', '50/1h');
    await first.close();
    const again = limiter({ overrides: true, ban: { after: 3, for: '1h' } });
    expect((await again.consume('ada')).remaining).to.equal(1);
    expect((await again.consume('eve')).reason).to.equal('banned');
    expect((await again.consume('bob')).remaining).to.equal(49);
  });

  it('decisions of one turn share a transaction, and are answered in their order', async function () {
    // A transaction ends after some 2 ms, and a busy machine may take that long for the decisions.
    this.retries(3);
    const database = keep(openDatabase(path));
    const begins = sinon.spy();
    const prepare = database.prepare.bind(database);
    database.prepare = (sql) => {
      const statement = prepare(sql);
      if (sql !== 'BEGIN IMMEDIATE') return statement;
      return { get: () => undefined, all: () => [], run: () => (begins(), statement.run()) };
    };
    const on = limiter({ limit: 100 }, sqliteStore(database));
    await on.consume('first');
    begins.resetHistory();
    const answers: string[] = [];
    const ask = async (key: string) => answers.push(`${key} ${(await on.consume(key)).remaining}`);
    await Promise.all(['a', 'b', 'c', 'a', 'd'].map(ask));
    expect(answers).to.have.members(['a 99', 'b 99', 'c 99', 'a 98', 'd 99']);
    expect(answers.indexOf('a 99')).to.be.below(answers.indexOf('a 98'));
    expect(begins.callCount).to.equal(1);
  });

  it('a transaction ends after some 2 ms, and the event loop goes on', async () => {
    const on = limiter({ limit: 1e6, timeout: '1m' });
    await on.consume('first');
    let turns = 0;
    let isOver = false;
    const turn = () => {
      turns++;
      if (!isOver) setImmediate(turn);
    };
    setImmediate(turn);
    await Promise.all(Array.from({ length: 5000 }, (_, i) => on.consume(`key ${i}`)));
    isOver = true;
    expect(turns).to.be.above(5);
  });

  it('keys can be hashed: only a store with the secret finds them', async () => {
    const secret = 'a secret of some length';
    await limiter({}, store({ hashKeys: secret })).consume('ada@example.com', { cost: 2 });
    const keys = keysOf(keep(openDatabase(path)));
    expect(keys)
      .to.match(/^\{api:%#[\w-]{22}\}/)
      .and.not.include('ada');
    expect((await limiter({}, store({ hashKeys: secret })).peek('ada@example.com')).remaining).to.equal(3);
    expect((await limiter({}, store({ hashKeys: `${secret}!` })).peek('ada@example.com')).remaining).to.equal(
      5,
    );
    expect((await limiter({}, store()).peek('ada@example.com')).remaining).to.equal(5);
  });

  it('headgate/admin changes the hashed keys of limiters in this process', async () => {
    const hashing = store({ hashKeys: 'a secret of some length' });
    const banning = limiter({ ban: {} }, hashing);
    await createAdmin(hashing).ban('ada', '1h', { name: 'api' });
    expect((await banning.peek('ada')).reason).to.equal('banned');
  });

  it('expired rows are swept, so that neither table nor file grows', async function () {
    this.timeout(60_000);
    const clock = new TestClock();
    const on = limiterOn(store({ clock: clock.read, synchronous: 'off' }), { limit: 5, window: '10m' });
    const sizes: number[] = [];
    const rows: number[] = [];
    const database = keep(openDatabase(path));
    for (let round = 0; round < 6; round++) {
      for (let i = 0; i < 10; i++) {
        await Promise.all(Array.from({ length: 200 }, (_, n) => on.consume(`key ${round} ${i} ${n}`)));
        clock.advance('1m');
      }
      rows.push(count(database));
      sizes.push((database.prepare('PRAGMA page_count').get() as { page_count: number }).page_count);
    }
    // 2,000 keys are alive at any time, and twice as many after a window of the default algorithm.
    expect(Math.max(...rows.slice(2))).to.be.below(5_000);
    expect(sizes[5]!).to.be.at.most(1.3 * sizes[3]!);
  });

  it('the log stays short, and a thread shortens it if there is node:sqlite', async function () {
    this.timeout(60_000);
    const on = limiter({ limit: 1e6, timeout: '1m' }, store({ synchronous: 'off' }));
    let longest = 0;
    for (let round = 0; round < 300; round++) {
      await Promise.all(
        Array.from({ length: 100 }, (_, i) => on.consume(`key ${(round * 100 + i) % 20_000}`)),
      );
      longest = Math.max(longest, statSync(`${path}-wal`).size);
    }
    expect(longest).to.be.within(1.5 * 2 ** 20, 24 * 2 ** 20);
    for (let i = 0; i < 200 && statSync(`${path}-wal`).size > 9 * 2 ** 20; i++) {
      await sleep(10);
      await on.consume(`key ${i}`);
    }
    expect(statSync(`${path}-wal`).size).to.be.at.most(9 * 2 ** 20);
    expect((await on.peek('key 19999')).remaining).to.equal(1e6 - 1);
  });

  it('keys in ascending order with one request each are swept as well', async function () {
    this.timeout(60_000);
    const clock = new TestClock();
    const on = limiterOn(store({ clock: clock.read, synchronous: 'off' }), { ...policy, window: '1m' });
    const database = keep(openDatabase(path));
    let largest = 0;
    for (let i = 0; i < 150; i++) {
      await Promise.all(Array.from({ length: 100 }, (_, n) => on.consume(`key ${100_000 + 100 * i + n}`)));
      clock.advance('6s');
      largest = Math.max(largest, count(database));
    }
    // 2,000 keys are alive, or have been until a minute ago.
    expect(largest).to.be.below(3_500);
  });

  it('law 6: a key is still denied when the clock goes back after its row expired, however much was swept', async () => {
    const clock = new TestClock();
    const on = limiterOn(store({ clock: clock.read }), { ...policy, window: '1m' });
    await on.consume('ada', { cost: 5 });
    clock.advance('1m');
    for (let i = 0; i < 100; i++) await on.consume(`key ${i}`);
    clock.now -= 100;
    expect((await on.consume('ada')).retryAfterMs).to.equal(100);
  });

  it('closes: open calls are answered, later calls are refused', async () => {
    const closing = store();
    const on = limiter({}, closing);
    const answer = on.consume('ada');
    await closing.close!();
    expect((await answer).remaining).to.equal(4);
    expect(await codeOf(on.consume('ada'))).to.match(/^HEADGATE_CLOSED/);
    if (DatabaseSync) expect(existsSync(`${path}-wal`)).to.equal(false);
  });

  itOpens('a file that the store creates can be read by its owner only', async function () {
    if (process.platform === 'win32') this.skip();
    await limiter().consume('ada');
    for (const end of ['', '-wal', '-shm']) expect(statSync(path + end).mode & 0o777, end).to.equal(0o600);
  });

  itOpens(
    'a file that the store creates at the end of a link can be read by its owner only',
    async function () {
      if (process.platform === 'win32') this.skip();
      const target = `${path}-target`;
      symlinkSync(target, path);
      await limiter().consume('ada');
      for (const end of ['', '-wal', '-shm'])
        expect(statSync(target + end).mode & 0o777, end).to.equal(0o600);
    },
  );

  it('a file of another program is refused, and not changed', async () => {
    const other = keep(openDatabase(path));
    other.exec('CREATE TABLE orders (id INTEGER)');
    const before = readFileSync(path);
    expect(await codeOf(limiter().consume('ada'))).to.match(/^HEADGATE_STORE_ERROR .*program/);
    expect(readFileSync(path).equals(before), 'not a byte of it has changed').to.equal(true);
    expect((other.prepare('SELECT count(*) AS n FROM sqlite_master').get() as { n: number }).n).to.equal(1);
  });

  it('a file of another version is refused', async () => {
    await limiter().consume('ada');
    keep(openDatabase(path)).exec('PRAGMA user_version = 9');
    expect(await codeOf(limiter().consume('ada'))).to.match(/^HEADGATE_STORE_ERROR .*version/);
  });

  it('a lock of another process does not block: the event loop goes on, and the answer comes later', async () => {
    const on = limiter({ timeout: '10s' });
    await on.consume('ada');
    const backup = keep(openDatabase(path));
    backup.exec('BEGIN IMMEDIATE');
    const answers = Promise.all(['ada', 'bob', 'ada'].map((key) => on.consume(key)));
    let longest = 0;
    let last = performance.now();
    const timer = setInterval(() => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    }, 5);
    await sleep(300);
    clearInterval(timer);
    expect(longest).to.be.below(150);
    backup.exec('COMMIT');
    expect((await answers).map(({ remaining }) => remaining)).to.deep.equal([3, 4, 2]);
  });

  it('a lock that is held for longer: onStoreError decides in time, no request counts twice, and the store recovers', async () => {
    const states: Health['state'][] = [];
    const on = limiter({ onStoreError: 'deny', onHealth: ({ state }: Health) => states.push(state) });
    await on.consume('ada');
    const backup = keep(openDatabase(path));
    backup.exec('BEGIN IMMEDIATE');
    const began = performance.now();
    const decisions = await Promise.all(Array.from({ length: 10 }, () => on.consume('ada')));
    expect(performance.now() - began).to.be.below(1_000);
    expect(decisions.map(({ allowed, degraded }) => degraded && !allowed)).to.deep.equal(
      Array(10).fill(true),
    );
    expect(on.health.lastError!.code).to.equal('HEADGATE_STORE_TIMEOUT');
    backup.exec('COMMIT');
    while ((await on.peek('ada')).degraded) await sleep(20);
    expect((await on.peek('ada')).remaining).to.equal(4);
  });

  it('law 14: until the file has answered once, `connectTimeout` applies to all waiting calls', async () => {
    const database = keep(openDatabase(path));
    await limiter().consume('first');
    database.exec('BEGIN IMMEDIATE');
    const on = limiter({ limit: 100, onStoreError: 'deny' });
    const answers = Promise.all(Array.from({ length: 60 }, (_, i) => on.consume(i % 2 ? 'ada' : `key ${i}`)));
    await sleep(300);
    database.exec('COMMIT');
    expect((await answers).filter(({ degraded }) => degraded)).to.have.length(0);
    expect((await on.peek('ada')).remaining).to.equal(70);
  });

  it('law 14: a process that is busy while it waits for the lock denies no request', async () => {
    const on = limiter({ limit: 100, onStoreError: 'deny' });
    await on.consume('first');
    const other = keep(openDatabase(path));
    for (const waited of [0, 30]) {
      other.exec('BEGIN IMMEDIATE');
      const pending = Array.from({ length: 40 }, (_, i) => on.consume(i % 2 ? 'ada' : `key ${i}`));
      await sleep(waited);
      const until = performance.now() + 400;
      while (performance.now() < until);
      // The lock is free soon after the turn, not during it.
      await new Promise((resolve) => setImmediate(resolve));
      other.exec('COMMIT');
      expect((await Promise.all(pending)).filter(({ degraded }) => degraded)).to.have.length(0);
    }
    expect(on.health).to.include({ state: 'up', failures: 0 });
    expect((await on.peek('ada')).remaining).to.equal(60);
  });

  it('law 14: no request is denied if a turn has more than the store can answer within `timeout`', async () => {
    const on = limiter({ limit: 1e6, onStoreError: 'deny', timeout: '20ms' });
    await on.consume('first');
    const decisions = await Promise.all(
      Array.from({ length: 10_000 }, (_, i) => on.consume(i % 2 ? 'ada' : `key ${i}`)),
    );
    expect(decisions.filter(({ degraded }) => degraded)).to.have.length(0);
    expect(on.health).to.include({ state: 'up', failures: 0 });
  });

  it('a file that cannot be written: the error is reported, and the store recovers when it can be written again', async () => {
    const database = keep(openDatabase(path));
    const on = limiter({}, sqliteStore(database));
    await on.consume('ada');
    database.exec('PRAGMA query_only = ON');
    expect(await codeOf(on.consume('ada'))).to.match(/^HEADGATE_STORE_AWAY .*readonly/);
    database.exec('PRAGMA query_only = OFF');
    expect((await on.consume('ada')).remaining).to.equal(3);
  });

  it('a full disk: no decision of the transaction counts, and all callers get the error; then the store recovers', async () => {
    const database = keep(openDatabase(path));
    const on = limiter({ limit: 1000 }, sqliteStore(database));
    await on.consume('ada');
    const { page_count } = database.prepare('PRAGMA page_count').get() as { page_count: number };
    database.exec(`PRAGMA max_page_count = ${page_count}`);
    const outcomes = await Promise.all(
      Array.from({ length: 500 }, (_, i) => codeOf(on.consume(i % 2 ? 'ada' : `key ${i}`))),
    );
    expect(outcomes.find((each) => /^HEADGATE_STORE_AWAY .*full/.test(each))).to.be.a('string');
    database.exec('PRAGMA max_page_count = 1000000');
    await sleep(10);
    while ((await codeOf(on.peek('ada'))) !== 'no error') await sleep(20);
    const charged = outcomes.filter((each, i) => i % 2 && each === 'no error').length;
    expect((await on.peek('ada')).remaining).to.equal(999 - charged);
  });

  it('units that are given back while the file cannot be written are stored later', async () => {
    const database = keep(openDatabase(path));
    const on = limiter({ onStoreError: 'local' }, sqliteStore(database));
    const decision = await on.consume('ada', { cost: 3 });
    database.exec('PRAGMA query_only = ON');
    await decision.refund();
    database.exec('PRAGMA query_only = OFF');
    await sleep(10);
    for (let i = 0; i < 100 && (await on.peek('ada')).remaining !== 5; i++) await sleep(50);
    expect((await on.peek('ada')).remaining).to.equal(5);
  });

  it('so are give-backs that waited for a lock before', async () => {
    const database = keep(openDatabase(path));
    const on = limiter({ timeout: '1s' }, sqliteStore(database));
    const decision = await on.consume('ada');
    const other = keep(openDatabase(path));
    other.exec('BEGIN IMMEDIATE');
    const back = decision.refund();
    await sleep(30);
    database.exec('PRAGMA query_only = 1');
    other.exec('COMMIT');
    await back;
    await sleep(30);
    database.exec('PRAGMA query_only = 0');
    while ((await codeOf(on.peek('ada'))) !== 'no error' || (await on.peek('ada')).remaining < 5)
      await sleep(20);
  });

  itOpens('a missing directory: the error is reported, and the store goes on when it exists', async () => {
    path = join(directory, 'data', 'limits.db');
    const on = limiter();
    expect(await codeOf(on.consume('ada'))).to.match(/^HEADGATE_STORE_AWAY .*ENOENT/);
    mkdirSync(join(directory, 'data'));
    expect((await on.consume('ada')).remaining).to.equal(4);
  });

  itOpens(
    'a file that is not a database: the error is reported, and the store goes on when it is gone',
    async () => {
      writeFileSync(path, 'this is no database, but a text of some length'.repeat(100));
      const on = limiter();
      expect(await codeOf(on.consume('ada'))).to.match(/^HEADGATE_STORE_AWAY .*not a database/);
      rmSync(path);
      expect((await on.consume('ada')).remaining).to.equal(4);
    },
  );

  itOpens(
    'a file that becomes corrupt: the error is reported, and the store goes on when the file is gone',
    async () => {
      const first = limiter({ limit: 10_000 });
      await Promise.all(Array.from({ length: 500 }, (_, i) => first.consume(`key ${i}`)));
      await open.find((each) => (each as unknown) !== first)!.close!();
      const { size } = statSync(path);
      const file = fs.openSync(path, 'r+');
      fs.writeSync(file, Buffer.alloc(size - 4096, 0xa5), 0, size - 4096, 4096);
      fs.closeSync(file);
      const on = limiter({ limit: 10_000 }, keep(storeOn(path)));
      expect(await codeOf(on.consume('key 1'))).to.match(/^HEADGATE_STORE_AWAY .*malformed/);
      for (const end of ['', '-wal', '-shm']) rmSync(path + end, { force: true });
      expect((await on.consume('key 1')).remaining).to.equal(9_999);
    },
  );

  itOpens(
    'a file that is deleted or replaced: reported once, then all processes use the new file',
    async () => {
      const on = limiter();
      await on.consume('ada');
      for (const end of ['', '-wal', '-shm']) renameSync(path + end, `${path}.old${end}`);
      await sleep(1_050);
      expect(await codeOf(on.consume('ada'))).to.match(/^HEADGATE_STORE_AWAY .*deleted/);
      expect((await on.consume('ada')).remaining).to.equal(4);
      expect((await limiter().consume('ada')).remaining).to.equal(3);
    },
  );

  for (const [what, harm] of [
    ['a file that is emptied', () => fs.truncateSync(path)],
    ['a log that is deleted', () => rmSync(`${path}-wal`)],
  ] as const) {
    itOpens(
      `${what} while it is open: reported once, no data is lost, and later processes can connect`,
      async () => {
        const on = limiter();
        await on.consume('ada');
        harm();
        await sleep(1_050);
        expect(await codeOf(on.consume('ada'))).to.match(/^HEADGATE_STORE_AWAY .*deleted/);
        expect((await on.consume('ada')).remaining).to.equal(3);
        expect((await limiter().consume('ada')).remaining).to.equal(2);
      },
    );
  }

  const lose = () => {
    for (const end of ['', '-wal', '-shm']) rmSync(path + end, { force: true });
  };
  const REPLACED = /deleted, emptied or replaced/;

  it('a file that is deleted is reported without traffic, to a listener', async () => {
    const seen: string[] = [];
    const onHealth = ({ state, lastError }: Health) => void seen.push(`${state} ${lastError?.message}`);
    const on = limiter({ onHealth });
    await on.consume('ada');
    lose();
    while (seen.length === 0) await sleep(20);
    expect(seen).to.have.length(1);
    expect(seen[0]).to.match(/^up .*deleted, emptied or replaced/);
  });

  it('and by a warning, without a listener', async () => {
    emittedCodes.delete('HEADGATE_STORE_REPLACED');
    const warned: string[] = [];
    const stub = sinon
      .stub(process, 'emitWarning')
      .callsFake(((message: string, { code }: { code: string }) =>
        warned.push(`${code} ${message}`)) as never);
    try {
      const on = limiter({ warnings: [], onStoreError: 'local' });
      await on.consume('ada');
      lose();
      await sleep(1_050);
      expect((await on.consume('ada')).degraded).to.equal(true);
      expect((await on.consume('ada')).degraded).to.equal(false);
    } finally {
      stub.restore();
    }
    expect(warned.join()).to.match(/^HEADGATE_STORE_REPLACED The file .*deleted, emptied or replaced/);
  });

  it('a database that was opened is reported once when its file is deleted, and decides on', async () => {
    const on = limiter({}, sqliteStore(keep(openDatabase(path))));
    await on.consume('ada');
    lose();
    await sleep(1_050);
    const told = await codeOf(on.consume('ada'));
    expect(told)
      .to.match(REPLACED)
      .and.match(/restart the process/);
    expect((await on.consume('ada')).remaining).to.equal(3);
    await sleep(1_050);
    expect((await on.consume('ada')).remaining).to.equal(2);
  });

  it('a database that was opened has a file that only its owner can read, unless it was shared before', async function () {
    if (process.platform === 'win32') this.skip();
    const modes = () => ['', '-wal', '-shm'].map((end) => (statSync(path + end).mode & 0o777).toString(8));
    const mask = process.umask(0o022);
    try {
      await limiter({}, sqliteStore(keep(openDatabase(path)))).consume('ada');
      expect(modes()).to.deep.equal(['600', '600', '600']);
      path = join(directory, 'shared.db');
      fs.closeSync(fs.openSync(path, 'w'));
      fs.chmodSync(path, 0o660);
      await limiter({}, sqliteStore(keep(openDatabase(path)))).consume('ada');
      expect(modes()).to.deep.equal(['660', '660', '660']);
    } finally {
      process.umask(mask);
    }
  });

  it('a file system that refuses locks is reported as such, although SQLite calls it busy', async () => {
    const Driver = openDatabase(path).constructor as DatabaseClass;
    let refuses = false;
    const refuse = () => {
      if (refuses) throw Object.assign(new Error('database is locked'), { errcode: 5, code: 'SQLITE_BUSY' });
    };
    class OnRefusingDisk extends Driver {
      override exec(sql: string): unknown {
        if (sql.includes('BEGIN')) refuse();
        return super.exec(sql);
      }

      override prepare(sql: string): SqliteStatement {
        const statement = super.prepare(sql);
        if (!sql.includes('BEGIN')) return statement;
        return { get: () => undefined, all: () => [], run: () => (refuse(), statement.run()) };
      }
    }
    const on = limiter({ timeout: '10s' }, sqliteStore(keep(new OnRefusingDisk(path))));
    await on.consume('ada');
    refuses = true;
    expect(await codeOf(on.consume('ada'))).to.match(/^HEADGATE_STORE_AWAY .*file system refuses locks/);
    refuses = false;
    expect((await on.consume('ada')).remaining).to.equal(3);
    expect(fs.readdirSync(directory).filter((name) => name.startsWith('.'))).to.deep.equal([]);
  });

  itOpens('a disk that is full from the start is reported as such', async function () {
    if (process.platform !== 'linux') this.skip();
    path = '/dev/full';
    expect(await codeOf(limiter().consume('ada'))).to.match(/^HEADGATE_STORE_AWAY .*disk is full/);
  });

  itOpens('a file that may not be opened is reported with the reason', async () => {
    const stub = sinon.stub(fs, 'accessSync').throws(new Error("EACCES: permission denied, access '/x'"));
    syncBuiltinESMExports();
    try {
      // SQLite cannot open a directory either, and only says that it is unable to.
      path = directory;
      expect(await codeOf(limiter().consume('ada'))).to.match(
        /^HEADGATE_STORE_AWAY .*unable to open.*EACCES/,
      );
    } finally {
      stub.restore();
      syncBuiltinESMExports();
    }
  });

  it('the store uses the clock of its options', async () => {
    const clock = new TestClock();
    const on = limiter({ window: '1m' }, store({ clock: clock.read }));
    await on.consume('ada', { cost: 5 });
    expect((await on.consume('ada')).allowed).to.equal(false);
    clock.now = START + 60_000;
    expect((await on.consume('ada')).allowed).to.equal(true);
  });
});
