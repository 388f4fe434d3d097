// npm test, on a fresh clone too: dependencies, servers, a browser, Prometheus, mocha. Arguments go to mocha: npm test -- --grep x.
// Without a file or a pattern up to two runs go on at once (--all: also with the arguments that follow).
// npm run test:unit (--unit): what needs no server, browser, build or example; installs nothing but dependencies.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { PassThrough } from 'node:stream';
import { ensureDependencies } from './lib/dependencies.mjs';
import { root } from './lib/run.mjs';
import { getPrograms } from './programs.mjs';

/** What cannot do without servers, or starts processes, or takes long. */
const notUnit = `
  cli/{administration,ban-book,bans,check,choosing-limits,connection,hash-keys,limits,list,process,replay,state-keys,suggest,tiers,top}
  compat/* compatibility/* docs demo examples faults/* features/{decorators-examples,lines,observability} house
  http/{conformance,connections,nestjs,proxies,security,turn} identity laws/many-policies memory mutants package prometheus redis/*
  release resources store-down testing/adapter-checks
`;

/** About half of what needs no real time. It starts processes or has its own clock, so it may go on beside the other half. */
const beside = 'demo docs examples house identity laws/* mutants package prometheus release';

/** These go by real time, so they come when the others have ended. Clusters are about half of them, and mostly wait. */
const faults = 'faults/*';
const clusters = 'faults/cluster faults/cluster-dimensions faults/half-open faults/sentinel';

/** What a busy machine could disturb: these have it for themselves. */
const alone = 'faults/busy faults/cluster-node';

/** @param {string} names */
const filesOf = (names) =>
  names
    .trim()
    .split(/\s+/)
    .map((name) => `test/${name}.test.ts`);

/** @param {string} names */
const without = (names) => filesOf(names).flatMap((file) => ['--ignore', file]);

/**
 * @param {string[]} args
 * @param {'inherit' | 'pipe'} output
 */
const mocha = (args, output = 'inherit') =>
  spawn(process.execPath, ['node_modules/mocha/bin/mocha.js', ...args], {
    cwd: root,
    stdio: ['ignore', output, output],
  });

/**
 * @param {import('node:child_process').ChildProcess} child
 * @returns {Promise<number>} its exit status; 1 if a signal ended it
 */
const end = async (child) => Number((await once(child, 'close'))[0] ?? 1);

/** Runs of Mocha at once. What the second prints follows the first. @param {string[][]} runs */
async function atOnce([args = [], ...others]) {
  const first = end(mocha(args));
  const held = new PassThrough({ highWaterMark: 2 ** 30 });
  const ended = others.map((more) => {
    const run = mocha(more, 'pipe');
    for (const stream of [run.stdout, run.stderr]) stream?.pipe(held, { end: false });
    return end(run);
  });
  const statuses = [await first];
  held.pipe(process.stdout);
  return Math.max(...statuses, ...(await Promise.all(ended)));
}

/** All tests, in three steps. @param {string[]} args */
async function runAll(args) {
  const steps = [
    [without(`${beside} ${faults}`), filesOf(beside)],
    [filesOf(clusters), [...filesOf(faults), ...without(`${clusters} ${alone}`)]],
    [filesOf(alone)],
  ];
  let status = 0;
  for (const runs of steps) status = Math.max(status, await atOnce(runs.map((run) => [...args, ...run])));
  return status;
}

const args = process.argv.slice(2);
const unit = args[0] === '--unit';
if (unit) {
  const jobs = String(Math.max(2, availableParallelism()));
  // Only the tests of servers need to run one after the other.
  args.splice(0, 1, '--parallel', '--jobs', jobs, ...without(notUnit));
  // Random tests search half as long, so that there is an answer in seconds.
  process.env['HEADGATE_SERVERS'] = 'none';
  process.env['HEADGATE_RUNS'] ??= '0.5';
}

ensureDependencies();
const problems = unit ? [] : getPrograms('redis', 'valkey', 'chromium', 'prometheus');
if (problems.length > 0) {
  console.error([...problems, 'npm run test:unit needs none of these.'].join('\n'));
  process.exit(1);
}
// Two runs cannot share servers that they are given, because each removes all keys.
const given = process.env['REDIS_URL'] ?? process.env['VALKEY_URL'];
const twice = !given && availableParallelism() > 1;
const all = args[0] === '--all' ? args.slice(1) : args.length === 0 ? args : undefined;
process.exitCode = all && twice ? await runAll(all) : await end(mocha(all ?? args));
