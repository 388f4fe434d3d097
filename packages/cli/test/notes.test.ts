// The texts around a replay: the notes on the logs, and the forms of numbers and times.
import { Readable } from 'node:stream';
import { expect } from 'chai';
import { count, duration, many, printable, share } from '../src/format.js';
import { cellsOf, logNotes, moment, type Found } from '../src/replay/tables.js';
import type { LogSummary } from '../src/replay/log-file.js';
import { headgate } from './cli.js';

const TIME = Date.UTC(2026, 9, 5, 6, 0, 0);

const log: LogSummary = {
  name: 'a.log',
  lines: 2_000,
  requests: 2_000,
  joined: 0,
  skipped: 0,
  malformed: 0,
  samples: [],
  late: 0,
  warning: undefined,
  notes: [],
};
const found: Found = {
  requests: 2_000,
  clients: 10,
  busiest: { key: '192.0.2.1', value: 1_000 },
  first: TIME + 1,
  last: TIME + 60_000,
};

describe('notes on logs', () => {
  const ofLog: [what: string, log: Partial<LogSummary>, ...notes: string[]][] = [
    ['nothing unusual', {}, 'a.log: 2,000 lines, 2,000 requests, none malformed'],
    ['one line', { lines: 1, requests: 1 }, 'a.log: 1 line, 1 request, none malformed'],
    [
      'skipped lines',
      { requests: 1_999, skipped: 1 },
      'a.log: 2,000 lines, 1,999 requests, 1 skipped (no request, no key, or not matched), none malformed',
    ],
    [
      'malformed lines, with samples',
      {
        requests: 1_999,
        malformed: 1,
        samples: [{ line: 1_234, problem: `no\ttime ${'x'.repeat(200)}`, text: 'y'.repeat(200) }],
      },
      'a.log: 2,000 lines, 1,999 requests, 1 malformed (0.05 %)',
      `  line 1,234: ${printable(`no\ttime ${'x'.repeat(200)}`, 160)}: ${'y'.repeat(69)}…`,
    ],
    [
      'late lines',
      { late: 1 },
      'a.log: 2,000 lines, 2,000 requests, none malformed',
      '  1 line came more than 50,000 lines late; counted at the time of the line before',
    ],
    [
      'a damaged file',
      { warning: 'its gzip data is damaged' },
      'a.log: 2,000 lines, 2,000 requests, none malformed',
      '  its gzip data is damaged',
    ],
    [
      'a name that hides something',
      { name: 'a\u202e.log' },
      'a\\u{202e}.log: 2,000 lines, 2,000 requests, none malformed',
    ],
  ];
  for (const [what, given, ...notes] of ofLog)
    it(what, () => expect(logNotes([{ ...log, ...given }], found)).to.deep.equal(notes));

  it('lists each log, in their order', () =>
    expect(
      logNotes([log, { ...log, name: 'b.log', late: 2 }], found).map((note) => note.slice(0, 9)),
    ).to.deep.equal(['a.log: 2,', 'b.log: 2,', '  2 lines']));

  it('whole seconds, unless there is only one moment', () => {
    const tells = (first: number, last: number) =>
      logNotes([log], { ...found, first, last })
        .at(-1)!
        .startsWith('The log has whole seconds,');
    expect(tells(TIME, TIME + 1_000)).to.equal(true);
    expect(tells(TIME, TIME)).to.equal(false);
    expect(tells(TIME + 1, TIME + 1_000)).to.equal(false);
    expect(tells(TIME, TIME + 1_001)).to.equal(false);
  });

  it('a client that sent more than half of ten requests or more', () => {
    const told = (requests: number, value: number) =>
      logNotes([log], { ...found, requests, busiest: { key: '192.0.2.1', value } }).slice(1);
    expect(told(10, 6)).to.have.lengthOf(1);
    expect(told(10, 6)[0]).to.match(/^192\.0\.2\.1 sent 60 % of the requests\./);
    expect(told(10, 5)).to.deep.equal([]);
    expect(told(9, 9)).to.deep.equal([]);
  });

  it('the note on such a client comes in JSON, too', async () => {
    const lines = Array.from({ length: 12 }, (_, i) =>
      JSON.stringify({ time: TIME + i, ip: i < 9 ? '192.0.2.1' : `192.0.2.${i}` }),
    );
    for (const args of [
      ['replay', '-', '--policy', '5/1m'],
      ['suggest', '-'],
    ]) {
      const stdin = Readable.from([`${lines.join('\n')}\n`]);
      const { stdout } = await headgate(['--json', ...args], { stdin });
      const { notes } = JSON.parse(stdout) as { notes: string[] };
      expect(notes).to.have.lengthOf(1);
      expect(notes[0]).to.match(/^192\.0\.2\.1 sent 75 % of the requests\./);
    }
  });
});

