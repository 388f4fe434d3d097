// The records beside the bans: the index with operators and reasons, and the log.
import { Readable } from 'node:stream';
import { expect } from 'chai';
import type { Limiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { BanBook, bookKeys, MAX_RECORDED_BANS } from '../../../src/stores/redis/operators/ban-book.js';
import { commandsOf } from '../../../src/stores/redis/clients/clients.js';
import { escapeKey } from '../../../src/stores/keys.js';
import { startServer } from '../../../test/support/servers.js';
import { serverKinds, servers } from '../../../test/support/shared-servers.js';
import { clients, freshPrefix, limiterOn } from '../../../test/support/stores.js';
import { headgate, json, jsonLines, TELLING, told } from './cli.js';

const HOUR = 3_600_000;

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
    const noted = async (...keys: string[]) => {
      while (!keys.every((key) => known.includes(key))) known = await banned();
    };
    let known: string[] = [];
    beforeEach(() => (known = []));
    const run = (...args: string[]) => headgate([...args, ...where], { env: { USER: 'ada' } });

    it('list --banned needs no SCAN for bans by denials, by the program and by the command line', async () => {
      await Promise.all(Array.from({ length: 3000 }, (_, i) => other.consume(`user:${i}`)));
      const long = 'k'.repeat(1000);
      await deny('by denials');
      await deny(long);
      await limiter.ban('by the program', HOUR);
      await other.ban('{odd}:*', HOUR);
      await run('ban', 'by hand', '1h', '--name', 'api');
      await run('ban', '10.0.0.0/24', '1h', '--name', 'other');
      await noted('by denials');
      await client.config('RESETSTAT');
      const found = await banned();
      expect(found).to.have.length(5 + 256);
      expect(found).to.include.members(['by denials', 'by the program', '{odd}:*', 'by hand', '10.0.0.255']);
      expect(await banned('--name', 'api')).to.have.length(4);
      expect(await client.info('commandstats')).to.not.match(/cmdstat_(scan|keys):/);
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
      expect(await client.zrange(bookKeys(prefix)[0], '0', '-1')).to.have.members(['', 'api:nobody']);
    });

    it('a deleted index is not taken for whole: all keys are looked at, and it is made anew', async () => {
      const [index, notes, log, seal] = bookKeys(prefix);
      await deny('a');
      await run('ban', 'b', '1h', '--name', 'api');
      for (const gone of [[index], [seal], [index, notes, log, seal]]) {
        expect(await banned()).to.deep.equal(['a', 'b']);
        expect(await client.get(seal)).to.equal('whole');
        await client.del(...gone);
      }
      expect((await run('list', '--banned')).stdout).to.not.match(/Read from the index/);
      expect((await run('list', '--banned')).stdout).to.match(/Read from the index of bans: --scan/);
      for (const key of [index, seal]) expect(await client.pttl(key)).to.be.within(1, 24 * HOUR);
      // A single scope, or a stopped search, proves nothing about the remaining scopes.
      await client.del(index);
      expect(await banned('--name', 'api')).to.deep.equal(['a', 'b']);
      const stopped = { onInterrupt: (stop: () => void) => (stop(), () => {}) };
      expect((await headgate(['list', '--banned', ...where], stopped)).code).to.equal(130);
      expect(await client.get(seal)).to.not.equal('whole');
    });

    it('a process that has noted a ban notes it again, once a minute, when its key asks', async () => {
      const [index] = bookKeys(prefix);
      const book = new BanBook(commandsOf(client), prefix, escapeKey);
      const now = Date.now();
      const learn = (after: number) =>
        book.learn(
          { set: limiter.set, key: 'a' },
          { now: now + after, step: 0, ban: HOUR - after, verdicts: [] },
        );
      learn(0);
      while ((await client.zcard(index)) === 0);
      await client.del(index);
      learn(59_000);
      learn(60_000);
      while ((await client.zcard(index)) === 0);
      book.close();
    });

    it('a ban that a user may not note breaks the seal: the next list looks at all keys', async () => {
      const server = await startServer(kind);
      const admin = new Redis(server.port);
      const user = new Redis(server.port, { username: 'app', password: 'p', lazyConnect: true });
      const at = ['--redis', server.url];
      try {
        await admin.call('ACL', 'SETUSER', 'app', 'on', '>p', '~hg:*', '+@all', '-zadd');
        await user.connect();
        const cannot = limiterOn(redisStore(user, { publish: false }), {
          name: 'api',
          limit: 1,
          window: '1h',
          ban: {},
        });
        await headgate(['list', '--banned', ...at]);
        expect((await headgate(['list', '--banned', ...at])).stdout).to.match(/index of bans/);
        await cannot.ban('a', HOUR);
        for (const key of ['a', 'b', 'c']) {
          await cannot.ban(key, HOUR);
          while ((await admin.exists(bookKeys('hg')[3])) === 1);
          const lines = await jsonLines('list', '--banned', ...at);
          expect(lines.map((line) => line.key)).to.include(key);
          while ((await admin.get(bookKeys('hg')[3])) !== 'whole')
            await headgate(['list', '--banned', ...at]);
        }
        await cannot.close();
      } finally {
        user.disconnect();
        admin.disconnect();
        await server.stop();
      }
    });

    it('limiters that are not published still record their bans', async () => {
      const store = redisStore(client, { prefix, localDenials: false, publish: false });
      const silent = limiterOn(store, { name: 'silent', limit: 1, window: '1h', ban: { after: 1 } });
      await banned();
      expect(await client.get(bookKeys(prefix)[3])).to.equal('whole');
      await silent.ban('by the program', HOUR);
      for (let i = 0; i < 3; i++) await silent.consume('by denials');
      await noted('by the program', 'by denials');
      await silent.close();
    });

    it('is bounded, has TTLs, and warns when it is full', async () => {
      const [index, notes, log] = bookKeys(prefix);
      await run('ban', 'a', '2h', '--name', 'api', '--reason', 'why');
      expect(await client.pttl(index)).to.be.within(HOUR, 2 * HOUR);
      expect(await client.pttl(notes)).to.be.within(HOUR, 2 * HOUR);
      expect(await client.pttl(log)).to.be.within(365 * 24 * HOUR, 366 * 24 * HOUR);

      const fill = `for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], ARGV[2], 'api:x' .. i) end
        for i = 1, 12000 do redis.call('XADD', KEYS[2], '*', 'entry', '{}') end`;
      await client.zrem(index, '');
      await client.eval(fill, 2, index, log, String(MAX_RECORDED_BANS - 1), String(Date.now() + HOUR));
      await run('ban', 'b', '3h', '--name', 'api');
      expect(await client.zcard(index)).to.equal(MAX_RECORDED_BANS);
      expect(await client.xlen(log)).to.be.within(10_000, 10_200);
      expect((await limiter.peek('b')).reason).to.equal('banned');
      // It is never whole then.
      for (let i = 0; i < 2; i++) expect(await banned()).to.deep.equal(['a', 'b']);
      // Expired entries make room.
      await client.eval(fill.split('\n')[0]!, 1, index, String(MAX_RECORDED_BANS - 1), '1');
      for (let i = 0; i < 2; i++) await run('ban', 'b', '3h', '--name', 'api');
      expect(await banned()).to.deep.equal(['a', 'b']);
      expect(await client.get(bookKeys(prefix)[3])).to.equal('whole');
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
      expect(stdout).to.match(/^a +banned +- +\S+( \S+)? +grace: credential stuffing, INC-7$/m);
      expect(stdout).to.match(/^b +banned +- +\S+( \S+)? +ada$/m);
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
      expect(
        log.map(({ action, name, key, network, keys, forMs, by, reason, from }) =>
          [action, name, key ?? network, keys, forMs, by, reason, from].join('|'),
        ),
      ).to.deep.equal([
        'ban|other|10.0.0.0/24|256|7200000|ada|net|cli',
        'ban|api|c|1|3600000|||program',
        'import|api||1|0|linus|moved|cli',
        'unban|api|a|1|0|ada|was a test|cli',
        'ban|api|b|1|3600000|ada||cli',
        'ban|api|a|1|3600000|grace|credential stuffing, INC-7|cli',
      ]);
      for (const { at } of log) expect(Date.now() - Date.parse(String(at))).to.be.within(-1000, 60_000);
      expect(await jsonLines('bans', 'log', '--name', 'other', ...where)).to.have.length(1);
      expect(await jsonLines('bans', 'log', '--limit', '2', ...where)).to.have.length(2);
      const people = (await run('bans', 'log')).stdout;
      expect(people).to.match(/^\S+ \S+ +ban +other +10\.0\.0\.0\/24 \(256 keys\) +2h +ada +net$/m);
      expect(people).to.match(/^\S+ \S+ +ban +api +c +1h +the program +-$/m);
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
      await client.config('SET', 'slowlog-log-slower-than', '0');
      const found = await jsonLines('bans', 'log', ...where);
      const commands = (await client.call('SLOWLOG', 'GET', '-1')) as [number, number, number, string[]][];
      await client.config('SET', 'slowlog-log-slower-than', '10000');
      const pages = commands.map(([, , , args]) => args).filter(([, key]) => key === log);
      const ends = pages.reverse().map(([, , end]) => end);
      expect(found.map(({ at }) => at)).to.deep.equal(
        ids.map((id) => new Date(Number(id.split('-')[0])).toISOString()).reverse(),
      );
      expect(ends.join(' ')).to.match(/^\+ \d+(-\d+)? \d+(-\d+)?$/);
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
      await noted('a');
      expect(await json('peek', 'a', '--name', 'api', ...where)).to.include({
        bannedBy: null,
        banReason: null,
      });
      // A key that asks while it is banned changes nothing of the note.
      await run('ban', 'b', '1h', '--name', 'api', '--reason', 'long');
      await client.zrem(bookKeys(prefix)[0], 'api:b');
      await limiter.consume('b');
      await noted('b');
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
