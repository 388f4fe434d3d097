import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect } from 'chai';
import manifest from '../../package.json' with { type: 'json' };
import { root } from '../../scripts/lib/run.mjs';

const standIn = 'packages/express-rate-limit/package.json';
const testing = 'packages/testing/package.json';

describe('npm version', function () {
  this.timeout(30_000);
  let directory: string;

  const execute = (command: string, ...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(command, args, { cwd: directory, encoding: 'utf8' });
    return { status, output: stdout + stderr };
  };
  const git = (...args: string[]) => execute('git', ...args).output.trim();
  const read = (file: string) => readFileSync(join(directory, file), 'utf8');
  const write = (file: string, text: string) => writeFileSync(join(directory, file), text);

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'headgate-release-'));
    git('init', '--quiet');
    git('config', 'user.name', 'Test');
    git('config', 'user.email', 'test@example.com');
    const ours = JSON.stringify(manifest.scripts).replaceAll(
      'scripts/version.mjs',
      `${root}/scripts/version.mjs`,
    );
    write('package.json', `{ "name": "example", "version": "0.1.0", "scripts": ${ours} }\n`);
    write('CHANGELOG.md', '# Changelog\n\n## [Unreleased]\n\n### Added\n\n- All of it.\n');
    mkdirSync(join(directory, 'src/common'), { recursive: true });
    write('src/common/version.ts', "export const VERSION = '0.1.0';\n");
    write('README.md', '# Example\n\nDocs · version 0.1.0 · MIT license\n');
    for (const manifest of [standIn, testing])
      mkdirSync(join(directory, dirname(manifest)), { recursive: true });
    write(standIn, '{ "version": "0.1.0", "dependencies": { "headgate": "^0.1.0" } }\n');
    write(testing, '{ "version": "0.1.0", "peerDependencies": { "headgate": "0.1.0" } }\n');
    mkdirSync(join(directory, '.ci'));
    write('.ci/run', 'echo checked\n');
    git('add', '.');
    git('commit', '--quiet', '--message', 'All');
  });

  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  it('checks, writes the version and the changelog, commits and tags', () => {
    const { status, output } = execute('npm', 'version', '0.2.0');
    expect(status, output).to.equal(0);
    expect(output).to.contain('checked');
    expect(JSON.parse(read('package.json'))).to.include({ version: '0.2.0' });
    expect(read('src/common/version.ts')).to.contain("VERSION = '0.2.0'");
    expect(read('README.md')).to.contain('· version 0.2.0 ·');
    expect(JSON.parse(read(standIn))).to.deep.equal({
      version: '0.2.0',
      dependencies: { headgate: '^0.2.0' },
    });
    expect(JSON.parse(read(testing))).to.deep.equal({
      version: '0.2.0',
      peerDependencies: { headgate: '0.2.0' },
    });
    const today = new Date().toISOString().slice(0, 10);
    expect(read('CHANGELOG.md')).to.equal(
      `# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - ${today}\n\n### Added\n\n- All of it.\n`,
    );
    expect(git('tag', '--points-at', 'HEAD')).to.equal('v0.2.0');
    expect(git('status', '--porcelain')).to.equal('');
  });

  it('releases a version whose section is there, with the changes since then, and without empty headings', () => {
    const since = '## [Unreleased]\n\n### Added\n\n### Fixed\n\n- A fault.\n';
    write('CHANGELOG.md', `# Changelog\n\n${since}\n## [0.1.0]\n\nThe first version.\n`);
    git('commit', '--quiet', '--all', '--message', 'First');
    const { status, output } = execute('npm', 'version', '0.1.0', '--allow-same-version');
    expect(status, output).to.equal(0);
    const today = new Date().toISOString().slice(0, 10);
    const first = `## [0.1.0] - ${today}\n\n### Fixed\n\n- A fault.\n\nThe first version.\n`;
    expect(read('CHANGELOG.md')).to.equal(`# Changelog\n\n## [Unreleased]\n\n${first}`);
  });

  it('the changelog of this repository says what 0.1.0 has in 700 words, and then lists changes', () => {
    const [, unreleased = '', first = ''] = readFileSync(join(root, 'CHANGELOG.md'), 'utf8').split(
      /^## .*$/m,
    );
    expect(first.split(/\s+/).length).to.be.within(400, 750);
    const others = unreleased.split('\n').filter((line) => line !== '' && !/^(### |- | {2})/.test(line));
    expect(others).to.deep.equal([]);
    expect(unreleased.split(/\s+/).length).to.be.below(2000);
  });

  it('refuses failing checks, and an empty changelog', () => {
    write('CHANGELOG.md', '# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-01-01\n');
    git('commit', '--quiet', '--all', '--message', 'Nothing new');
    expect(execute('npm', 'version', '0.2.0').output).to.match(/nothing under/);
    git('checkout', '--quiet', '.');
    write('.ci/run', 'exit 1\n');
    git('commit', '--quiet', '--all', '--message', 'Failing');
    expect(execute('npm', 'version', '0.2.0').status).to.equal(1);
    expect(git('tag')).to.equal('');
  });

  it('is published only if package.json names its repository', () => {
    expect(execute('npm', 'run', 'prepublishOnly').output).to.match(/Set `repository`/);
    write('package.json', read('package.json').replace('{ ', '{ "repository": "example/example", '));
    expect(execute('npm', 'run', 'prepublishOnly').status).to.equal(0);
  });
});