describe('numbers and times for people', () => {
  it('counts', () => {
    expect([count(0), count(1234567), many(1, 'client'), many(2, 'client'), many(0, 'client')]).to.deep.equal(
      ['0', '1,234,567', '1 client', '2 clients', '0 clients'],
    );
  });

  it('shares are never rounded to none or all', () => {
    const shares: [part: number, whole: number, text: string][] = [
      [0, 0, '0 %'],
      [0, 5, '0 %'],
      [5, 5, '100 %'],
      [1, 2, '50 %'],
      [1, 100_000, '< 0.01 %'],
      [1, 10_000, '0.01 %'],
      [1, 150, '0.7 %'],
      [1, 100, '1 %'],
      [1, 80, '1.3 %'],
      [989, 1_000, '99 %'],
      [99_123, 100_000, '99.12 %'],
      [9_999, 10_000, '99.99 %'],
      [99_999, 100_000, '> 99.99 %'],
    ];
    for (const [part, whole, text] of shares)
      expect(share(part, whole), `${part} of ${whole}`).to.equal(text);
  });

  it('moments, with milliseconds if there are any', () => {
    expect(moment(undefined)).to.equal('-');
    expect(moment(TIME)).to.equal('2026-10-05 06:00:00');
    expect(moment(TIME + 70)).to.equal('2026-10-05 06:00:00.070');
  });

  it('lengths of time: the two largest units, rounded up', () => {
    const lengths: [ms: number, text: string][] = [
      [0, '0ms'],
      [999, '999ms'],
      [1_000, '1s'],
      [1_001, '2s'],
      [59_001, '1m'],
      [60_000, '1m'],
      [60_001, '1m 1s'],
      [3_599_001, '1h'],
      [3_600_000, '1h'],
      [3_600_001, '1h 1m'],
      [86_340_001, '1d'],
      [90_000_000, '1d 1h'],
      [90_000_001, '1d 2h'],
      [366 * 86_400_000, '366d'],
    ];
    for (const [ms, text] of lengths) expect(duration(ms), `${ms} ms`).to.equal(text);
  });

  it('long texts are cut by characters', () => {
    expect(printable('x'.repeat(60))).to.equal('x'.repeat(60));
    expect(printable('x'.repeat(61))).to.equal(`${'x'.repeat(59)}…`);
    expect(printable('🙂🙂🙂', 3)).to.equal('🙂🙂🙂');
    expect(printable('🙂🙂🙂', 2)).to.equal('🙂…');
  });

  it('a row of the clients denied most', () => {
    const client = {
      key: 'k'.repeat(9),
      requests: 1_500,
      denied: 750,
      first: TIME,
      last: TIME + 500,
      streak: 1_200,
      streakAt: TIME + 1,
      policies: ['minute', 'hour'],
    };
    expect(cellsOf(client, 5, (time) => String(time - TIME))).to.deep.equal([
      'kkkk…',
      '1,500',
      '750',
      '50 %',
      '2026-10-05 06:00:00',
      '2026-10-05 06:00:00.500',
      '1,200 from 1',
      'minute, hour',
    ]);
  });
});
