// Runs every gate and, with --tests, first the tests. Failures show their output. Failed tests are shown again at the end, because their
// own output is thousands of lines before the end. The last line counts gates and tests.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { ensureDependencies } from './lib/dependencies.mjs';
import { root, run } from './lib/run.mjs';

/** The longest first. One more goes on than there are cores, because test:nodes waits; those with a comma build the package, so they take turns. */
const gates = `lint test:nodes format:check package:check,goals docs:api:check types
  imports unused lua:check`.split(/\s+/);

ensureDependencies();
const count = { passed: 0, failed: 0 };
/** @type {string[]} */
const failures = [];
if (process.argv.includes('--tests')) {
  runTests('npm test');
  runTests('npm run test:all', '--slow');
}
await Promise.all(Array.from({ length: availableParallelism() + 1 }, runGates));
for (const failure of failures) console.log(failure);
console.log(`${count.passed} passed, ${count.failed} failed`);
process.exit(count.failed === 0 ? 0 : 1);

async function runGates() {
  for (let names = gates.shift(); names; names = gates.shift())
    for (const name of names.split(',')) await runGate(name);
}

/** @param {string} name */
async function runGate(name) {
  const start = performance.now();
  const child = spawn(`npm run --silent ${name} 2>&1`, {
    ...{ cwd: root, shell: true, stdio: ['ignore', 'pipe', 'inherit'] },
  });
  const [output, [status]] = await Promise.all([text(child.stdout), once(child, 'close')]);
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  if (status !== 0) console.log(output);
  report(status === 0, `${name} (${seconds} s)`);
}

/**
 * @param {string} name
 * @param {...string} tier
 */
function runTests(name, ...tier) {
  const start = performance.now();
  const directory = mkdtempSync(join(tmpdir(), 'headgate-check-'));
  const failedRuns = join(directory, 'failed-runs.txt');
  const status = run(
    process.execPath,
    [
      ...['scripts/test.mjs', ...tier, '--each', '--forbid-only', '--forbid-pending'],
      ...['--reporter', 'scripts/lib/reporter.cjs', '--reporter-option', `output=${directory}`],
    ],
    { HEADGATE_FAILED_RUNS: failedRuns },
  );
  const failedBefore = count.failed;
  for (const file of readdirSync(directory).filter((name) => name.endsWith('.json'))) {
    /** @type {{ stats: { passes: number, failures: number }, failures: { fullTitle: string, err: { stack?: string } }[] }} */
    const result = JSON.parse(readFileSync(join(directory, file), 'utf8'));
    count.passed += result.stats.passes;
    count.failed += result.stats.failures;
    failures.push(...result.failures.map(({ fullTitle, err }) => `FAIL ${fullTitle}\n${err.stack ?? ''}`));
  }
  if (count.failed === failedBefore && existsSync(failedRuns))
    failures.push(readFileSync(failedRuns, 'utf8'));
  rmSync(directory, { recursive: true });
  console.log(`${name} took ${Math.round((performance.now() - start) / 1000)} s`);
  // No test failed, but there is another reason: a file does not load, or there is a leak.
  if (status !== 0 && count.failed === failedBefore) report(false, `${name} (exit ${status})`);
}

/**
 * @param {boolean} passed
 * @param {string} name of the gate or of the tests
 */
function report(passed, name) {
  count[passed ? 'passed' : 'failed'] += 1;
  console.log(`${passed ? 'ok  ' : 'FAIL'} ${name}`);
  if (!passed) failures.push(`FAIL ${name}`);
}
