// The command lines that the page shows, as a shell reads them.
import { execFileSync } from 'node:child_process';
import { expect } from 'chai';
import {
  commandLine,
  isAmbiguous,
  policyParts,
  scaled,
  scaledPolicy,
  shellWord,
} from '../src/page/command.js';

/** The words of a command line, as bash passes them to the program. */
function wordsIn(line: string): string[] {
  const script = `headgate() { printf '%s\\0' "$@"; }; ${line}`;
  const out = execFileSync('bash', ['-c', script], { env: { ...process.env, LC_ALL: 'C.UTF-8' } });
  return out.toString().split('\0').slice(0, -1);
}

const NOTE = ['--by', 'ada', '--reason', "it's 5 $HOME `x` !"];
const note = { reason: NOTE[3] };

describe('the command line of a button', () => {
  for (const key of [
    ...[
      'user:42',
      "it's",
      '"quoted"',
      '$(reboot)',
      '`reboot`',
      'a b',
      '!x',
      '~',
      '-v',
      '--all',
      '*?[a]',
      'a\\b',
    ],
    ...[
      '\u202Eevil',
      'a\nb',
      '\u001b[2J',
      'zero\u200bwidth',
      "mixed ' \\ \u0007",
      '日本',
      '<img onerror>',
      'k'.repeat(2000),
    ],
  ])
    it(`passes the key ${JSON.stringify(key.slice(0, 24))}`, () => {
      const line = commandLine({ action: 'ban', name: 'the api', key, for: '2h', ...note }, 'ada')!;
      const words = wordsIn(line);
      const expected = key.startsWith('-')
        ? ['ban', '--name', 'the api', ...NOTE, '--', key, '2h']
        : ['ban', key, '2h', '--name', 'the api', ...NOTE];
      expect(words).to.deep.equal(expected);
    });

  it('is absent for keys that no shell can pass', () => {
    for (const key of ['a\0b', '\ud800'])
      expect(commandLine({ action: 'reset', name: 'api', key, reason: 'r' }, 'ada')).to.equal(undefined);
    expect(shellWord('\0')).to.equal(undefined);
  });

  it('has the flags of each action', () => {
    const of = (change: object) => wordsIn(commandLine({ name: 'api', reason: 'r', ...change }, 'ada')!);
    const end = ['--by', 'ada', '--reason', 'r'];
    expect(of({ action: 'override', key: 'k', change: '200/1m', for: '1d' })).to.deep.equal([
      'override',
      'k',
      '200/1m',
      '--name',
      'api',
      '--for',
      '1d',
      ...end,
    ]);
    const change = { minute: '200/1m', 'per day': '9/1d' };
    const [, key, json, ...rest] = of({ action: 'override', key: 'k', change, until: '2030-01-31T12:00Z' });
    expect([key, JSON.parse(json!)]).to.deep.equal(['k', change]);
    expect(rest).to.deep.equal(['--name', 'api', '--until', '2030-01-31T12:00Z', ...end]);
    expect(of({ action: 'override', all: true, change: { minute: '1/1m' } })).to.deep.equal([
      'override',
      'minute=1/1m',
      '--all',
      '--name',
      'api',
      ...end,
    ]);
    expect(of({ action: 'unban', key: 'k', fresh: true })).to.deep.equal([
      'unban',
      'k',
      '--name',
      'api',
      '--fresh',
      ...end,
    ]);
    expect(of({ action: 'remove', key: 'k', dimension: 'org' })).to.deep.equal([
      'override',
      'k',
      '--remove',
      '--name',
      'api',
      '--dimension',
      'org',
      ...end,
    ]);
    expect(of({ action: 'unban', key: '2001:db8::/56', raw: true })).to.deep.equal([
      'unban',
      '2001:db8::/56',
      '--name',
      'api',
      '--raw',
      ...end,
    ]);
    expect(of({ action: 'ban', key: 'k', for: '2h', all: true })).to.deep.equal([
      'ban',
      'k',
      '2h',
      '--all-limiters',
      ...end,
    ]);
  });
});

