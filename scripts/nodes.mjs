// Runs tests on each other Node that is supported: npm run test:nodes. Node comes as a package from npm, once. Arguments go to mocha.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ensureDependencies } from './lib/dependencies.mjs';
import { read, root, run } from './lib/run.mjs';
import { getPrograms } from './programs.mjs';

/** On its own Node, `npm test` runs these and all others. */
const MAJORS = [20, 22, 24, 26].filter((major) => !process.versions.node.startsWith(`${major}.`));

/**
 * Tests that depend on Node's own HTTP, streams and timers, which may differ between versions, and on its SQLite, which Node 20 has not.
 * They need no servers.
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
const env = chosen.length > 0 ? undefined : { HEADGATE_SERVERS: 'none' };
let failed = 0;
for (const major of MAJORS) {
  const node = nodeOf(major);
  console.log(`Node ${read(node, ['--version'])?.trim() ?? `${major}: ${node} does not run here`}`);
  if (run(node, ['node_modules/mocha/bin/mocha.js', ...args], env) !== 0) failed++;
}
process.exit(failed);

/**
 * The path of a Node of this major version, from a package that is installed if need be.
 * @param {number} major
 */
function nodeOf(major) {
  const name = packageName();
  const directory = join(root, 'node_modules/.cache/nodes', String(major));
  const node = join(
    directory,
    'node_modules',
    name,
    'bin',
    process.platform === 'win32' ? 'node.exe' : 'node',
  );
  if (existsSync(node)) return node;
  const quiet = ['--no-save', '--no-audit', '--no-fund', '--loglevel=error'];
  if (run('npm', ['install', '--prefix', directory, ...quiet, `${name}@${major}`]) !== 0) {
    console.error(`Node ${major} could not be installed from npm (${name}).`);
    process.exit(1);
  }
  return node;
}

/** The npm package with Node's program for this machine. */
function packageName() {
  const platform = process.platform === 'win32' ? 'win' : process.platform;
  const prefix = platform === 'darwin' && process.arch === 'arm64' ? 'node-bin' : 'node';
  return `${prefix}-${platform}-${process.arch}`;
}
