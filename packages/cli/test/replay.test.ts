import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, symlinkSync, truncateSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import fc from 'fast-check';
import { createLimiter, type Policy } from 'headgate';
import { parsePolicies } from '../src/policy-text.js';
import { loggedKeys } from '../src/replay/dimensions.js';
import { share } from '../src/format.js';
import { LineReader, type LineOptions } from '../src/replay/line.js';
import { withLogs } from '../src/replay/logs.js';
import { Replay, type ReplayResult } from '../src/replay/replay.js';
import { Reorder } from '../src/replay/log-file.js';
import { MEASURED } from '../src/replay/policies.js';
import { Timeline } from '../src/replay/timeline.js';
import { policyOf } from '../../../test/support/policies.js';
import { runs } from '../../../test/support/random.js';
import { limiterOn, memory, redis, START, TestClock } from '../../../test/support/stores.js';
import { headgate } from './cli.js';
import { combinedLine, jsonLine, LogDirectory, trace, watching, type LoggedRequest } from './logs.js';

interface Json extends Omit<ReplayResult, 'first' | 'last'> {
  first: string;
  logs: {
    name: string;
    lines: number;
    requests: number;
    skipped: number;
    malformed: number;
    late: number;
    warning: string | null;
  }[];
}

/** The default options for reading lines. */
const OPTIONS: LineOptions = {
  keys: loggedKeys(),
  keyField: undefined,
  match: undefined,
  subnet: 56,
  trustedHops: undefined,
};

