// Runs tests in a process group of their own: what does not end in time is ended with all that it has started.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from '../lib/run.mjs';

/**
 * @typedef {{ fullTitle: string, file: string, err: { code?: string } }} Failure of a test
 * @typedef {object} Ran
 * @property {number | null} status null: it took too long, or all memory
 * @property {Failure[]} failures
 * @property {string} output the end of it
 */

/** Mocha in the process that loads it: its usual program starts a second one. It runs only by its real path. */
const MOCHA = realpathSync(join(root, 'node_modules/mocha/lib/cli/cli.js'));

const { 'node-option': nodeOptions } = /** @type {{ 'node-option': string[] }} */ (
  JSON.parse(readFileSync(join(root, '.mocharc.json'), 'utf8'))
);

/** @type {Set<number>} */
const groups = new Set();
process.once('exit', () => groups.forEach(end));

/** @param {number} group */
const end = (group) => process.kill(-group, 'SIGKILL');

/**
 * @param {string} folder of the tree
 * @param {readonly string[]} args what Mocha is to run
 * @param {number} limit ms
 * @param {NodeJS.ProcessEnv} [added] to the environment
 * @returns {Promise<Ran>}
 */
export async function mocha(folder, args, limit, added) {
  const scratch = mkdtempSync(join(tmpdir(), 'headgate-mocha-'));
  const report = join(scratch, 'report.json');
  // The tests start their own servers: those of the developer are none to try mutants on.
  const { REDIS_URL: _redis, VALKEY_URL: _valkey, ...env } = process.env;
  const node = [...nodeOptions.map((option) => `--${option}`), MOCHA];
  const reporter = ['--reporter', 'scripts/mutants/reporter.cjs', '--reporter-option', `output=${report}`];
  const child = spawn(process.execPath, [...node, ...reporter, ...args], {
    cwd: folder,
    env: { ...env, ...added },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const group = child.pid ?? 0;
  groups.add(group);
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text) => (output = (output + text).slice(-2_000)));
  const timer = setTimeout(() => end(group), limit);
  const status = await new Promise((/** @type {(status: number | null) => void} */ resolve) =>
    child.once('close', resolve),
  );
  clearTimeout(timer);
  groups.delete(group);
  const reported = status !== null && existsSync(report);
  if (status === 0 && !reported) throw new Error(`Mocha has not run ${args.join(' ')}: ${output}`);
  /** @type {{ failures: Failure[] }} */
  const { failures } = reported ? JSON.parse(readFileSync(report, 'utf8')) : { failures: [] };
  rmSync(scratch, { recursive: true, force: true });
  return { status, failures, output };
}
