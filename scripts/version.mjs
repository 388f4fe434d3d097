// Runs for `npm version` and `npm publish`. `npm version 1.2.0` runs .ci/run, writes the version into the source and the changelog, commits and
// tags; `npm publish` then runs in a CI that signs for it. With `check` nothing is written.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

const { version, repository } = /** @type {{ version: string, repository?: unknown }} */ (
  JSON.parse(readFileSync('package.json', 'utf8'))
);

if (process.argv[2] === 'check') {
  if (!repository) {
    fail('Set `repository` in package.json: provenance names the repository.');
  }
} else {
  const [before, text] = readFileSync('CHANGELOG.md', 'utf8').split('## [Unreleased]\n');
  // A first version has its section before its release, and the changes since then become a part of it.
  const after = text?.replace(/^(### \w+\n+)(?=##)/gm, '').replace(`\n## [${version}]\n`, '');
  if (after === undefined || !/^\s*### /.test(after)) {
    fail(
      'CHANGELOG.md has nothing under [Unreleased]: say what is new, and undo the change of package.json.',
    );
  }
  const today = new Date().toISOString().slice(0, 10);
  writeFileSync('CHANGELOG.md', `${before}## [Unreleased]\n\n## [${version}] - ${today}\n${after}`);
  const source = readFileSync('src/common/version.ts', 'utf8');
  writeFileSync('src/common/version.ts', source.replace(/'[^']*'/, `'${version}'`));
  writeFileSync('README.md', readFileSync('README.md', 'utf8').replace(/(· version )\S+/, `$1${version}`));
  // All packages are released together.
  for (const name of readdirSync('packages')) {
    const manifest = `packages/${name}/package.json`;
    const text = readFileSync(manifest, 'utf8').replace(/("version": ")[^"]*/, `$1${version}`);
    writeFileSync(manifest, text.replace(/("headgate(?:-dashboard)?": "\^?)[^"^]*/g, `$1${version}`));
  }
  execFileSync(
    'npm',
    ['install', '--package-lock-only', '--ignore-scripts', '--prefer-offline', '--no-audit'],
    { stdio: 'ignore' },
  );
}

/**
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  console.error(message);
  process.exit(1);
}