describe('the command line of a reset in several limiters', () => {
  it('has a line for each', () => {
    const change = {
      action: 'reset',
      key: 'k',
      name: 'api',
      all: true,
      places: [{ name: 'api' }, { name: 'the login', dimension: 'account' }],
      reason: 'r',
    };
    expect(commandLine(change, 'ada')).to.equal(
      "headgate reset k --name api --by ada --reason r &&\nheadgate reset k --name 'the login' --dimension account --by ada --reason r",
    );
  });
});

describe('the command line of a store', () => {
  it('names the store in each line', () => {
    const of = (change: object) => commandLine({ name: 'api', reason: 'r', ...change }, 'ada', store)!;
    const store = ['--sqlite', 'my limits.db'];
    const end = "--by ada --reason r --sqlite 'my limits.db'";
    expect(of({ action: 'ban', key: '192.0.2.2', for: '2h' })).to.equal(
      `headgate ban 192.0.2.2 2h --name api ${end}`,
    );
    expect(of({ action: 'ban', key: '-k', for: '2h' })).to.equal(`headgate ban --name api ${end} -- -k 2h`);
    expect(of({ action: 'undo', ids: ['17-0'] })).to.equal(`headgate log --undo 17-0 ${end}`);
    expect(of({ action: 'import', kind: 'bans' })).to.equal(
      `headgate bans import bans.jsonl --name api ${end}`,
    );
    expect(of({ action: 'reset', key: 'k', all: true, places: [{ name: 'api' }] })).to.equal(
      `headgate reset k --name api ${end}`,
    );
  });
});

describe('the command line of an import', () => {
  const of = (change: object) => wordsIn(commandLine({ action: 'import', ...note, ...change }, 'ada')!);

  it('names the file, and the defaults of its lines', () => {
    const all = { kind: 'bans', name: 'the api', for: '2h', dimension: 'account', file: '-a b.txt' };
    expect(of(all)).to.deep.equal([
      ...['bans', 'import', './-a b.txt', '--name', 'the api', '--for', '2h', '--dimension', 'account'],
      ...NOTE,
    ]);
    expect(of({ kind: 'bans' })).to.deep.equal(['bans', 'import', 'bans.jsonl', ...NOTE]);
    expect(of({ kind: 'overrides', name: 'api' })).to.deep.equal([
      ...['override', '--file', 'overrides.jsonl', '--name', 'api', ...NOTE],
    ]);
  });
});

describe('the command lines of an undo', () => {
  it('are one for each change', () => {
    const line = commandLine({ action: 'undo', ids: ['17-0', '18-0'], reason: 'r' }, 'ada')!;
    expect(line).to.equal(
      'headgate log --undo 17-0 --by ada --reason r &&\nheadgate log --undo 18-0 --by ada --reason r',
    );
  });
});

describe('the texts of policies', () => {
  it('are scaled', () => {
    expect(scaled('token-bucket 20/1s burst 40', 2)).to.equal('40/1s');
    expect(scaled('calendar 2000/month Europe/Berlin by org', 10)).to.equal('20000/month');
    expect(scaled('3 / 1m', 0.1)).to.equal('1/1m');
    expect(scaledPolicy('token-bucket 20/1s burst 40 by org', 0.5)).to.equal(
      'token-bucket 10/1s burst 20 by org',
    );
    expect(scaledPolicy('calendar 2000/month Europe/Berlin', 2)).to.equal(
      'calendar 4000/month Europe/Berlin',
    );
  });

  it('are taken apart', () => {
    expect(policyParts('100/1m')).to.deep.include({
      name: 'default',
      rest: '100/1m',
      dimension: 'key',
      limit: 100,
      isNamed: false,
    });
    expect(policyParts('minute=token-bucket 20/1s by org')).to.deep.include({
      name: 'minute',
      dimension: 'org',
      limit: 20,
      capacity: 20,
    });
    expect(policyParts('"per \\"day\\""=5/1d')).to.deep.include({ name: 'per "day"', rest: '5/1d' });
  });

  it('mark keys that would be read as an address', () => {
    for (const key of ['', '1.2.3', '10.0.0.0/8', '2001:db8::1', '2001:db8::/56', '::', 'fe80:'])
      expect(isAmbiguous(key), key).to.equal(true);
    for (const key of ['203.0.113.7', 'user:42', 'ada', 'org:acme', 'abc.def.example', 'v1.2'])
      expect(isAmbiguous(key), key).to.equal(false);
  });
});
