import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { root } from '../scripts/lib/run.mjs';

const CHANGELOG = '# Changelog\n\n## [Unreleased]\n\n### Added\n\n- All of it.\n';

describe('npm run release', function () {
  this.timeout(30_000);
  let directory: string;

  const execute = (command: string, args: string[], env: NodeJS.ProcessEnv = {}) => {
    const { status, stdout, stderr } = spawnSync(command, args, {
      cwd: directory,
      encoding: 'utf8',
      env: { ...process.env, ACTIONS_ID_TOKEN_REQUEST_URL: '', SIGSTORE_ID_TOKEN: '', ...env },
    });
    return { status, output: stdout + stderr };
  };
  const git = (...args: string[]) => execute('git', args).output.trim();
  const release = (...args: string[]) =>
    execute(process.execPath, [join(root, 'scripts/release.mjs'), ...args]);
  const write = (file: string, text: string) => writeFileSync(join(directory, file), text);
  const commit = () => git('commit', '--quiet', '--all', '--message', 'A change');

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'headgate-release-'));
    git('init', '--quiet', '--initial-branch', 'main');
    git('config', 'user.name', 'Test');
    git('config', 'user.email', 'test@example.com');
    write('package.json', '{ "name": "example", "version": "0.1.0" }\n');
    write('CHANGELOG.md', CHANGELOG);
    mkdirSync(join(directory, 'src/common'), { recursive: true });
    write('src/common/version.ts', "export const VERSION = '0.1.0';\n");
    mkdirSync(join(directory, '.ci'));
    write('.ci/run', '#!/bin/sh\necho checked\n');
    chmodSync(join(directory, '.ci/run'), 0o755);
    git('add', '.');
    commit();
  });

  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  it('checks, writes the version and the changelog, commits and tags', () => {
    const { status, output } = release('prepare', '0.2.0');
    expect(status, output).to.equal(0);
    expect(output).to.contain('checked');
    expect(JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'))).to.include({
      version: '0.2.0',
    });
    expect(readFileSync(join(directory, 'src/common/version.ts'), 'utf8')).to.contain("VERSION = '0.2.0'");
    const today = new Date().toISOString().slice(0, 10);
    expect(readFileSync(join(directory, 'CHANGELOG.md'), 'utf8')).to.equal(
      `# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - ${today}\n\n### Added\n\n- All of it.\n`,
    );
    expect(git('log', '-1', '--format=%s')).to.equal('Release 0.2.0');
    expect(git('tag', '--points-at', 'HEAD')).to.equal('v0.2.0');
    expect(git('status', '--porcelain')).to.equal('');
  });

  it('releases the version that is there, if it is not released yet', () => {
    expect(release('prepare', '0.1.0').status).to.equal(0);
    write('CHANGELOG.md', CHANGELOG);
    commit();
    expect(release('prepare', '0.1.0').output).to.contain('released already');
  });

  it('writes nothing in a dry run', () => {
    expect(release('prepare', '0.2.0', '--dry-run').output).to.contain('Ready to be released as 0.2.0');
    expect(git('tag')).to.equal('');
    expect(git('status', '--porcelain')).to.equal('');
  });

  const refused: [string, () => unknown, string[], RegExp][] = [
    ['nothing to do', () => {}, [], /usage/],
    ['what is no version', () => {}, ['prepare', 'two'], /not a version/],
    ['changes', () => write('package.json', '{}'), ['prepare', '0.2.0'], /not committed/],
    ['another branch', () => git('checkout', '-q', '-b', 'idea'), ['prepare', '0.2.0'], /not from idea/],
    [
      'an empty changelog',
      () => (write('CHANGELOG.md', '# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-01-01\n'), commit()),
      ['prepare', '0.2.0'],
      /nothing under/,
    ],
    [
      'failing checks',
      () => (write('.ci/run', '#!/bin/sh\nexit 1\n'), commit()),
      ['prepare', '0.2.0'],
      /failed/,
    ],
    ['what is not tagged', () => {}, ['publish'], /not tagged v0.1.0/],
    ['an unknown repository', () => git('tag', 'v0.1.0'), ['publish'], /set `repository`/],
    [
      'a machine that cannot sign',
      () => {
        write('package.json', '{ "name": "example", "version": "0.1.0", "repository": "example/example" }\n');
        commit();
        git('tag', 'v0.1.0');
      },
      ['publish'],
      /signed by a CI/,
    ],
  ];
  for (const [what, arrange, args, message] of refused) {
    it(`refuses ${what}`, () => {
      arrange();
      const before = git('rev-parse', 'HEAD');
      const { status, output } = release(...args);
      expect(status).to.equal(1);
      expect(output).to.match(message);
      expect(git('rev-parse', 'HEAD')).to.equal(before);
    });
  }
});
