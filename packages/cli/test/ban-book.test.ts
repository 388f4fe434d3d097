// The records beside the bans: the index, the operators and reasons, and the log.
import { Readable } from 'node:stream';
import { expect } from 'chai';
import type { Limiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { bookKeys, MAX_RECORDED_BANS } from '../../../src/stores/redis/operators/ban-book.js';
import { createAdmin } from 'headgate/admin';
import { allowTime } from '../../../test/support/hooks.js';
import { startServer } from '../../../test/support/servers.js';
import { serverKinds, servers } from '../../../test/support/shared-servers.js';
import { clients, freshPrefix, limiterOn } from '../../../test/support/stores.js';
import { headgate, json, jsonLines, TELLING, told } from './cli.js';

const HOUR = 3_600_000;

/** The codes of warnings, which come once in a process. */
const warned = new Set<string | undefined>();

for (const kind of serverKinds) {
  describe(`the book of bans on ${kind}`, () => {
    const client = clients[kind];
    let prefix: string;
    let where: string[];
    let limiter: Limiter;
    let other: Limiter;

    beforeEach(async () => {
      prefix = freshPrefix();
      where = ['--redis', servers[kind].url, '--prefix', prefix];
      const store = redisStore(client, { prefix, ...TELLING });
      limiter = limiterOn(store, { name: 'api', limit: 1, window: '1h', ban: { after: 2, for: '1h' } });
      other = limiterOn(store, { name: 'other', limit: 1, window: '1h', ban: {} });
      await told(where, 'api', 'other');
    });
    afterEach(() => Promise.all([limiter.close(), other.close()]));

    const banned = async (...args: string[]) =>
      (await jsonLines('list', '--banned', ...where, ...args))
        .map(({ key, keyHash }) => String(key ?? keyHash))
        .sort();
    const deny = async (key: string, times = 3) => {
      for (let i = 0; i < times; i++) await limiter.consume(key);
    };
    const recorded = async (count: number) => {
      while ((await client.zcard(bookKeys(prefix)[0])) < count);
    };
    const run = (...args: string[]) => headgate([...args, ...where], { env: { USER: 'ada' } });

    it('every ban is recorded, and found without its record: by denials, by the program and by the command line', async () => {
      await Promise.all(Array.from({ length: 3000 }, (_, i) => other.consume(`user:${i}`)));
      const long = 'k'.repeat(1000);
      await deny('by denials');
      await deny(long);
      await limiter.ban('by the program', HOUR);
      await other.ban('{odd}:*', HOUR);
      await run('ban', 'by hand', '1h', '--name', 'api');
      await run('ban', '10.0.0.0/24', '1h', '--name', 'other');
      await recorded(5 + 256);
      const admin = createAdmin(client, { prefix });
      await client.config('RESETSTAT');
      const ofIndex: string[] = [];
      for await (const { key } of admin.bans({ scan: 'never' }))
        ofIndex.push(typeof key === 'string' ? key : key.hash);
      expect(await client.info('commandstats')).to.not.match(/cmdstat_(scan|keys):/);
      await admin.close();
      const found = await banned();
      expect(ofIndex.sort()).to.deep.equal(found);
      expect(found).to.have.length(5 + 256);
      expect(found).to.include.members(['by denials', 'by the program', '{odd}:*', 'by hand', '10.0.0.255']);
      expect(await banned('--name', 'api')).to.have.length(4);
      await client.del(bookKeys(prefix));
      expect(await banned()).to.deep.equal(found);
      // An option of earlier versions.
      expect(await banned('--scan')).to.deep.equal(found);
      expect((await headgate(['bans', 'export', ...where])).stdout.trim().split('\n')).to.have.length(261);
    });

    it('says nothing that is not so: ended bans are gone, shortened ones have their time', async () => {
      await limiter.ban('a', HOUR);
      await limiter.ban('b', HOUR);
      await limiter.ban('c', 30);
      await limiter.unban('a');
      await limiter.ban('b', 60_000);
      await new Promise((resolve) => setTimeout(resolve, 40));
      const lines = await jsonLines('list', '--banned', ...where);
      expect(lines.map(({ key }) => key)).to.deep.equal(['b']);
      expect(lines[0]!.bannedForMs).to.be.within(50_000, 60_000);
      // An unban that could not remove its entry from the index does not show the entry either.
      await client.zadd(bookKeys(prefix)[0], Date.now() + HOUR, 'api:nobody');
      expect(await banned()).to.deep.equal(['b']);
      await run('unban', 'b', '--name', 'api');
      expect(await banned()).to.deep.equal([]);
      expect(await client.zrange(bookKeys(prefix)[0], '0', '-1')).to.deep.equal(['api:nobody']);
    });

    it('an index that an earlier version wrote is not trusted, and earlier versions do not trust the index any more', async () => {
      const [index, , , trusted] = bookKeys(prefix);
      await deny('a');
      await recorded(1);
      await client.zadd(index, Date.now() + HOUR, '');
      await client.zrem(index, 'api:a');
      await client.set(trusted, 'whole', 'PX', HOUR);
      expect(await banned()).to.deep.equal(['a']);
      expect(await client.exists(trusted)).to.equal(1);
      await run('ban', 'b', '1h', '--name', 'api');
      expect(await client.exists(trusted)).to.equal(0);
      expect(await banned()).to.deep.equal(['a', 'b']);
      await client.set(index, 'of another program', 'PX', HOUR);
      expect(await banned()).to.deep.equal(['a', 'b']);
    });

    it('the bans of a user that may not record them are in force, found and reported', async () => {
      const server = await startServer(kind);
      const admin = new Redis(server.port);
      const user = new Redis(server.port, { username: 'app', password: 'p', lazyConnect: true });
      const listen = (warning: Error & { code?: string }) => void warned.add(warning.code);
      process.on('warning', listen);
      try {
        await admin.call('ACL', 'SETUSER', 'app', 'on', '>p', '~hg:*', '+@all', '-zadd');
        await user.connect();
        const store = redisStore(user, { publish: false });
        const cannot = limiterOn(store, { name: 'api', limit: 1, window: '1h', ban: {} });
        await cannot.ban('a', HOUR);
        while (!warned.has('HEADGATE_BANS_UNKNOWN')) await new Promise(setImmediate);
        await cannot.ban('b', HOUR);
        const lines = await jsonLines('list', '--banned', '--redis', server.url);
        expect(lines.map(({ key }) => key)).to.have.members(['a', 'b']);
        await cannot.close();
      } finally {
        process.off('warning', listen);
        user.disconnect();
        admin.disconnect();
        await server.stop();
      }
    });

    it('limiters that are not published still record their bans', async () => {
      const store = redisStore(client, { prefix, localDenials: false, publish: false });
      const silent = limiterOn(store, { name: 'silent', limit: 1, window: '1h', ban: { after: 1 } });
      await silent.ban('by the program', HOUR);
      for (let i = 0; i < 3; i++) await silent.consume('by denials');
      await recorded(2);
      await silent.close();
    });

    it('is bounded and has TTLs', async () => {
      allowTime(60_000);
      const [index, notes, log] = bookKeys(prefix);
      await run('ban', 'a', '2h', '--name', 'api', '--reason', 'why');
      expect(await client.pttl(index)).to.be.within(HOUR, 2 * HOUR);
      expect(await client.pttl(notes)).to.be.within(HOUR, 2 * HOUR);
      expect(await client.pttl(log)).to.be.within(365 * 24 * HOUR, 366 * 24 * HOUR);

      const fill = `for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], ARGV[2], 'api:x' .. i) end
        for i = 1, 12000 do redis.call('XADD', KEYS[2], '*', 'entry', '{}') end`;
      await client.eval(fill, 2, index, log, String(MAX_RECORDED_BANS - 1), String(Date.now() + HOUR));
      await run('ban', 'b', '3h', '--name', 'api');
      expect(await client.zcard(index)).to.equal(MAX_RECORDED_BANS);
      expect(await client.xlen(log)).to.be.within(10_000, 10_200);
      expect((await limiter.peek('b')).reason).to.equal('banned');
      expect(await banned()).to.deep.equal(['a', 'b']);
      // Expired entries make room.
      await client.eval(fill.split('\n')[0]!, 1, index, String(MAX_RECORDED_BANS - 1), '1');
      for (let i = 0; i < 2; i++) await run('ban', 'b', '3h', '--name', 'api');
      expect(await banned()).to.deep.equal(['a', 'b']);
      expect(await client.zcard(index)).to.be.at.most(MAX_RECORDED_BANS - 1999);
    });

    it('list, peek, export and the log show who banned, and why', async () => {
      await run('ban', 'a', '1h', '--name', 'api', '--reason', 'credential stuffing, INC-7', '--by', 'grace');
      await run('ban', 'b', '1h', '--name', 'api');
      const [a, b] = await jsonLines('list', '--banned', ...where);
      expect([a, b].map((line) => [line!.key, line!.by, line!.reason])).to.have.deep.members([
        ['a', 'grace', 'credential stuffing, INC-7'],
        ['b', 'ada', null],
      ]);
      const { stdout } = await run('list', '--banned');
      expect(stdout).to.match(/^a +banned +- +\S+( \S+)? +20\S+ \S+ +grace: credential stuffing, INC-7$/m);
      expect(stdout).to.match(/^b +banned +- +\S+( \S+)? +20\S+ \S+ +ada$/m);
      expect((await run('peek', 'a', '--name', 'api')).stdout).to.match(
        /\nbanned for .* by grace: credential stuffing, INC-7\n/,
      );
      expect(await json('peek', 'a', '--name', 'api', ...where)).to.include({
        bannedBy: 'grace',
        banReason: 'credential stuffing, INC-7',
      });

      const exported = (await run('bans', 'export')).stdout;
      await run('unban', 'a', '--name', 'api', '--reason', 'was a test');
      expect(await json('peek', 'a', '--name', 'api', ...where)).to.include({
        bannedBy: null,
        banReason: null,
      });
      const stdin = Readable.from([exported]);
      await headgate(['bans', 'import', '-', '--by', 'linus', '--reason', 'moved', ...where], { stdin });
      expect(await json('peek', 'a', '--name', 'api', ...where)).to.include({ bannedBy: 'grace' });

      await limiter.ban('c', HOUR);
      await run('ban', '10.0.0.0/24', '2h', '--name', 'other', '--reason', 'net');
      while ((await jsonLines('bans', 'log', ...where)).length < 6);
      const log = await jsonLines('bans', 'log', ...where);
      // The length of the longest ban: the rest of the exported one.
      const rest = Number(log.find(({ action }) => action === 'import')?.forMs);
      expect(rest).to.be.within(HOUR - 60_000, HOUR);
      expect(
        log.map(({ action, name, key, network, keys, forMs, by, reason, from }) =>
          [action, name, key ?? network, keys, forMs, by, reason, from].join('|'),
        ),
      ).to.deep.equal([
        'ban|other|10.0.0.0/24|256|7200000|ada|net|cli',
        'ban|api|c|1|3600000|||program',
        `import|api|a|1|${rest}|linus|moved|cli`,
        'unban|api|a|1|0|ada|was a test|cli',
        'ban|api|b|1|3600000|ada||cli',
        'ban|api|a|1|3600000|grace|credential stuffing, INC-7|cli',
      ]);
      for (const { at } of log) expect(Date.now() - Date.parse(String(at))).to.be.within(-1000, 60_000);
      expect(await jsonLines('bans', 'log', '--name', 'other', ...where)).to.have.length(1);
      expect(await jsonLines('bans', 'log', '--limit', '2', ...where)).to.have.length(2);
      const people = (await run('bans', 'log')).stdout;
      expect(people).to.match(/^\S+ \S+ +\d+m?s +ban +other +10\.0\.0\.0\/24 \(256 keys\) +2h +ada +net$/m);
      expect(people).to.match(/^\S+ \S+ +\d+m?s +ban +api +c +1h +the program +-$/m);
    });

    it('a ban by denials stays one in an export and its import', async () => {
      await deny('wild');
      const byDenials = 'banned by denials: denied by policy default';
      while (!(await headgate(['key', 'wild', ...where])).stdout.includes(byDenials));
      await run('ban', 'hand', '1h', '--name', 'api', '--reason', 'spam');
      expect((await headgate(['list', '--banned', ...where])).stdout)
        .to.match(/^wild +banned .* denials: denied by policy default$/m)
        .and.match(/^hand .* ada: spam$/m);
      const { stdout } = await headgate(['bans', 'export', ...where]);
      const lines = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>);
      expect(lines.map(({ key, by, from, cause }) => [key, by, from, cause])).to.have.deep.members([
        ['wild', null, 'denials', 'denied by policy default'],
        ['hand', 'ada', undefined, undefined],
      ]);
      for (const key of ['wild', 'hand']) await run('unban', key, '--name', 'api');
      const olga = { stdin: Readable.from([stdout]), env: { USER: 'olga' } };
      await headgate(['bans', 'import', '-', '--reason', 'restore', ...where], olga);
      const found = await jsonLines('list', '--banned', ...where);
      expect(found.map(({ key, by, reason }) => [key, by, reason])).to.have.deep.members([
        ['wild', null, null],
        ['hand', 'ada', 'spam'],
      ]);
      const people = (await headgate(['list', '--banned', ...where])).stdout;
      expect(people)
        .to.match(/^wild +banned .* unknown: automatic, an import, or your code$/m)
        .and.match(/^hand .* ada: spam$/m);
      expect((await headgate(['key', 'wild', ...where])).stdout).to.contain(
        'banned, author unknown: automatic, an import, or your code',
      );
      await limiter.ban('noted', '1h', { reason: 'spam' });
      expect((await headgate(['key', 'noted', ...where])).stdout).to.contain('banned: spam');
    });

    it('the log is read in pages, each entry once, by ranges that Redis 6.0 has', async () => {
      const log = bookKeys(prefix)[2];
      const ids = Array.from({ length: 1_200 }, (_, i) => `${5_000 + (i % 2 === 0 ? i : i - 1)}-${i % 2}`);
      const entry = JSON.stringify({
        action: 'ban',
        who: 'api:a',
        keys: 1,
        forMs: 1,
        by: null,
        reason: null,
      });
      await client.eval(
        `for i = 2, #ARGV do redis.call('XADD', KEYS[1], ARGV[i], 'entry', ARGV[1]) end`,
        1,
        log,
        entry,
        ...ids,
      );
      await client.pexpire(log, HOUR);
      // Other clients of the server fill the list, too, the more the longer this takes.
      await client.config('SET', 'slowlog-max-len', '1000000', 'slowlog-log-slower-than', '0');
      const found = await jsonLines('bans', 'log', ...where);
      const commands = (await client.call('SLOWLOG', 'GET', '-1')) as [number, number, number, string[]][];
      await client.config('SET', 'slowlog-max-len', '128', 'slowlog-log-slower-than', '10000');
      const pages = commands.map(([, , , args]) => args).filter(([, key]) => key === log);
      const ends = pages.reverse().map(([, , end]) => end);
      expect(found.map(({ at }) => at)).to.deep.equal(
        ids.map((id) => new Date(Number(id.split('-')[0])).toISOString()).reverse(),
      );
      expect(ends.join(' ')).to.match(/^\+( \d+(-\d+)?){4}$/);
    });

    it('they also show who banned by the program, and why', async () => {
      await limiter.ban('a', '1h', { by: 'fraud-service', reason: 'score 97' });
      while ((await jsonLines('bans', 'log', ...where)).length < 1);
      expect(await json('peek', 'a', '--name', 'api', ...where)).to.include({
        bannedBy: 'fraud-service',
        banReason: 'score 97',
      });
      await limiter.unban('a', { by: 'ada' });
      while ((await jsonLines('bans', 'log', ...where)).length < 2);
      const [ended, began] = await jsonLines('bans', 'log', ...where);
      expect(ended).to.include({ action: 'unban', key: 'a', by: 'ada', reason: null, from: 'program' });
      expect(began).to.include({ action: 'ban', by: 'fraud-service', reason: 'score 97', from: 'program' });
      expect((await run('bans', 'log')).stdout).to.match(/ban +api +a +1h +fraud-service +score 97$/m);
    });

    it('the note of a ban by hand does not outlive it', async () => {
      await run('ban', 'a', '1', '--name', 'api', '--reason', 'short');
      while ((await limiter.peek('a')).reason === 'banned');
      await deny('a');
      while ((await client.xlen(bookKeys(prefix)[4])) === 0);
      expect(await json('peek', 'a', '--name', 'api', ...where)).to.include({
        bannedBy: null,
        banReason: null,
      });
      // A key that asks while it is banned changes nothing of the note.
      await run('ban', 'b', '1h', '--name', 'api', '--reason', 'long');
      await limiter.consume('b');
      expect(await json('peek', 'b', '--name', 'api', ...where)).to.include({ banReason: 'long' });
    });

    it('texts that are too long are refused; what they hold drives no terminal', async () => {
      const long = await run('ban', 'a', '1h', '--name', 'api', '--reason', 'x'.repeat(501));
      expect(long).to.include({ code: 2, stdout: '' });
      await run('ban', 'a', '1h', '--name', 'api', '--reason', '\u001b[31mred');
      for (const args of [
        ['list', '--banned'],
        ['peek', 'a', '--name', 'api'],
        ['bans', 'log'],
      ]) {
        expect((await run(...args)).stdout)
          .to.contain('\\u{1b}[31mred')
          .and.not.to.contain('\u001b');
      }
    });
  });
}
