// npm run test:nodes: runs tests on every other supported Node, which comes as a package from npm, once. Arguments go to mocha.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { text } from 'node:stream/consumers';
import sqlite from 'better-sqlite3/package.json' with { type: 'json' };
import { ensureDependencies } from './lib/dependencies.mjs';
import { root } from './lib/run.mjs';
import { getPrograms } from './programs.mjs';

/** The versions to add: `npm test` runs all tests on the current Node. */
const MAJORS = [20, 22, 24, 26].filter((major) => !process.versions.node.startsWith(`${major}.`));

/**
 * Tests that depend on Node's HTTP, streams and timers, which may differ between versions, or on its SQLite. Node 20 has none, and runs
 * the tests on better-sqlite3. The tests need no servers.
 */
const TESTS = [
  'test/http/connections.test.ts',
  'test/features/wait/lines.test.ts',
  'test/features/fake-timers.test.ts',
  'test/sqlite',
];

/** Mocha with the option of Node that .mocharc.json sets. Mocha's own program would start a second process for that option. */
const MOCHA = ['--import=./scripts/lib/typescript.mjs', 'node_modules/mocha/lib/cli/cli.js'];

/** Whether a Node has node:sqlite. */
const hasSqlite = (/** @type {number} */ major) => major > 20;

ensureDependencies();
const chosen = process.argv.slice(2);
const problems = chosen.length > 0 ? getPrograms('redis', 'valkey') : [];
if (problems.length > 0) throw new Error(problems.join('\n'));
const args = chosen.length > 0 ? chosen : ['--reporter', 'dot', '--forbid-pending', ...TESTS];
// The random searches run elsewhere. Here the random tests only have to run.
const env = chosen.length > 0 ? {} : { HEADGATE_SERVERS: 'none', HEADGATE_RUNS: '0.3' };
let failed = 0;
// The tests wait about half of the time, so as many Nodes as there are cores run at once.
const waiting = [...MAJORS];
await Promise.all(Array.from({ length: availableParallelism() }, runNodes));
process.exit(failed);

async function runNodes() {
  for (let major = waiting.shift(); major; major = waiting.shift()) {
    const [command, ...before] = commandOf(major);
    const child = spawn(command, [...before, ...MOCHA, ...args], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit'],
      // The installed better-sqlite3 is compiled for the current Node.
      env: { ...process.env, ...env, ...(hasSqlite(major) && { HEADGATE_SQLITE: 'node:sqlite' }) },
    });
    const [output, [status]] = await Promise.all([text(child.stdout), once(child, 'close')]);
    console.log(`Node ${major}\n${output}`);
    if (status !== 0) failed++;
  }
}

/**
 * The command for a Node of this major version, from the package for this machine, which npx caches. A Node without node:sqlite brings
 * better-sqlite3.
 *
 * @param {number} major
 * @returns {[string, ...string[]]}
 */
function commandOf(major) {
  const platform = process.platform === 'win32' ? 'win' : process.platform;
  const prefix = platform === 'darwin' && process.arch === 'arm64' ? 'node-bin' : 'node';
  const packages = [`${prefix}-${platform}-${process.arch}@${major}`];
  // npx would take the installed package, for another Node, instead of a package with its name.
  if (!hasSqlite(major)) packages.push(`for-node-${major}@npm:better-sqlite3@${sqlite.version}`);
  return ['npx', '--yes', '--loglevel=error', ...packages.map((name) => `--package=${name}`), '--', 'node'];
}