describe('headgate replay', () => {
  let logs: LogDirectory;
  beforeEach(() => (logs = new LogDirectory()));
  afterEach(() => logs.remove());

  const replay = (args: readonly string[], stdin: Buffer | string = '') =>
    headgate(['replay', ...args], { cwd: logs.path, stdin: Readable.from([Buffer.from(stdin)]) });

  async function replayJson(args: readonly string[], stdin?: Buffer | string): Promise<Json> {
    const { code, stdout, stderr } = await replay(['--json', ...args], stdin);
    expect(code, stderr).to.equal(0);
    return JSON.parse(stdout) as Json;
  }

  describe('decisions', () => {
    /** The answers of a limiter in front of the same requests. */
    async function expected(
      requests: readonly LoggedRequest[],
      policies: readonly Policy[],
      create: typeof memory,
    ) {
      const clock = new TestClock();
      const limiter = limiterOn(create(clock.read), { policies });
      const answers = [];
      for (const { time, ip } of requests) {
        clock.now = time;
        const decision = await limiter.consume(ip);
        answers.push([decision.allowed, ...decision.policies.map(({ allowed }) => allowed)]);
      }
      await limiter.close();
      return answers;
    }

    /** The sums of the answers, as a replay reports them. */
    function sums(answers: readonly (readonly boolean[])[]) {
      const denied = (i: number) => answers.filter((answer) => !answer[i]).length;
      return { denied: denied(0), policies: answers[0]!.slice(1).map((_, i) => denied(i + 1)) };
    }

    const sets = [
      ['5/10s'],
      ['fixed-window 5/1m', 'sliding-log 3/1s'],
      ['burst=token-bucket 2/1s burst 4', 'minute=20/1m segments 60', 'watch=2/1m shadow'],
      ['leaky-bucket 1/1s burst 2 max-delay 3s'],
      ['attempts=fixed-window 9/1m attempts', 'watch=sliding-log 4/20s attempts shadow', 'quota=3/10s'],
    ];
    for (const texts of sets) {
      it(`of a log equal those of a limiter on memory and on Redis: ${texts.join(', ')}`, async () => {
        const requests = trace(texts.length, 1500, START);
        const policies = parsePolicies(texts);
        const inMemory = await expected(requests, policies, memory);
        expect(await expected(requests, policies, redis)).to.deep.equal(inMemory);
        expect(sums(inMemory).denied, 'the trace is worth replaying').to.be.within(20, 1480);

        const file = logs.write('access.log', requests.map(jsonLine));
        const found = await replayJson([file, ...texts.flatMap((policy) => ['--policy', policy])]);
        expect(found.denied).to.equal(sums(inMemory).denied);
        expect(found.policies.map(({ denied }) => denied)).to.deep.equal(sums(inMemory).policies);
        expect(found.admitted + found.denied).to.equal(requests.length);

        const run = new Replay(policies);
        expect(requests.map(({ ip, time }) => run.add(ip, time))).to.deep.equal(
          inMemory.map(([allowed]) => allowed),
        );
      });
    }

    it('of random policies equal those of a limiter', () =>
      fc.assert(
        fc.asyncProperty(fc.constantFrom(...MEASURED), fc.nat(), async (algorithm, seed) => {
          const [policy] = fc.sample(policyOf(algorithm), { numRuns: 1, seed });
          const requests = trace(seed, 200);
          const run = new Replay([policy!]);
          const answers = requests.map(({ ip, time }) => run.add(ip, time));
          expect(answers).to.deep.equal(
            (await expected(requests, [policy!], memory)).map(([allowed]) => allowed),
          );
        }),
        runs('memory', 50, 0),
      ));
  });

  describe('results', () => {
    const at = (second: number) => Date.UTC(2026, 9, 5) + 1000 * second;

    it('distinguishes clients by half of an emoji', async () => {
      const lines = ['a\ud83d', 'a\ud83d', 'a\ud83d', 'x', 'b\ud83d', 'a\ud83e', 'y'].map((user, i) =>
        JSON.stringify({ time: new Date(at(i)).toISOString(), user }),
      );
      const file = logs.write('emoji.log', lines);
      const found = await replayJson([file, '--key', 'user', '--policy', '1/1h']);
      expect(found).to.deep.include({ clients: 5, denied: 2, deniedClients: 1 });
      expect(found.busiest).to.deep.equal({ key: 'a\ud83d', requests: 3 });
      expect(found.top.map(({ key }) => key)).to.deep.equal(['a\ud83d']);
    });

    it('the denied clients, with times, numbers and policies', async () => {
      const requests = [
        ...[0, 1, 2, 3, 60, 61, 62, 63, 64].map((second) => ({ time: at(second), ip: '10.0.0.1' })),
        ...[10, 20, 30, 40, 50].map((second) => ({ time: at(second), ip: '10.0.0.2' })),
        { time: at(5), ip: '10.0.0.3' },
      ].sort((a, b) => a.time - b.time);
      const file = logs.write('access.log', requests.map(jsonLine));
      const found = await replayJson([file, '--policy', 'few=fixed-window 3/1m', '--policy', 'many=100/1m']);
      expect(found).to.deep.include({ requests: 15, denied: 5, admitted: 10, clients: 3, deniedClients: 2 });
      expect(found.policies[0]).to.deep.include({ name: 'few', denied: 5, clients: 2 });
      expect(found.policies[0]!.first).to.equal('2026-10-05T00:00:03.000Z');
      expect(found.policies[0]!.last).to.equal('2026-10-05T00:01:04.000Z');
      expect(found.policies[0]!.use).to.deep.equal([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2]);
      expect(found.policies[1]).to.deep.include({ name: 'many', denied: 0, clients: 0, first: null });
      expect(found.policies[1]!.use).to.deep.equal([3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
      expect(found.top).to.deep.equal([
        {
          key: '10.0.0.1',
          requests: 9,
          denied: 3,
          first: '2026-10-05T00:00:03.000Z',
          last: '2026-10-05T00:01:04.000Z',
          streak: 2,
          streakAt: '2026-10-05T00:01:03.000Z',
          policies: ['few'],
        },
        {
          key: '10.0.0.2',
          requests: 5,
          denied: 2,
          first: '2026-10-05T00:00:40.000Z',
          last: '2026-10-05T00:00:50.000Z',
          streak: 2,
          streakAt: '2026-10-05T00:00:40.000Z',
          policies: ['few'],
        },
      ]);
      const { intervals } = found.timeline;
      expect(intervals.reduce((sum, { admitted }) => sum + admitted, 0)).to.equal(10);
      expect(intervals.reduce((sum, { denied }) => sum + denied, 0)).to.equal(5);

      const { stdout } = await replay([file, '--policy', 'few=fixed-window 3/1m', '--top', '1']);
      expect(stdout).to.match(
        /^15 requests of 3 clients, 2026-10-05 00:00:00 to .* UTC, 1m 4s: 5 denied \(33 %\), of 2 clients \(67 %\)$/m,
      );
      expect(stdout).to.match(
        /^few +fixed-window 3\/1m +5 +33 % +2 +67 % +2026-10-05 00:00:03 +2026-10-05 00:01:04$/m,
      );
      expect(stdout).to.match(/^10\.0\.0\.1 +9 +3 +33 % .* 2 from 00:01:03 +few$/m);
      expect(stdout).to.contain('and 1 more client').and.to.contain('█');
      expect(stdout).to.not.contain('\u001b');
    });

    it('names the clients denied most, in order', async () => {
      // The later a client comes, the more it is denied; but for one.
      const denials = Array.from({ length: 300 }, (_, i) => (i === 7 ? 500 : i));
      const requests = denials.flatMap((denied, i) =>
        Array.from({ length: denied + 1 }, () => ({ time: at(i), ip: `10.0.${i >> 8}.${i & 255}` })),
      );
      const file = logs.write('access.log', requests.map(jsonLine));
      const { top } = await replayJson([file, '--policy', '1/1h', '--top', '3']);
      expect(top.map(({ key, denied }) => [key, denied])).to.deep.equal([
        ['10.0.0.7', 500],
        ['10.0.1.43', 299],
        ['10.0.1.42', 298],
      ]);
    });

    it('counts a request in its own interval when the intervals become longer', async () => {
      const lines = [1, 1004, 100_000].map((second) => jsonLine({ time: at(second), ip: '::1' }));
      const { timeline } = await replayJson([logs.write('access.log', lines), '--policy', '9/1h']);
      const starts = timeline.intervals.flatMap(({ admitted, start }) => (admitted > 0 ? [start] : []));
      expect(starts).to.deep.equal([0, 900, 99_900].map((second) => new Date(at(second)).toISOString()));
    });

    it('compares with another set of policies, in one reading', async () => {
      const requests = Array.from({ length: 30 }, (_, i) => ({ time: at(i), ip: `10.0.0.${i % 3}` })).concat(
        Array.from({ length: 10 }, () => ({ time: at(100), ip: '10.0.0.9' })),
      );
      const file = logs.write('access.log', requests.map(jsonLine));
      const first = ['--policy', '9/1h'];
      const second = ['burst=5/1s', '100/1h'];
      const found = (await replayJson([
        file,
        ...first,
        '--compare',
        second[0]!,
        '--compare',
        second[1]!,
      ])) as Json & {
        compared: Json & Record<string, number>;
      };
      const { logs: read, ...alone } = (await replayJson([file, ...first])) as Json & {
        notReplayed: unknown;
      };
      expect(found).to.deep.include(alone);
      const other = await replayJson([file, ...second.flatMap((policy) => ['--policy', policy])]);
      const { compared } = found;
      expect(compared.policies).to.deep.equal(other.policies);
      expect(compared).to.include({
        denied: 5,
        deniedByBoth: 1,
        deniedByFirstOnly: 3,
        deniedBySecondOnly: 0,
      });
      expect(read).to.have.length(1);
      const { stdout } = await replay([file, ...first, '--compare', second[0]!]);
      expect(stdout)
        .to.contain('compared with')
        .and.to.contain(
          'These policies: 4 denied (10 %), of 4 clients. The others: 5 denied (13 %), of 1 client.',
        );
      expect(stdout).to.match(/both: 1; .*: 3; .*: 0\./);
      const policies = [
        { name: 'burst', limit: 5, window: '1s' },
        { limit: 100, window: '1h' },
        { algorithm: 'concurrency', name: 'slots', limit: 2, lease: '1m' },
      ];
      const limiters = logs.write('limits.json', [JSON.stringify({ api: policies, other: policies })]);
      const compare = [file, ...first, '--compare-policies', limiters];
      const fromFile = (await replayJson([...compare, '--name', 'api'])) as Json & { compared: Json };
      expect(fromFile.compared).to.deep.equal({ ...compared, notReplayed: ['slots=concurrency 2/1m'] });
      expect((await replay([...compare, '--name', 'api'])).stdout).to.contain('slots=concurrency 2/1m');
      for (const args of [compare, [...compare, '--name', 'nope'], [...compare, '--compare', '5/1m']]) {
        const { code, stderr } = await replay(args);
        expect(code).to.equal(2);
        expect(stderr).to.contain('--compare-policies');
      }
      const wrong = await replay([file, ...first, '--compare', '5']);
      expect(wrong.code).to.equal(2);
      expect(wrong.stderr).to.contain('"5"');
    });

    it('the plot of denials is empty without any, and shows a single one', async () => {
      const times = [...[0, 1, 2].map(() => 10), 30, 31, ...Array.from({ length: 500 }, () => 45), 60];
      const requests = times.map((second) => ({ time: at(second), ip: '10.0.0.1' }));
      const file = logs.write('access.log', requests.map(jsonLine));
      const { stdout } = await replay([file, '--policy', 'fixed-window 2/1s']);
      const plots = stdout.match(/^.*┤[^]*?(?=└)/gm)!;
      const painted = (plot: string) => {
        const rows = plot.split('\n').flatMap((row) => row.split(/[┤│]/)[1] ?? []);
        return [...Array(51).keys()]
          .filter((x) => rows.some((row) => (row[x] ?? ' ') !== ' '))
          .map((x) => x + 10);
      };
      expect(plots.map(painted)).to.deep.equal([
        [10, 30, 31, 45, 60],
        [10, 45],
      ]);
    });

    it('names a client that is most likely a proxy', async () => {
      const requests = Array.from({ length: 1000 }, (_, i) => ({
        time: at(i),
        ip: `10.0.0.${i % 3 === 0 ? i % 200 : 1}`,
      }));
      const { stdout } = await replay([logs.write('access.log', requests.map(jsonLine)), '--policy', '9/1m']);
      expect(stdout).to.contain('10.0.0.1 sent 67 %');
    });

    it('by the policies of a file, of one limiter', async () => {
      const requests = [0, 1, 2, 3].map((second) => ({ time: at(second), ip: '10.0.0.1' }));
      const file = logs.write('access.log', requests.map(jsonLine));
      logs.write('one.json', '[{ "limit": 3, "window": "1m" }]');
      logs.write(
        'all.json',
        '{ "api": [{ "limit": 3, "window": "1m" }], "login": { "limit": 1, "window": "1m" } }',
      );
      expect(await replayJson([file, '--policies', 'one.json'])).to.have.property('denied', 1);
      expect(await replayJson([file, '--policies', 'all.json', '--name', 'login'])).to.have.property(
        'denied',
        3,
      );
      const { code, stderr } = await replay([file, '--policies', 'all.json']);
      expect(code).to.equal(2);
      expect(stderr).to.contain('--name').and.contain('"api", "login"');
    });

    it('reports that concurrency policies are not replayed', async () => {
      const file = logs.write('access.log', [jsonLine({ time: at(0), ip: '10.0.0.1' })]);
      const args = [file, '--policy', 'slots=concurrency 5/1m', '--policy', 'rate=5/1m'];
      expect((await replay(args)).stdout).to.contain('slots=concurrency 5/1m is not replayed');
      expect(await replayJson(args)).to.have.deep.property('notReplayed', ['slots=concurrency 5/1m']);
    });

    it('reports that no request was denied', async () => {
      const file = logs.write('access.log', [jsonLine({ time: at(0), ip: '10.0.0.1' })]);
      const { code, stdout } = await replay([file, '--policy', '100/1m']);
      expect(code).to.equal(0);
      expect(stdout).to.contain('1 request of 1 client').and.to.contain('none denied');
    });

    it('names from a log do not control the terminal', async () => {
      const line = JSON.stringify({ time: at(0), user: '\u001b[2J\u202eevil' });
      const file = logs.write('access.log', [line, line, '\u001b]0;title\u0007']);
      const { stdout } = await replay([file, '--key', 'user', '--policy', '1/1m']);
      expect(stdout).to.contain('\\u{1b}[2J\\u{202e}evil').and.to.contain('\\u{1b}]0;title\\u{7}');
      for (const c of ['\u001b', '\u0007', '\u202e']) expect(stdout).to.not.contain(c);
    });

    it('names of files, and JSON, do not control the terminal', async () => {
      const odd = 'a\u009b31m\u202e\u2028.log';
      const user = 'eve\u009b2J\u202e\u2028\u{e0041}';
      const file = logs.write(odd, [JSON.stringify({ time: at(0), user }), '\u009b2J']);
      const args = [file, '--key', 'user', '--policy', '1/1m'];
      const given = { cwd: logs.path };
      const hidden = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;
      expect((await replay([...args, '--report', `${file}.html`])).stdout)
        .to.contain('\\u{9b}31m')
        .and.not.match(hidden);
      expect((await headgate(['suggest', file, '--key', 'user'], given)).stdout)
        .to.contain('\\u{9b}31m')
        .and.not.match(hidden);
      const { stdout } = await headgate(['--json', 'replay', ...args], given);
      expect(stdout).to.not.match(hidden);
      expect((JSON.parse(stdout) as { busiest: { key: string } }).busiest.key).to.equal(user);
    });
  });

  describe('the logs', () => {
    const requests = trace(7, 400);
    const lines = requests.map(combinedLine);
    const policy = ['--policy', '5/10s'];
    let whole: Json;
    beforeEach(async () => {
      whole = await replayJson([logs.write('whole.log', lines), ...policy]);
      expect(whole.denied).to.be.greaterThan(0);
    });
    const same = ({ logs: _, ...found }: Json) => found;

    it('gzip, whatever its name is, also in several parts, and from standard input', async () => {
      const packed = gzipSync(`${lines.join('\n')}\n`);
      const parts = Buffer.concat(
        [lines.slice(0, 100), lines.slice(100)].map((part) => gzipSync(`${part.join('\n')}\n`)),
      );
      logs.write('a.log', packed);
      logs.write('b.log.gz', parts);
      logs.write('not.gz', lines);
      for (const file of ['a.log', 'b.log.gz', 'not.gz']) {
        expect(same(await replayJson([file, ...policy])), file).to.deep.equal(same(whole));
      }
      for (const stdin of [packed, parts, lines.join('\n'), lines.join('\r\n')]) {
        const found = await replayJson(['-', ...policy], stdin);
        expect(same(found)).to.deep.equal(same(whole));
        expect(found.logs).to.have.length(1).and.to.have.nested.property('[0].name', 'standard input');
      }
    });

    it('gzip that is read in several pieces', async () => {
      const text = `${trace(7, 20_000).map(combinedLine).join('\n')}\n`;
      const plain = await replayJson([logs.write('a.log', text), ...policy]);
      const packed = await replayJson([logs.write('a.gz', gzipSync(text, { level: 0 })), ...policy]);
      expect(same(packed)).to.deep.equal(same(plain));
    });

    it('with a byte order mark, as editors and PowerShell write it', async () => {
      for (const [name, texts] of Object.entries({ 'a.log': lines, 'a.json': requests.map(jsonLine) })) {
        const marked = await replayJson([logs.write(name, `\ufeff${texts.join('\n')}`), ...policy]);
        expect(marked).to.have.property('requests', 400);
        expect(marked.logs[0]).to.include({ lines: 400, malformed: 0 });
      }
    });

    it('a last line that nothing ends, however short it is', async () => {
      for (const last of ['x', '{"time"']) {
        const found = await replayJson(['-', ...policy], `${lines.join('\n')}\n${last}`);
        expect(same(found)).to.deep.equal(same(whole));
        expect(found.logs[0], last).to.include({ lines: 401, malformed: 1 });
      }
    });

    it('lists of addresses, as proxies write them: one client each', async () => {
      const forwarded = lines.map((line) => line.replace(' - -', ', 192.168.9.9, 172.16.0.1 - -'));
      logs.write(
        'forwarded.log',
        forwarded.map((line) => line.replace(/^10\./, '11.')),
      );
      const found = await replayJson(['forwarded.log', ...policy]);
      expect(found).to.include({ clients: whole.clients, denied: whole.denied });
      const hops = await replayJson(['forwarded.log', '--trusted-hops', '1', ...policy]);
      expect(hops.clients).to.equal(1);
    });

    it('the beginning of a gzip file that is cut off', async () => {
      const packed = gzipSync(`${lines.join('\n')}\n`);
      logs.write('cut.gz', packed.subarray(0, packed.length - 200));
      const found = await replayJson(['cut.gz', ...policy]);
      expect(found.requests).to.be.within(1, 400);
      expect(found.logs[0]!.warning).to.contain('ends too early');
    });

    it('a file that is cut off during the reading, with a warning', async () => {
      logs.write('a.log', lines);
      const stderr = watching('replaying', () => truncateSync(join(logs.path, 'a.log'), 5000));
      const args = ['replay', 'a.log', '--json', ...policy];
      const { code, stdout } = await headgate(args, { cwd: logs.path, stderr });
      expect(code).to.equal(0);
      const [{ requests, warning }] = (JSON.parse(stdout) as Json).logs as [Json['logs'][0]];
      expect(requests).to.be.within(1, 399);
      expect(warning).to.match(/ 5,000 of its [\d,]+ bytes/);
    });

    it('a file that is overwritten during the reading', async () => {
      const many = Array.from({ length: 40 }, () => lines).flat();
      logs.write('a.log', many);
      const parse = () => new LineReader(OPTIONS);
      await withLogs(['a.log'], { stdin: Readable.from([]), cwd: logs.path }, parse, async (open) => {
        let read = 0;
        for await (const batch of open.requests()) {
          if (read === 0) logs.write('a.log', [lines.at(-1)!, ...many]);
          read += batch.length + 1;
        }
        expect(open.summaries[0]!.warning).to.contain('replaced');
      });
    });

    it('refuses a file that is passed twice, also by different names', async () => {
      logs.write('a.log', lines);
      symlinkSync('a.log', join(logs.path, 'current.log'));
      for (const names of [
        ['a.log', './a.log'],
        ['a.log', 'current.log'],
      ]) {
        const { code, stderr } = await replay([...names, ...policy]);
        expect(code).to.equal(2);
        expect(stderr).to.match(/the same file as a\.log/);
      }
    });

    it('a named pipe', async () => {
      const fifo = join(logs.path, 'fifo');
      execFileSync('mkfifo', [fifo]);
      const writing = writeFile(fifo, `${lines.join('\n')}\n`);
      const found = await replayJson(['fifo', ...policy]);
      await writing;
      expect(same(found)).to.deep.equal(same(whole));
    });

    it('rotated files, in any order; logs of several servers; both with standard input', async () => {
      logs.gzip('access.log.2.gz', lines.slice(0, 150));
      logs.write('access.log.1', lines.slice(150, 300));
      logs.write('access.log', lines.slice(300));
      const found = await replayJson(['access.log', 'access.log.1', 'access.log.2.gz', ...policy]);
      expect(same(found)).to.deep.equal(same(whole));
      expect(found.logs.map(({ requests }) => requests)).to.deep.equal([100, 150, 150]);

      // Requests that were under way when the log was rotated.
      const late = requests.map(jsonLine);
      const exact = await replayJson([logs.write('exact.log', late), ...policy]);
      logs.write('early.log', [...late.slice(0, 150), ...late.slice(152, 155)]);
      logs.write('later.log', [...late.slice(155, 170), ...late.slice(150, 152), ...late.slice(170)]);
      expect(same(await replayJson(['later.log', 'early.log', ...policy]))).to.deep.equal(same(exact));

      // Long requests that ended after the log was rotated, behind the first line of the new log.
      const [first] = requests;
      const slow = requests.map(({ time, ip }) => jsonLine({ time: 9 * time - 8 * first!.time, ip }));
      const long = [logs.write('slow.log', slow), '--policy', '3/5s'];
      const [began, next] = [slow.slice(0, 100), slow.slice(100)];
      logs.write('next.log', next.toSpliced(20, 0, ...began.splice(10, 60)));
      logs.write('began.log', began);
      const merged = await replayJson(['began.log', 'next.log', ...long.slice(1)]);
      expect(same(merged)).to.deep.equal(same(await replayJson(long)));
      expect(merged.logs.map((each) => each.late)).to.deep.equal([0, 0]);

      // The order of requests of two logs within a second is unknown.
      const perSecond = requests
        .map(({ ip }, i) => ({ ip, time: Date.UTC(2026, 9, 5) + 1000 * i }))
        .map(combinedLine);
      const one = await replayJson([logs.write('one.log', perSecond), ...policy]);
      logs.write(
        'odd.log',
        perSecond.filter((_, i) => i % 2 === 1),
      );
      const even = perSecond.filter((_, i) => i % 2 === 0).join('\n');
      expect(same(await replayJson(['odd.log', '-', ...policy], even))).to.deep.equal(same(one));
    });

    it('lines that were written late', async () => {
      const times = requests.map((request, i) => ({ ...request, time: Date.UTC(2026, 9, 5) + 700 * i }));
      const ordered = await replayJson([logs.write('ordered.log', times.map(jsonLine)), ...policy]);
      const late = times.map((request, i) => ({ request, done: i + (i % 7 === 0 ? 30 : 0) }));
      late.sort((a, b) => a.done - b.done);
      const found = await replayJson([
        logs.write(
          'late.log',
          late.map(({ request }) => jsonLine(request)),
        ),
        ...policy,
      ]);
      expect(same(found)).to.deep.equal(same(ordered));
      expect(found.logs[0]!.late).to.equal(0);
    });

    it('malformed lines are counted and shown, never fatal', async () => {
      const odd = ['garbage', '{"time":', '', '192.0.2.1 - - [05/Oct/2026:13:55:36 +0000] "GET'];
      logs.write('odd.log', [...odd, ...lines, 'x'.repeat(3_000_000), 'more', 'and more']);
      const found = await replayJson(['odd.log', ...policy]);
      expect(same(found)).to.deep.equal(same(whole));
      expect(found.logs[0]).to.deep.include({ lines: 407, requests: 400, malformed: 6, skipped: 1 });
      const { stdout } = await replay(['odd.log', ...policy]);
      expect(stdout).to.contain('407 lines, 400 requests, 1 skipped').and.to.contain('6 malformed (1.5 %)');
      expect(stdout).to.contain('line 1: unknown format: garbage');
      expect(stdout).to.contain('line 405: more than a million characters: xxx');
      expect(stdout).to.not.contain('and more');
    });

    it('a part of it, by other keys', async () => {
      const time = Date.UTC(2026, 9, 5);
      const file = logs.write(
        'access.log',
        [0, 1, 2, 3, 4, 5].map((i) =>
          JSON.stringify({
            time: time + i,
            ip: `10.0.0.${i}`,
            user: 'u',
            path: i < 4 ? '/api' : '/x',
            status: 200,
          }),
        ),
      );
      const found = await replayJson([file, '--key', 'user path', '--match', '/api', '--policy', '3/1m']);
      expect(found).to.deep.include({ requests: 4, clients: 1, denied: 1 });
      expect(found.top[0]!.key).to.equal('u /api');
      expect(found.logs[0]!.skipped).to.equal(2);
    });
  });

  describe('errors with their fix', () => {
    const line = jsonLine({ time: Date.UTC(2026, 9, 5), ip: '10.0.0.1' });
    const cases: [title: string, args: readonly string[], code: number, ...says: string[]][] = [
      ['no policy', ['a.log'], 2, "--policy '100/1m'", 'headgate suggest'],
      ['a policy that is wrong', ['a.log', '--policy', '100'], 2, '"100" is not a quota', "'100/1m'"],
      ['a policy of slots', ['a.log', '--policy', 'concurrency 5/1m'], 2, 'concurrency'],
      ['no log', ['--policy', '1/1m'], 2, 'log'],
      ['no such file', ['none.log', '--policy', '1/1m'], 2, 'none.log: no such file'],
      ['a directory', ['.', '--policy', '1/1m'], 2, '.: a directory', './*'],
      ['twice', ['a.log', 'a.log', '--policy', '1/1m'], 2, 'given twice'],
      ['an empty file', ['empty.log', '--policy', '1/1m'], 1, 'empty.log', 'empty'],
      [
        'nothing that can be read',
        ['odd.log', '--policy', '1/1m'],
        1,
        'none of 2 lines',
        'Line 1',
        'Combined Log Format',
      ],
      ['nothing with a key', ['a.log', '--key', 'user', '--policy', '1/1m'], 1, 'none of 1 lines', '--key'],
      ['no key', ['a.log', '--key', ' ', '--policy', '1/1m'], 2, '--key: empty'],
      ['a filter', ['a.log', '--match', '??', '--policy', '1/1m'], 2, '--match: "??"'],
      ['no hops', ['a.log', '--trusted-hops', '0', '--policy', '1/1m'], 2, '--trusted-hops: pass'],
      ['no subnet', ['a.log', '--ipv6-subnet', '129', '--policy', '1/1m'], 2, '--ipv6-subnet: ', '1 to 128'],
      ['how many', ['a.log', '--top', 'all', '--policy', '1/1m'], 2, '--top'],
      ['the report in a log', ['a.log', '--report', './a.log', '--policy', '1/1m'], 2, 'is one of the logs'],
      [
        'the report in a log by another name',
        ['a.log', '--report', 'link.html', '--policy', '1/1m'],
        2,
        'is one of the logs',
      ],
      ['the report nowhere', ['a.log', '--report', 'no/r.html', '--policy', '1/1m'], 2, 'cannot be written'],
      ['the report a directory', ['a.log', '--report', '.', '--policy', '1/1m'], 2, 'is a directory'],
    ];
    for (const [title, args, code, ...says] of cases) {
      it(title, async () => {
        logs.write('a.log', [line]);
        logs.write('empty.log', '');
        logs.write('odd.log', ['odd', 'lines']);
        if (args.includes('link.html')) symlinkSync('a.log', join(logs.path, 'link.html'));
        const found = await replay(args);
        expect(found.code, found.stderr).to.equal(code);
        expect(found.stdout).to.equal('');
        for (const words of says) expect(found.stderr).to.contain(words);
        expect(found.stderr).to.not.match(/\n {4}at /);
        expect(existsSync(join(logs.path, 'no'))).to.be.false;
        expect(readFileSync(join(logs.path, 'a.log'), 'utf8')).to.equal(`${line}\n`);
      });
    }
  });

  it('shows its progress on a terminal', async () => {
    const file = logs.write('access.log', trace(1, 5000).map(jsonLine));
    const stderr = Object.assign(new PassThrough(), {
      isTTY: true,
      columns: 100,
      cursorTo() {},
      clearLine() {},
    });
    const written = text(stderr);
    const { code } = await headgate(['replay', file, '--policy', '5/1s'], { cwd: logs.path, stderr });
    stderr.end();
    expect(code).to.equal(0);
    expect(await written)
      .to.contain('replaying')
      .and.to.contain('requests');
  });

  describe('the report as it is written', () => {
    const time = (i: number) => Date.UTC(2026, 9, 5, 6) + 1000 * i;
    const line = (i: number, ip: string, path: string, status: number) => {
      const stamp = new Date(time(i)).toISOString();
      return JSON.stringify({ time: stamp, ip, method: 'GET', path, status });
    };
    const report = async (lines: readonly string[], ...args: string[]) => {
      const file = logs.write('access.log', lines);
      const { code, stderr } = await replay([file, ...args, '--report', 'r.html']);
      expect(code, stderr).to.equal(0);
      const html = readFileSync(join(logs.path, 'r.html'), 'utf8');
      const json = /<script type="application\/json" id="data">(.*?)<\/script>/.exec(html)![1]!;
      interface Plot {
        id: string;
        series: { name: string; color: string; values: number[]; dashed?: boolean }[];
      }
      return { html, plots: (JSON.parse(json) as { plots: Plot[] }).plots };
    };
    const some = Array.from({ length: 40 }, (_, i) =>
      line(i, i % 4 === 3 ? '10.0.0.2' : '10.0.0.1', i % 2 === 0 ? '/a' : '/b?q=1', i < 38 ? 200 : 503),
    );

    it('contains its command, the denied requests and the clients', async () => {
      const { html, plots } = await report(some, '--policy', 'few=5/1h', '--match', '!/x GET');
      expect(html).to.match(
        /headgate replay \S*access\.log --policy few=5\/1h --match &#39;!\/x GET&#39; --report r\.html</,
      );
      // 25 + 5 are denied: all of 10.0.0.1 after its fifth, of 10.0.0.2 too.
      expect(html).to.contain('<b class="out">30 <small>(75 %)</small></b>denied');
      expect(html).to.match(
        />\/a \(57 %\)<\/span><span class="bar bad"><i style="width: 100\.00%"><\/i><\/span><span>17</,
      );
      expect(html)
        .to.match(/>200 \(93 %\)<.*?<span>28</s)
        .and.match(/>503 \(6\.7 %\)<.*?<span>2</s);
      const clients = plots.find(({ id }) => id === 'clients')!;
      const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);
      const { series } = plots.find(({ id }) => id === 'denied')!;
      expect(series.map(({ name, values }) => [name, sum(values)])).to.deep.equal([['few', 30]]);
      expect(clients.series.slice(0, 2).map(({ name, values }) => [name, sum(values)])).to.deep.equal([
        ['10.0.0.1', 30],
        ['10.0.0.2', 10],
      ]);
      const [limit] = clients.series.filter(({ dashed }) => dashed);
      expect(limit!.name).to.equal('limit: 5/1h, per 1s');
      expect(limit!.values[0]).to.be.closeTo(5 / 3600, 1e-9);
      expect(html).to.contain('10.0.0.1: 5 admitted, 25 denied; 10.0.0.2: 5 admitted, 5 denied.');
    });

    it('draws each of its six clients in a colour of its own', async () => {
      const lines = Array.from({ length: 12 }, (_, i) => line(i, `10.0.0.${i % 6}`, '/', 200));
      const { plots } = await report(lines, '--policy', '1/1h');
      const { series } = plots.find(({ id }) => id === 'clients')!;
      expect(new Set(series.flatMap(({ dashed, color }) => (dashed ? [] : [color]))).size).to.equal(6);
    });

    it('of a log without a denied client', async () => {
      const { html, plots } = await report(some, '--policy', '100/1h');
      expect(html).to.contain('No client was denied.').and.not.contain('class="out"');
      expect(html).to.contain('<b>0 <small>(0 %)</small></b>denied');
      expect(plots.map(({ id }) => id)).to.deep.equal(['requests', 'denied']);
      const one = await report(some.slice(0, 1), '--policy', '100/1h');
      expect(one.html).to.contain('2026-10-05 06:00:00 to 2026-10-05 06:00:00 UTC, 1ms<');
    });

    it('of standard input: without the plots that need a second reading', async () => {
      const { code } = await replay(['-', '--policy', '5/1h', '--report', 'r.html'], some.join('\n'));
      expect(code).to.equal(0);
      const html = readFileSync(join(logs.path, 'r.html'), 'utf8');
      expect(html).to.contain('needs a second reading of the log').and.not.contain('id="clients"');
      expect(html).to.contain('>/a (57 %)<');
    });

    it('compares two sets of policies', async () => {
      const { html, plots } = await report(some, '--policy', '5/1h', '--compare', '9/1h');
      expect(html).to.match(/both: 2; .*: 0; .*: 0\./);
      const compared = plots.find(({ id }) => id === 'compared')!;
      const sums = compared.series.map(({ values }) => values.reduce((a, b) => a + b, 0));
      expect(sums).to.deep.equal([40, 30, 22]);
      expect(html).to.match(/<td>denied<\/td><td class="number">30<\/td><td class="number">22<\/td>/);
    });

    it('shows a bounded number of different paths', async () => {
      const many = Array.from({ length: 12_000 }, (_, i) => line(i, '10.0.0.1', `/p${i}`, 200));
      const { html } = await report(
        [...many, ...many.slice(0, 2), ...many.slice(0, 1)],
        '--policy',
        '1/100d',
      );
      expect(html).to.match(/>\/p0 \(0\.02 %\)<.*?<span>2</s);
      expect(html).to.match(/>others \(> 99\.\d+ %\)<|>others \(99\.\d+ %\)</);
    });
  });
});

describe('the parts of a replay', () => {
  it('a share is in percent, and never rounded to none or all', () => {
    const texts = {
      '0 %': share(0, 5) + share(0, 0),
      '< 0.01 %': share(1, 1_000_000),
      '0.01 %': share(1, 10_000),
      '0.1 %': share(1, 700),
      '1 %': share(1, 100),
      '33 %': share(1, 3),
      '98 %': share(98, 100),
      '99 %': share(99, 100),
      '99.13 %': share(9_913, 10_000),
      '99.99 %': share(9_999, 10_000),
      '> 99.99 %': share(999_999, 1_000_000),
      '100 %': share(1, 1),
    };
    expect(Object.values(texts)).to.deep.equal(['0 %0 %', ...Object.keys(texts).slice(1)]);
  });

  it('puts lines in order that come late, however much', () =>
    fc.assert(
      fc.property(
        fc.array(fc.nat({ max: 1000 }), { maxLength: 200 }),
        fc.integer({ min: 0, max: 50 }),
        (times, capacity) => {
          const reorder = new Reorder(capacity);
          const out = [];
          for (const time of times) {
            const next = reorder.push({ time, key: '' });
            if (next) out.push(next.time);
          }
          for (let next = reorder.shift(); next; next = reorder.shift()) out.push(next.time);
          expect(out)
            .to.deep.equal([...out].sort((a, b) => a - b))
            .and.to.have.length(times.length);
          if (times.length <= capacity) expect(out).to.deep.equal([...times].sort((a, b) => a - b));
          if (reorder.late === 0) expect([...out].sort()).to.deep.equal([...times].sort());
        },
      ),
    ));

  it('counts over time in a bounded number of intervals, and loses none', () => {
    const timeline = new Timeline(2);
    let sum = 0;
    for (let i = 0, time = Date.UTC(2026, 0); i < 3000; i++, time += i * i * 50) {
      timeline.at(time)[i % 2]! += 1;
      sum += 1;
      if (i % 500 === 0) expect([...timeline.intervals()]).to.have.length.lessThan(1001);
    }
    const intervals = [...timeline.intervals()];
    expect(intervals.reduce((total, [, [a, b]]) => total + a! + b!, 0)).to.equal(sum);
    expect(intervals[0]![0]).to.be.at.most(Date.UTC(2026, 0));
  });

  it('an attempt is not denied by the policy that it is charged to, also if it is the last', () => {
    const run = new Replay(
      parsePolicies(['attempts=fixed-window 4/1m attempts', 'watch=3/1m attempts shadow', 'quota=1/1m']),
    );
    for (let i = 0; i < 5; i++) run.add('a', 0);
    const { denied, policies } = run.result(1);
    expect([denied, ...policies.map((policy) => policy.denied)]).to.deep.equal([4, 1, 2, 4]);
  });

  it('counts for each of many clients, while the columns grow', () => {
    const run = new Replay([{ limit: 1, window: '1h' }]);
    for (let i = 0; i < 5000; i++) for (let n = 0; n <= i % 3; n++) run.add(`client-${i}`, 1e12 + i);
    const { requests, denied, clients, deniedClients, top, policies } = run.result(1);
    expect([requests, denied, clients, deniedClients]).to.deep.equal([9999, 4999, 5000, 3333]);
    expect(top).to.deep.equal([
      {
        key: 'client-2',
        requests: 3,
        denied: 2,
        first: 1e12 + 2,
        last: 1e12 + 2,
        streak: 2,
        streakAt: 1e12 + 2,
        policies: ['default'],
      },
    ]);
    expect(policies[0]!.use.reduce((a, b) => a + b, 0)).to.equal(5000);
  });

  it('a replay decides like a limiter', async () => {
    const run = new Replay([{ limit: 2, window: '1m' }]);
    const limiter = createLimiter({ limit: 2, window: '1m' });
    const now = Date.now();
    for (const _ of [1, 2, 3]) expect(run.add('a', now)).to.equal((await limiter.consume('a')).allowed);
    await limiter.close();
  });
});
