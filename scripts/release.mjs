// Makes a release, in two steps, from the directory in which it is called:
//
//   npm run release -- prepare 1.2.0    checks everything, writes the version and the changelog, commits and tags
//   npm run release -- publish          publishes what is tagged, with provenance: only in a CI that signs for it
//
// With --dry-run nothing is written and nothing is published.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { 'dry-run': { type: 'boolean', default: false } },
});
const dry = values['dry-run'];
const [step, version] = positionals;

try {
  if (step === 'prepare' && version !== undefined) prepare(version);
  else if (step === 'publish') publish();
  else throw new Error('usage: npm run release -- prepare <version> | publish [--dry-run]');
} catch (error) {
  console.error(/** @type {Error} */ (error).message);
  process.exitCode = 1;
}

/** @param {string} next */
function prepare(next) {
  if (!/^\d+\.\d+\.\d+(-[0-9a-z.-]+)?$/.test(next)) {
    throw new Error(`${next} is not a version. Write one as 1.2.0 or 1.2.0-rc.1.`);
  }
  checkClean();
  const branch = read('git', ['branch', '--show-current']);
  if (branch !== 'main') throw new Error(`Releases are made from main, not from ${branch}.`);
  const { version: current } = manifest();
  if (next === current && read('git', ['tag', '--list', `v${next}`]) !== '') {
    throw new Error(`${next} is released already.`);
  }
  const changelog = released(
    readFileSync('CHANGELOG.md', 'utf8'),
    next,
    new Date().toISOString().slice(0, 10),
  );
  run('.ci/run', []);
  if (dry) return console.log(`Ready to be released as ${next}.`);
  if (next !== current) run('npm', ['version', next, '--no-git-tag-version']);
  writeFileSync(
    'src/common/version.ts',
    readFileSync('src/common/version.ts', 'utf8').replace(/'[^']*'/, `'${next}'`),
  );
  writeFileSync('CHANGELOG.md', changelog);
  run('git', ['commit', '--all', '--message', `Release ${next}`]);
  run('git', ['tag', '--annotate', `v${next}`, '--message', `Headgate ${next}`]);
  console.log(`Tagged v${next}. Push main and the tag: the CI then calls \`npm run release -- publish\`.`);
}

function publish() {
  checkClean();
  const { version: current, repository } = manifest();
  if (!read('git', ['tag', '--points-at', 'HEAD']).split('\n').includes(`v${current}`)) {
    throw new Error(`This commit is not tagged v${current}: only what was prepared is published.`);
  }
  if (!repository) {
    throw new Error(
      'Provenance says which repository a package was built from: set `repository` in package.json.',
    );
  }
  // Variables of GitHub Actions with `permissions: id-token: write`, and of GitLab with an id token for sigstore.
  const { ACTIONS_ID_TOKEN_REQUEST_URL: github, SIGSTORE_ID_TOKEN: gitlab } = process.env;
  if (!dry && !github && !gitlab) {
    throw new Error(
      'Provenance is signed by a CI that can prove which it is: publish there, not from a machine of yours.',
    );
  }
  run('npm', ['publish', ...(dry ? ['--dry-run'] : ['--provenance']), '--access', 'public']);
}

/**
 * The changelog with what is unreleased under a version.
 *
 * @param {string} changelog
 * @param {string} next
 * @param {string} date
 */
function released(changelog, next, date) {
  const [before, after] = changelog.split('## [Unreleased]\n');
  if (after === undefined || !/^\s*###? /.test(after) || /^\s*## /.test(after)) {
    throw new Error('CHANGELOG.md has nothing under [Unreleased]: say what is new.');
  }
  return `${before}## [Unreleased]\n\n## [${next}] - ${date}\n${after}`;
}

function checkClean() {
  const changes = read('git', ['status', '--porcelain']);
  if (changes !== '') throw new Error(`There are changes that are not committed:\n${changes}`);
}

function manifest() {
  const text = readFileSync('package.json', 'utf8');
  const parsed = /** @type {{ version: string, repository?: unknown }} */ (JSON.parse(text));
  return parsed;
}

/**
 * @param {string} command
 * @param {string[]} args
 */
function run(command, args) {
  const { status } = spawnSync(command, args, { stdio: 'inherit' });
  if (status !== 0) throw new Error(`${[command, ...args].join(' ')} failed: nothing was released.`);
}

/**
 * @param {string} command
 * @param {string[]} args
 */
function read(command, args) {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${[command, ...args].join(' ')} failed:\n${stderr}`);
  return stdout.trim();
}
