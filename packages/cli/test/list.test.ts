// SCAN alone finds the banned and limited keys among thousands.
import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import type { Limiter, Policy } from 'headgate';
import { redisStore } from 'headgate/redis';
import { serverKinds, servers } from '../../../test/support/shared-servers.js';
import { clients, freshPrefix, limiterOn } from '../../../test/support/stores.js';
import { headgate, json, jsonLines, TELLING, told } from './cli.js';

const API: readonly Policy[] = [
  { name: 'burst', algorithm: 'token-bucket', limit: 3, window: '1h' },
  { name: 'day', algorithm: 'fixed-window', limit: 4, window: '1d' },
];
const API_TEXT = [
  '--name',
  'api',
  '--policy',
  'burst=token-bucket 3/1h',
  '--policy',
  'day=fixed-window 4/1d',
];

const AWKWARD = ['*', 'a:b', '{c}', ' d ', '%e', '\u001b[31mred', '日本'];
const LONG = 'k'.repeat(10_000);

for (const kind of serverKinds) {
  describe(`headgate list on ${kind}`, () => {
    const client = clients[kind];
    let prefix: string;
    let where: string[];
    let api: Limiter;
    let login: Limiter;

    beforeEach(() => {
      prefix = freshPrefix();
      where = ['--redis', servers[kind].url, '--prefix', prefix];
      const store = redisStore(client, { prefix, localDenials: false, publish: false, counts: false });
      api = limiterOn(store, { name: 'api', policies: API, ban: { after: 3, for: '1h' } });
      login = limiterOn(store, { name: 'POST /login: *', limit: 2, window: '1h' });
    });

    afterEach(() => Promise.all([api.close(), login.close()]));

    const list = (...args: string[]) => jsonLines('list', ...where, ...args);
    const keysOf = (lines: readonly Record<string, unknown>[], kind: string) =>
      lines.filter((line) => line.kind === kind).map(({ key, keyHash }) => key ?? keyHash);
    const repeat = async (times: number, ask: () => Promise<unknown>) => {
      for (let i = 0; i < times; i++) await ask();
    };

    it('is empty where there is nothing', async () => {
      expect(await list()).to.deep.equal([]);
      expect(await list(...API_TEXT)).to.deep.equal([]);
      const { code, stdout } = await headgate(['list', ...where]);
      expect(code).to.equal(0);
      expect(stdout).to.equal('0 banned, 0 states; 0 keys of Headgate were checked.\n');
    });

    it('shows the keys above a part of a limit, the most used first', async () => {
      for (const [key, times] of Object.entries({ full: 3, fresh: 1, half: 2 }))
        await repeat(times, () => api.consume(key));
      const keys = async (...args: string[]) => (await list(...API_TEXT, ...args)).map(({ key }) => key);
      // `fresh` has used 1 of 3 and 1 of 4.
      expect(await keys('--above', '40')).to.deep.equal(['full', 'half']);
      expect(await keys('--above', '40', '--limited')).to.deep.equal(['full']);
      const { stdout } = await headgate(['list', ...where, ...API_TEXT, '--above', '30']);
      expect(stdout.match(/^(?:full|half|fresh)/gm)).to.deep.equal(['full', 'half', 'fresh']);
      for (const args of [
        ['--above', '101'],
        ['--above', '40', '--all'],
      ])
        expect((await headgate(['list', ...where, ...API_TEXT, ...args])).code).to.equal(2);
    });

    it('with the limits: who is banned, who is limited, by which policy, for how long', async () => {
      await api.consume('fine');
      await repeat(3, () => api.consume('limited'));
      await repeat(6, () => api.consume('banned'));
      await api.ban('banned by hand', '2h');
      const lines = await list(...API_TEXT);
      expect(keysOf(lines, 'banned')).to.have.members(['banned', 'banned by hand']);
      expect(keysOf(lines, 'limited')).to.have.members(['limited', 'banned']);
      expect(lines).to.have.length(4);
      const limited = lines.find(({ kind, key }) => kind === 'limited' && key === 'limited');
      expect(limited).to.include({ name: 'api', policy: 'burst' });
      expect(limited?.retryAfterMs).to.be.within(1_190_000, 1_200_000);
      expect(limited?.policies).to.have.nested.property('[1].remaining', 1);
      const banned = lines.find(({ kind, key }) => kind === 'banned' && key === 'banned by hand');
      expect(banned?.bannedForMs).to.be.within(7_190_000, 7_200_000);

      expect(keysOf(await list(...API_TEXT, '--limited'), 'limited')).to.have.length(2);
      expect(await list(...API_TEXT, '--limited')).to.have.length(2);
      expect(await list(...API_TEXT, '--banned')).to.have.length(2);
      expect(await list('--banned')).to.have.length(2);
      const all = await list(...API_TEXT, '--all');
      expect(keysOf(all, 'admitted')).to.deep.equal(['fine']);
    });

    it('decides every algorithm like the limiter, also several together', async () => {
      const policies: readonly Policy[] = [
        { name: 'fixed', algorithm: 'fixed-window', limit: 2, window: '1h' },
        { name: 'log', algorithm: 'sliding-log', limit: 2, window: '1h' },
        { name: 'sliding', limit: 2, window: '1h' },
        { name: 'leaky', algorithm: 'leaky-bucket', limit: 2, window: '1h' },
        { name: 'slots', algorithm: 'concurrency', limit: 2, lease: '1h' },
      ];
      for (const chosen of [...policies.map((policy) => [policy]), policies]) {
        const name = chosen.map((policy) => policy.name).join('+');
        const store = redisStore(client, { prefix: where[3]!, localDenials: false, publish: false });
        const limiter = limiterOn(store, { name, policies: chosen });
        await limiter.consume('once');
        await repeat(3, () => limiter.consume('thrice'));
        const given = chosen.flatMap((policy) => ['--policy', JSON.stringify(policy)]);
        const lines = await list('--name', name, ...given, '--all');
        expect(keysOf(lines, 'limited'), name).to.deep.equal(['thrice']);
        expect(keysOf(lines, 'admitted'), name).to.deep.equal(['once']);
        const verdicts = lines.find(({ key }) => key === 'once')?.policies as { remaining: number }[];
        expect(verdicts.map(({ remaining }) => remaining)).to.deep.equal(chosen.map(() => 1));
        const [first] = chosen;
        const peek = ['peek', 'thrice', '--name', name, ...where, '--policy', JSON.stringify(first)];
        expect((await headgate(peek)).code).to.equal(3);
        await limiter.close();
      }
    });

    it('names no end of a denial by slots, because processes renew their leases', async () => {
      const store = redisStore(client, { prefix: where[3]!, localDenials: false, publish: false });
      const policies: Policy[] = [{ name: 'slots', algorithm: 'concurrency', limit: 1, lease: '1m' }];
      const jobs = limiterOn(store, { name: 'jobs', policies });
      await repeat(2, () => jobs.consume('pdf'));
      const given = ['--name', 'jobs', ...where, '--policy', JSON.stringify(policies[0])];
      const end = /until a slot is returned, in (\d+s|1m) at the latest if its process died/;
      for (const command of [
        ['list', '--limited'],
        ['peek', 'pdf'],
      ])
        expect((await headgate([...command, ...given])).stdout, command[0]).to.match(end);
      const { stdout } = await headgate(['list', '--above', '50', ...given]);
      expect(stdout).to.match(/^pdf +limited +slots: 1 of 1 used \(100 %\) /m);
      await jobs.close();
    });

    it('without the limits: who is banned, and the keys that hold state', async () => {
      await repeat(4, () => api.consume('counted'));
      await repeat(6, () => api.consume('banned'));
      await login.consume('a');
      const lines = await list();
      expect(keysOf(lines, 'banned')).to.deep.equal(['banned']);
      const states = lines.filter(({ kind }) => kind === 'state');
      const seen = states.map(({ name, key, policy, algorithm }) => [name, key, policy, algorithm].join());
      expect(seen).to.have.members([
        'api,counted,,ban',
        'api,counted,burst,gcra',
        'api,counted,day,fixed-window',
        'api,banned,burst,gcra',
        'api,banned,day,fixed-window',
        'POST /login: *,a,default,sliding-window',
      ]);
      for (const { expiresInMs } of states) expect(expiresInMs).to.be.within(1, 86_400_000);
      expect(await list('--name', 'POST /login: *')).to.have.length(1);
    });

    it('names any key; of a long one its hash, whatever is asked about it', async () => {
      for (const key of [...AWKWARD, LONG]) await repeat(3, () => api.consume(key));
      for (const key of [...AWKWARD, LONG]) await api.ban(key, '1h');
      const lines = await list(...API_TEXT);
      for (const kind of ['banned', 'limited']) {
        const keys = keysOf(lines, kind);
        expect(keys).to.include.members(AWKWARD);
        expect(keys).to.have.length(AWKWARD.length + 1);
      }
      expect(lines.filter(({ keyHash }) => keyHash !== undefined)).to.have.length(2);
      const { stdout } = await headgate(['list', ...where, ...API_TEXT]);
      expect(stdout).to.contain('\\u{1b}[31mred').and.not.to.contain('\u001b');
      expect(stdout).to.match(/^sha256:[\w-]{43} +banned/m);
    });

    it('tells a name of which the keys have only a hash, if the limiter has told of itself', async () => {
      const name = 'n'.repeat(200);
      const store = redisStore(client, { prefix: where[3]!, ...TELLING });
      const limiter = limiterOn(store, { name, limit: 2, window: '1h' });
      await limiter.consume('a');
      await told(where, name);
      expect((await list('--all'))[0]).to.include({ kind: 'admitted', name, key: 'a' });
      await limiter.close();
    });

    it('groups by scope for people, who is banned first', async () => {
      await repeat(3, () => api.consume('b'));
      await repeat(3, () => api.consume('a'));
      await api.ban('z', '1h');
      await login.consume('c');
      const { stdout } = await headgate(['list', ...where, ...API_TEXT]);
      expect(stdout).to.match(
        /^api\nkey +state +policy +time left +until \(UTC\) +by: reason\nz +banned +- +(1h|59m 59s) +20\S+ \S+ +the program\na +limited +burst +\S+( \S+)? +- +-\nb +limited +burst/,
      );
      expect(stdout).to.match(/\n1 banned, 2 limited; 5 keys of Headgate were checked\.\n$/);
      const banned = await headgate(['list', ...where, '--banned', '--scan']);
      expect(banned.stdout).to.match(/\n1 banned; 1 key of Headgate was checked\.\n$/);
      const everything = await headgate(['list', ...where]);
      expect(everything.stdout).to.contain('\nPOST /login: *\n').and.to.match(/^api$/m);
      expect(everything.stdout).to.contain('The limits decide which');
    });

    it('leaves the keys of others, and of other prefixes, alone', async () => {
      await client.set(`${where[3]}:{api:x}`, 'not ours', 'EX', 60);
      await client.set(`${where[3]}:{api:broken}g3@3/1h+3:burst`, 'not a number', 'EX', 60);
      await client.lpush(`${where[3]}:{api:list}f3@1d:day`, 'wrong type');
      await client.expire(`${where[3]}:{api:list}f3@1d:day`, 60);
      await client.set(`${where[3]}2:{api:y}g3@3/1h+3:burst`, '0', 'EX', 60);
      await client.set(`${where[3]}:{api:future}z9`, '0', 'EX', 60);
      const lines = await list();
      expect(keysOf(lines, 'state')).to.have.members(['broken', 'list', 'future']);
      expect(lines.find(({ key }) => key === 'future')).to.include({ algorithm: null });
      const judged = await list(...API_TEXT);
      expect(judged).to.have.length(1);
      expect(judged[0]).to.include({ kind: 'unreadable', key: 'list' });
      expect(judged[0]?.message).to.match(/WRONGTYPE/);
    });

    it('lists all bans first, however small the limit is', async () => {
      const many = Array.from({ length: 1500 }, (_, i) => `user:${i}`);
      await Promise.all(many.map((key) => login.consume(key)));
      const banned = many.slice(0, 40);
      for (const key of banned) await api.ban(key, '1h');
      const lines = await list('--limit', '10');
      expect(lines.slice(0, 40).map(({ kind }) => kind)).to.deep.equal(banned.map(() => 'banned'));
      expect(keysOf(lines, 'banned')).to.have.members(banned);
      expect(lines).to.have.length(50);
      const { stdout } = await headgate(['list', ...where]);
      expect(stdout).to.match(
        /^40 banned, 1000 states; [\d,]+ keys of Headgate were checked\.\nThere are more/m,
      );
      for (const { bannedUntil, bannedForMs } of lines.slice(0, 40)) {
        const left = Date.parse(bannedUntil as string) - Date.now();
        expect(left).to.be.within((bannedForMs as number) - 20_000, bannedForMs as number);
      }
    });

    it('lists addresses in the order of their numbers', async () => {
      for (const last of [100, 2, 10, 1]) await api.ban(`10.7.0.${last}`, '1h');
      const { stdout } = await headgate(['list', '--banned', ...where]);
      expect(stdout.match(/^10\.7\.0\.\d+/gm)).to.deep.equal([
        '10.7.0.1',
        '10.7.0.2',
        '10.7.0.10',
        '10.7.0.100',
      ]);
    });

    it('names a banned key once, unless its limit outlasts the ban', async () => {
      await repeat(3, () => api.consume('a'));
      await api.ban('a', '1h');
      expect(keysOf(await list(...API_TEXT), 'limited')).to.deep.equal(['a']);
      const { stdout } = await headgate(['list', ...where, ...API_TEXT]);
      expect(stdout.match(/^a /gm)).to.have.length(1);
      await api.ban('a', '1ms', { by: 'ada' });
      expect((await headgate(['list', ...where, ...API_TEXT])).stdout).to.match(/^a +limited/m);
    });

    it('shows the share of the keys that was checked if someone watches', async () => {
      const many = Array.from({ length: 2000 }, (_, i) => `user:${i}`);
      await Promise.all(many.map((key) => api.consume(key)));
      const shares: number[] = [];
      const stderr = Object.assign(new PassThrough(), { isTTY: true });
      let said = '';
      stderr.on('data', (chunk: Buffer) => {
        said += chunk.toString();
        for (const [, share] of chunk.toString().matchAll(/(\d+) %, [\d,]+ keys of Headgate/g))
          shares.push(Number(share));
      });
      expect(await headgate(['list', ...where, '--count', '100', '--limit', '0'], { stderr })).to.include({
        code: 0,
      });
      expect(shares).to.have.length.greaterThan(20);
      expect(shares).to.deep.equal([...shares].sort((a, b) => a - b));
      expect(shares.at(-1)).to.equal(100);
      expect(said.endsWith('\r\u001b[K'), 'the line is cleared in the end').to.equal(true);
    });

    it('Ctrl-C ends it, and keeps what was found', async () => {
      const many = Array.from({ length: 2000 }, (_, i) => `user:${i}`);
      await Promise.all(many.map((key) => api.consume(key)));
      await api.ban('z', '1h');
      let interrupt = () => {};
      const onInterrupt = (listener: () => void) => {
        interrupt = listener;
        return () => (interrupt = () => {});
      };
      const stderr = Object.assign(new PassThrough(), { isTTY: true });
      let said = '';
      stderr.on('data', (chunk: Buffer) => {
        said += chunk.toString();
        if (/[6-9]\d %/.test(said)) interrupt();
      });
      const args = ['list', ...where, '--count', '100', '--limit', '0'];
      const { code, stdout } = await headgate(args, { stderr, onInterrupt });
      expect(code).to.equal(130);
      expect(stdout).to.match(/^z +banned/m);
      expect(stdout.match(/^user:/gm)).to.have.length.within(50, 3900);
      expect(said).to.match(/headgate: Stopped at [6-9]\d % of the keys: there may be more\.\n$/);
      // Without an interruption there is no note about further keys.
      expect((await headgate(['list', ...where])).stderr).to.equal('');
    });

    it('--count says how many keys are looked at in a step', async () => {
      await Promise.all(Array.from({ length: 1000 }, (_, i) => api.consume(`user:${i}`)));
      const steps = async (count: string) => {
        await client.config('RESETSTAT');
        await list('--banned', '--scan', '--count', count);
        return Number(/cmdstat_scan:calls=(\d+)/.exec(await client.info('commandstats'))![1]);
      };
      expect(await steps('50')).to.be.above(5 * (await steps('1000')));
    });

    it('goes through thousands of keys in bounded steps, never by KEYS, and finds each once', async function () {
      this.timeout(60_000);
      const many = Array.from({ length: 5000 }, (_, i) => `user:${i}`);
      const limited = new Set(many.filter((_, i) => i % 10 === 0));
      await Promise.all(many.map((key) => api.consume(key, { cost: limited.has(key) ? 3 : 1 })));
      await client.config('RESETSTAT');
      // A user who may neither write nor call KEYS: the statistics of the server would also count what other stores of this process send.
      const rights = ['reset', 'on', '>password', '~*', '&*', '+@all', '-@write', '-keys'];
      await client.call('ACL', 'SETUSER', 'reader', ...rights);
      const as = servers[kind].url.replace('//', '//reader:password@');
      const list = (...args: string[]) => jsonLines('list', '--redis', as, '--prefix', prefix, ...args);
      const lines = await list(...API_TEXT, '--limited');
      expect(new Set(keysOf(lines, 'limited'))).to.deep.equal(limited);
      expect(lines).to.have.length(limited.size);
      expect(await list(...API_TEXT, '--all')).to.have.length(many.length);
      expect(await list()).to.have.length(2 * many.length);

      const stats = await client.info('commandstats');
      const calls = (command: string) =>
        Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
      expect(calls('scan')).to.be.above(3 * 15);

      const first = await list(...API_TEXT, '--limit', '7');
      expect(first).to.have.length(7);
      const people = await headgate(['list', ...where]);
      expect(people.stdout.split('\n').filter((line) => line.startsWith('user:'))).to.have.length(1000);
      expect(people.stdout).to.contain('There are more: --limit 0');
      await client.call('ACL', 'DELUSER', 'reader');
    });

    it('shows denials that count towards a ban of a limiter that is not published, though another one is', async () => {
      await api.consume('k', { cost: 9 });
      const states = async () => (await list()).filter(({ algorithm }) => algorithm === 'ban');
      expect(await states()).to.have.length(1);
      const published = limiterOn(redisStore(client, { prefix: where[3]!, ...TELLING }), {
        name: 'told',
        limit: 1,
        window: '1h',
      });
      await told(where, 'told');
      expect((await states()).map(({ name, key }) => [name, key])).to.deep.equal([['api', 'k']]);
      await published.close();
    });

    it('asks again by the time that the server has, where the calendar of this machine is ahead', async () => {
      const calendar = { name: 'hourly', algorithm: 'calendar', limit: 1, period: 'hour' } as const;
      const store = redisStore(client, { prefix: where[3]!, localDenials: false, publish: false });
      const limiter = limiterOn(store, { name: 'calls', policies: [calendar] });
      await repeat(2, () => limiter.consume('limited'));
      const { now } = Date;
      Date.now = () => now() + 2 * 3_600_000;
      try {
        const lines = await list('--name', 'calls', '--policy', 'hourly=calendar 1/hour');
        expect(keysOf(lines, 'limited')).to.deep.equal(['limited']);
      } finally {
        Date.now = now;
        await limiter.close();
      }
    });

    it('never reports 0 limited keys alone: limiters with unknown limits, and denials of this moment', async () => {
      const store = redisStore(client, { prefix, ...TELLING, counts: true });
      const known = limiterOn(store, { name: 'known', limit: 1e6, window: '1h' });
      const quick = limiterOn(store, { name: 'quick', limit: 1, window: '5ms' });
      const hidden = limiterOn(redisStore(client, { prefix, publish: false, localDenials: false }), {
        ...{ name: 'hidden', limit: 1, window: '1h' },
      });
      await told(where, 'known', 'quick');
      for (let i = 0; i < 3; i++) await Promise.all([known, quick, hidden].map((each) => each.consume('a')));
      await Promise.all(Array.from({ length: 20 }, () => quick.consume('a')));
      const find = async () => (await headgate(['list', '--limited', ...where])).stdout;
      while (!(await find()).includes('quick denies'));
      expect(await find())
        .to.match(/^0 limited; /m)
        .and.match(/^Keys of limiters with unknown limits were not judged: hidden\./m)
        .and.match(/^quick denies [\d.]+ requests a second, but no key of it is limited at this moment/m);
      await Promise.all([known, quick, hidden].map((each) => each.close()));
    });

    it('also names the keys that were denied in the last minute, as processes counted it', async () => {
      const store = redisStore(client, { prefix, ...TELLING, counts: true });
      const pace = limiterOn(store, { name: 'chat', policies: [{ name: 'pace', limit: 1, window: '5ms' }] });
      const slots = limiterOn(store, {
        ...{ name: 'reports', ban: {} },
        policies: [{ name: 'slots', algorithm: 'concurrency', limit: 1, lease: '1h' }],
      });
      await told(where, 'chat', 'reports');
      await Promise.all(Array.from({ length: 20 }, () => pace.consume('globex')));
      const held = await slots.acquire('acme');
      expect(await slots.wait('acme', { timeout: '1ms' }).catch(() => 'late')).to.equal('late');
      await held.release();
      await slots.ban('eve', '1h');
      await slots.consume('eve');
      const denied = (lines: readonly Record<string, unknown>[]) =>
        lines.filter(({ kind: of }) => of === 'denied');
      let lines: Record<string, unknown>[] = [];
      while (denied(lines).length < 2) lines = await list();
      expect(
        denied(lines).map(({ name, key, policy, reason }) => [name, key, policy ?? reason]),
      ).to.deep.equal([
        ['chat', 'globex', 'pace'],
        ['reports', 'acme', 'wait-timeout'],
      ]);
      expect(keysOf(lines, 'banned')).to.deep.equal(['eve']);
      expect(denied(await list('--banned'))).to.deep.equal([]);
      const { stdout } = await headgate(['list', ...where]);
      expect(stdout)
        .to.match(
          /^Also denied in the last minute, as processes counted it:\nlimiter +key +denied\/s +denied by$/m,
        )
        .and.match(/^chat +globex +[<\d. ]+ +pace$/m)
        .and.match(/^reports +acme +[<\d. ]+ +wait-timeout$/m);
      let key = '';
      while (!key.includes('Denied in')) key = (await headgate(['key', 'globex', ...where])).stdout;
      expect(key).to.match(
        /^Denied in the last 10 minutes:\nchat: \d+ requests of globex, by pace; the last \S+ ago$/m,
      );
      const top = (await headgate(['top', '--once', '--seconds', '60', ...where])).stdout;
      expect(top)
        .to.match(/^ {2}eve .* banned$/m)
        .and.match(/^ {2}acme .* wait-timeout$/m);
      await Promise.all([pace, slots].map((each) => each.close()));
    });

    it('key answers for every limiter and dimension at once, and for each that has no answer says why', async () => {
      const store = redisStore(client, { prefix, ...TELLING });
      const made = [
        limiterOn(store, { name: 'web', limit: 2, window: '1h', ban: {}, overrides: true }),
        limiterOn(store, {
          name: 'login',
          policies: ['5/1h', { name: 'account', limit: 1, window: '1h', by: 'account' }],
        }),
        limiterOn(store, {
          ...{ name: 'slots', slotBy: 'org' },
          policies: [
            { limit: 5, window: '1h' },
            { name: 'org', limit: 9, window: '1h', by: 'org' },
          ],
        }),
        limiterOn(store, { name: 'other', limit: 2, window: '1h' }),
      ];
      const [first, second] = made as [Limiter, Limiter];
      await told(where, 'web', 'login', 'slots', 'other');
      await first.ban('203.0.113.7', '1h', { by: 'ada', reason: 'scraping' });
      await first.override('203.0.113.7', '9/1h', { by: 'bob' });
      for (let i = 0; i < 2; i++) await second.consume({ key: '203.0.113.7', account: '203.0.113.7' });
      const { stdout, stderr, code } = await headgate(['key', '203.0.113.7', ...where]);
      expect(code).to.equal(3);
      expect(stdout)
        .to.match(
          /^web +203\.0\.113\.7 +denied \(banned\) +1h +.* +banned by ada: scraping, until 20\S+ \S+ UTC; override: 9\/1h( \(.*\))?$/m,
        )
        .and.match(/^login +203\.0\.113\.7 +allowed +- +[\w-]+: 4 of 5 per 1h/m)
        .and.match(/^login +account 203\.0\.113\.7 +denied \(quota-exceeded\) +\d/m)
        .and.match(/^slots +203\.0\.113\.7 +unknown limits/m)
        .and.not.match(/^other/m);
      expect(stderr).to.contain('slots: The limiter "slots" has slotBy: \'org\'');
      expect(stdout).to.match(
        /^The key has no state in \d+ other combinations? of limiter, tier and dimension\. List (it|them) with --all\.\n$/m,
      );
      expect((await headgate(['key', '203.0.113.7', '--all', ...where])).stdout).to.match(/^other/m);
      expect((await headgate(['key', '203.0.113.0/24', ...where])).code).to.equal(2);
      const views = (await json('key', '203.0.113.7', '--name', 'login', ...where)) as {
        dimension: string;
      }[];
      expect(views.map(({ dimension }) => dimension)).to.deep.equal(['key', 'account']);
      await Promise.all(made.map((each) => each.close()));
    });
  });
}
