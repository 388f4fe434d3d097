// Values that operators type: lengths of bans, and colours.
import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import { lengthOf } from '../src/commands/ban.js';
import { columnsFor } from '../src/commands/list-rows.js';
import { endOf, instant, momentIn, titled, typedMoment } from '../src/times.js';
import { many } from '../src/format.js';
import { createIo } from '../src/io.js';
import { headgate } from './cli.js';
import { escape, jsonInHtml } from '../src/replay/report-page.js';

describe('the length of a ban', () => {
  it('stands after the key or behind --for, and needs a unit', () => {
    expect(lengthOf('2h', undefined)).to.equal(7_200_000);
    expect(lengthOf(undefined, '2h')).to.equal(7_200_000);
    expect(() => lengthOf(undefined, undefined)).to.throw(/^duration: missing/);
    expect(() => lengthOf('1h', '2h')).to.throw(/Pass one of them/);
    for (const bare of ['5', '3600', '1.5'])
      expect(() => lengthOf(bare, undefined)).to.throw(new RegExp(`${bare} has no unit. Pass ${bare}s`));
  });
});

describe('typed and shown times', () => {
  const zone = process.env['TZ'];
  const inZone = (name: string): void => void (process.env['TZ'] = name);
  afterEach(() => void (zone === undefined ? delete process.env['TZ'] : (process.env['TZ'] = zone)));
  const now = Date.parse('2026-11-28T03:15Z');
  const [utc, local] = [{ isLocal: false }, { isLocal: true }];
  const end = (text: string, of = utc): unknown => {
    const moment = endOf(text, of, now);
    return typeof moment === 'string' ? moment : moment.toISOString();
  };

  it('the end of an override is a time of day, the next one, or a moment', () => {
    inZone('UTC');
    expect(end('08:00')).to.equal('2026-11-28T08:00:00.000Z');
    expect(end('3:15')).to.equal('2026-11-29T03:15:00.000Z');
    expect(end('08:00+02:00')).to.equal('2026-11-28T06:00:00.000Z');
    expect(end('2026-12-01 18:00')).to.equal('2026-12-01T18:00:00.000Z');
    expect(end('2026-12-01')).to.equal('2026-12-01T00:00:00.000Z');
    for (const other of ['24:00', '8:60', '8', '', 'Z', 'tomorrow']) expect(end(other)).to.equal(other);
    expect(() => end('2026-02-30T12:00Z')).to.throw('not a day of the calendar');
    expect(() => end('2026-11-28T04:00+02:00')).to.throw('is 2026-11-28 02:00:00 UTC, which is over');
  });

  it('is refused on a day, or in a zone, that does not exist', () => {
    inZone('UTC');
    for (const day of ['2030-13-05', '2030-00-15', '2030-99-05', '2030-02-30', '2030-01-00'])
      for (const text of [day, `${day}T00:00Z`, `${day} 12:00+02:00`])
        expect(() => end(text), text).to.throw(`--until: "${text}" is not a day of the calendar`);
    for (const zone of ['+99:99', '+25:00', '-15:00', '+14:01', '+01:60', '-0199'])
      for (const text of [`2030-01-01T00:00${zone}`, `12:00${zone}`]) {
        expect(() => end(text), text).to.throw(`--until: "${text}" has no valid zone`);
        const past = { zone: 'Z', isPast: true, now };
        expect(() => momentIn('--at', typedMoment(text)!, past), text).to.throw('--at: ');
      }
    expect(end('2030-01-01T00:00+14:00')).to.equal('2029-12-31T10:00:00.000Z');
    expect(end('2030-01-01T00:00-0930')).to.equal('2030-01-01T09:30:00.000Z');
    expect(end('2028-02-29T00:00Z')).to.equal('2028-02-29T00:00:00.000Z');
  });

  it('without a zone, it is refused where it is ambiguous', () => {
    inZone('Europe/Berlin');
    for (const text of ['2026-12-01T18:00', '08:00', '2026-12-01'])
      expect(() => end(text)).to.throw(/has no zone. Pass \S+Z for .* UTC, or add --local for .* \+01:00/);
    expect(end('2026-12-01T18:00Z')).to.equal('2026-12-01T18:00:00.000Z');
    expect(end('2026-12-01T18:00', local)).to.equal('2026-12-01T17:00:00.000Z');
    expect(end('08:00', local)).to.equal('2026-11-28T07:00:00.000Z');
    // The clocks change.
    expect(() => end('2027-03-28T02:30', local)).to.throw('skip 2027-03-28T02:30');
    expect(() => end('2027-10-31T02:30', local)).to.throw(
      'Pass 2027-10-31T02:30+02:00 or 2027-10-31T02:30+01:00',
    );
  });

  it('are shown with their zone', () => {
    inZone('America/St_Johns');
    const moment = '2026-11-28T03:15:00.000Z';
    expect(instant(utc, moment)).to.equal('2026-11-28 03:15:00 UTC');
    expect(instant(local, moment)).to.equal('2026-11-27 23:45:00 -03:30');
    expect(titled(local, 'when')).to.equal('when (America/St_Johns)');
  });
});

