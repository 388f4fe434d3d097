// Runs for `npm version` and `npm publish`. `npm version 1.2.0` runs .ci/run, writes the version into the source and the changelog, commits and
// tags; `npm publish` then runs in a CI that signs for it. With `check` nothing is written.
import { readFileSync, writeFileSync } from 'node:fs';

const { version, repository } = /** @type {{ version: string, repository?: unknown }} */ (
  JSON.parse(readFileSync('package.json', 'utf8'))
);

if (process.argv[2] === 'check') {
  if (!repository) {
    fail(
      'Set `repository` in package.json: npm resolves the links of README.md by it, and provenance names it.',
    );
  }
} else {
  const [before, after] = readFileSync('CHANGELOG.md', 'utf8').split('## [Unreleased]\n');
  if (after === undefined || !/^\s*### /.test(after)) {
    fail(
      'CHANGELOG.md has nothing under [Unreleased]: say what is new, and undo the change of package.json.',
    );
  }
  const today = new Date().toISOString().slice(0, 10);
  writeFileSync('CHANGELOG.md', `${before}## [Unreleased]\n\n## [${version}] - ${today}\n${after}`);
  const source = readFileSync('src/common/version.ts', 'utf8');
  writeFileSync('src/common/version.ts', source.replace(/'[^']*'/, `'${version}'`));
  // The stand-in for a transitive express-rate-limit is released with this package.
  const standIn = 'packages/express-rate-limit/package.json';
  const text = readFileSync(standIn, 'utf8').replace(/("version": ")[^"]*/, `$1${version}`);
  writeFileSync(standIn, text.replace(/("headgate": ")[^"]*/, `$1^${version}`));
}

/**
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  console.error(message);
  process.exit(1);
}
