// npm run test:nodes: runs tests on every other supported Node, which comes as a package from npm, once. Arguments go to mocha.
import { ensureDependencies } from './lib/dependencies.mjs';
import { read, run } from './lib/run.mjs';
import { getPrograms } from './programs.mjs';

/** The versions to add: `npm test` runs all tests on the current Node. */
const MAJORS = [20, 22, 24, 26].filter((major) => !process.versions.node.startsWith(`${major}.`));

/**
 * Tests that depend on Node's HTTP, streams and timers, which may differ between versions, or on its SQLite, which Node 20 does not have.
 * The tests need no servers.
 */
const TESTS = [
  'test/http/connections.test.ts',
  'test/features/lines.test.ts',
  'test/features/fake-timers.test.ts',
  'test/sqlite',
];

ensureDependencies();
const chosen = process.argv.slice(2);
const problems = chosen.length > 0 ? getPrograms('redis', 'valkey') : [];
if (problems.length > 0) throw new Error(problems.join('\n'));
const args = chosen.length > 0 ? chosen : ['--reporter', 'dot', '--forbid-pending', ...TESTS];
// The random searches run elsewhere. Here the random tests only have to run.
const env = chosen.length > 0 ? undefined : { HEADGATE_SERVERS: 'none', HEADGATE_RUNS: '0.3' };
let failed = 0;
for (const major of MAJORS) {
  const [command, ...before] = commandOf(major);
  console.log(
    `Node ${read(command, [...before, '--version'])?.trim() ?? `${major} could not be installed from npm`}`,
  );
  if (run(command, [...before, 'node_modules/mocha/bin/mocha.js', ...args], env) !== 0) failed++;
}
process.exit(failed);

/**
 * The command for a Node of this major version, from the package for this machine, which npx caches.
 *
 * @param {number} major
 * @returns {[string, ...string[]]}
 */
function commandOf(major) {
  const platform = process.platform === 'win32' ? 'win' : process.platform;
  const prefix = platform === 'darwin' && process.arch === 'arm64' ? 'node-bin' : 'node';
  const name = `${prefix}-${platform}-${process.arch}@${major}`;
  return ['npx', '--yes', '--loglevel=error', `--package=${name}`, '--', 'node'];
}