describe('numbers', () => {
  it('of things have their plural', () => {
    expect([many(1, 'process'), many(2, 'process'), many(2000, 'key')]).to.deep.equal([
      ...['1 process', '2 processes', '2,000 keys'],
    ]);
  });

  it('of a tenant that used more than its share name no part above 100 %', () => {
    const { policy } = columnsFor({
      io: createIo(streamsOf({}, false), [], { json: false, isLocal: false }),
      isByUse: true,
      notes: new Map(),
    });
    const find = (used: number) =>
      ({ kind: 'admitted', policies: [{ name: 'q', limit: 800, remaining: 0, share: 71, used }] }) as never;
    expect(policy!(find(71))).to.equal('q: 71 of 71 used (100 %)');
    expect(policy!(find(72))).to.equal('q: 72 used, 1 more than its share of 71 now');
  });
});

/** The streams of a process with an environment. */
const streamsOf = (env: Record<string, string>, isTTY: boolean) => {
  const stdout = Object.assign(new PassThrough(), { isTTY });
  return { stdin: new PassThrough(), stdout, stderr: new PassThrough(), env, cwd: '.' };
};

describe('a key that begins with a dash', () => {
  for (const command of ['peek', 'key', 'reset', 'ban', 'unban', 'override'])
    it(`of ${command} is refused with its place on the command line`, async () => {
      const { code, stderr } = await headgate([command, '--evil', '--name', 'api']);
      expect(code).to.equal(2);
      expect(stderr).to.include(`after --, as in: headgate ${command} --name api -- -key`);
    });

  it('is not mentioned for a mistyped option, or a command without a key', async () => {
    for (const args of [
      ['ban', 'a', '--reasom'],
      ['list', '--zzz'],
    ])
      expect((await headgate(args)).stderr)
        .to.include('unknown option')
        .and.not.include('begins with a dash');
  });
});

describe('the help in a terminal of 60 columns', () => {
  it('wraps the descriptions of options', async () => {
    const stdout = Object.assign(new PassThrough(), { isTTY: true, columns: 60 });
    await headgate(['ban', '--help'], { stdout });
    const lines = String(stdout.read()).split('\n');
    const option = lines.findIndex((line) => line.includes('--ipv6-subnet'));
    expect(lines[option + 1]).to.match(/^ {20,}\S/);
    expect(
      lines.slice(0, lines.indexOf('Example:')).filter((line) => line.length > 60 && !line.includes('://')),
    ).to.deep.equal([]);
  });
});

describe('the help of each command', () => {
  it('describes the JSON that it writes', async () => {
    const commandsIn = (help: string): string[] =>
      [...help.slice(help.indexOf('Commands:')).matchAll(/^ {2}([a-z][a-z-]+)/gm)].map(([, name]) => name!);
    const all = commandsIn((await headgate(['--help'])).stdout).filter((name) => name !== 'help');
    expect(all).to.have.length(20);
    for (const name of [...all, 'bans export', 'bans import', 'bans log', 'overrides log'].filter(
      (each) => each !== 'bans',
    ))
      expect((await headgate([...name.split(' '), '--help'])).stdout, name).to.contain('With --json: ');
  });
});

describe('colours', () => {
  it('are for terminals, unless NO_COLOR or FORCE_COLOR say otherwise', () => {
    const colours = (env: Record<string, string>, isTTY: boolean) =>
      createIo(streamsOf(env, isTTY), [], { json: false, isLocal: false }).colors.isColorSupported;
    expect([colours({}, true), colours({}, false)]).to.deep.equal([true, false]);
    expect([colours({ FORCE_COLOR: '1' }, false), colours({ FORCE_COLOR: '0' }, true)]).to.deep.equal([
      true,
      false,
    ]);
    expect([
      colours({ NO_COLOR: '1' }, true),
      colours({ NO_COLOR: '1', FORCE_COLOR: '1' }, true),
    ]).to.deep.equal([false, false]);
  });
});

describe('labels of the report', () => {
  it('show what is invisible', () => {
    const label = 'a\u001b[2J\u202e\u2028b';
    for (const text of [escape(label), jsonInHtml(label)]) {
      expect(/\p{Cc}|\p{Cf}|\p{Zl}/u.test(text)).to.be.false;
      expect(text).to.match(/1b/);
    }
    expect(JSON.parse(jsonInHtml(label))).to.equal(label);
  });
});

describe('an option that is passed twice', () => {
  for (const args of [
    ['peek', 'k', '--name', 'a', '--name=b'],
    ['override', 'k', '100/1m', '--name', 'a', '--name', 'b'],
    ['ban', 'k', '1h', '--name', 'a', '--reason', 'x', '--reason', 'y'],
    ['list', '--redis', 'redis://a', '--redis', 'redis://b'],
    ['postgres-schema', '--table', 'a', '--table', 'b'],
  ])
    it(`is refused: ${args.join(' ')}`, async () => {
      const { code, stderr } = await headgate(args);
      expect(code).to.equal(2);
      expect(stderr).to.match(/--\w+: passed twice/);
    });

  it('is accepted by ban, which takes several names', async () => {
    const { stderr } = await headgate([
      'ban',
      'k',
      '1 hour',
      '--name',
      'a',
      '--name',
      'b',
      '--sqlite',
      '/none/x',
    ]);
    expect(stderr).not.to.match(/passed twice/);
  });
});
