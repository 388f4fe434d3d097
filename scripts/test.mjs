// npm test, on a fresh clone too: dependencies, servers, a browser, Prometheus, mocha. Arguments go to mocha: npm test -- --grep x.
// Without a file or a pattern several runs go on at once (--all: also with the arguments that follow).
// npm run test:unit (--unit): what needs no server, browser, build or example; installs nothing but dependencies.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { dirname } from 'node:path';
import { ensureDependencies } from './lib/dependencies.mjs';
import { listFiles, root } from './lib/run.mjs';
import { getPrograms } from './programs.mjs';

/** What cannot do without servers, or starts processes, or takes long. */
const notUnit = `
  cli/{addresses,administration,ban-book,bans,check,choosing,connection,hash-keys,limits,list,overrides,process,replay,state-keys,suggest,tiers,top}
  compat/* compatibility/* docs demo examples faults/* features/{decorators-examples,fake-timers,lines,observability} house
  http/{conformance,connections,nestjs,proxies,security,turn} identity laws/many-policies memory mutants package prometheus redis/*
  release resources slow/**/* sqlite/* store-down testing/adapter-checks
`;

/** These go by real time, so they come when the others have ended. */
const faults = 'test/faults/';

/** What a busy machine could disturb: these come last, one after the other. */
const alone = 'faults/busy faults/cluster-node';

/** What takes longest, longest first: files, each a run of its own, and folders. So no long run begins when all others have ended. */
const long = `
  test/package test test/laws test/cli test/features test/redis test/http test/mutants test/docs test/testing test/examples test/fetch
  test/identity test/cli/top test/cli/connection test/compat/fastify-rate-limit
  test/faults test/faults/cluster test/faults/server test/faults/half-open test/faults/health test/faults/sentinel
`;

/** @param {string} names */
const filesOf = (names) => (names.match(/\S+/g) ?? []).map((name) => `test/${name}.test.ts`);

/** What a counterexample prints. It is a failure, whatever a second run finds. */
const PROOF = /Property failed after|Counterexample/;

/**
 * @param {string[]} args
 * @param {'inherit' | 'pipe'} output
 */
const mocha = (args, output = 'inherit') =>
  spawn(process.execPath, ['node_modules/mocha/bin/mocha.js', ...args], {
    cwd: root,
    stdio: ['ignore', output, output],
    // Names the reporter's file, so that a second run replaces the report of the first.
    env: { ...process.env, HEADGATE_RUN: args.at(-1)?.replaceAll('/', '-') ?? 'all' },
  });

/**
 * @param {import('node:child_process').ChildProcess} child
 * @returns {Promise<number>} its exit status; 1 if a signal ended it
 */
const end = async (child) => Number((await once(child, 'close'))[0] ?? 1);

/**
 * Runs of Mocha, each with servers of its own, and so many at once. What one prints comes when it has ended.
 *
 * @param {string[][]} runs the arguments of each
 * @param {number} width
 * @returns {Promise<{ run: string[], text: string }[]>} those that failed, and what they have printed
 */
async function atOnce(runs, width) {
  const waiting = [...runs];
  /** @type {{ run: string[], text: string }[]} */
  const failures = [];
  const work = async () => {
    for (let run = waiting.shift(); run; run = waiting.shift()) {
      const child = mocha(run, 'pipe');
      /** @type {Buffer[]} */
      const said = [];
      for (const stream of [child.stdout, child.stderr])
        stream?.on('data', (/** @type {Buffer} */ chunk) => said.push(chunk));
      const began = performance.now();
      const failed = (await end(child)) !== 0;
      const files = run.filter((file) => file.startsWith('test/'));
      const took = `${Math.round((performance.now() - began) / 1000)} s: ${files[0]} and ${files.length - 1} more files\n`;
      said.push(Buffer.from(took));
      if (failed) failures.push({ run, text: `\n${run.join(' ')}:\n${Buffer.concat(said).toString()}` });
      else process.stdout.write(Buffer.concat(said));
    }
  };
  await Promise.all(Array.from({ length: width }, work));
  return failures;
}

/**
 * Runs for some test files: by their folder, but for the long ones.
 *
 * @param {string[]} files
 */
function runsOf(files) {
  /** @type {Map<string, string[]>} */
  const runs = new Map(long.match(/\S+/g)?.map((name) => [name, []]));
  for (const file of files) {
    const name = file.slice(0, -'.test.ts'.length);
    const run = runs.has(name) ? name : dirname(file);
    runs.set(run, [...(runs.get(run) ?? []), file]);
  }
  return [...runs.values()].filter((run) => run.length > 0);
}

/**
 * Runs again what failed, now that nothing else runs: a machine that others keep busy delays servers. Says what passes only then.
 *
 * @param {{ run: string[], text: string }[]} failures
 * @returns how many of them failed again
 */
async function runAgain(failures) {
  let count = 0;
  for (const { run, text } of failures) {
    process.stdout.write(text);
    const [still] = PROOF.test(text) ? [{ text: '' }] : await atOnce([run], 1);
    if (still) count++;
    console.log(still?.text ?? `UNSTEADY: ${run.at(-1)} failed beside others, and passed alone.`);
  }
  return count;
}

/** All tests, in steps. @param {string[]} args */
async function runAll(args) {
  const last = filesOf(alone);
  const files = listFiles('test').filter((file) => file.endsWith('.test.ts') && !last.includes(file));
  const [slow, others] = [true, false].map((is) => files.filter((file) => file.startsWith(faults) === is));
  // More at once than cores, as about half of a run is waiting.
  const width = availableParallelism() + 1;
  const failures = [];
  const steps = [runsOf(others ?? []), runsOf(slow ?? []), ...last.map((file) => [[file]])];
  for (const runs of steps)
    failures.push(
      ...(await atOnce(
        runs.map((run) => [...args, ...run]),
        width,
      )),
    );
  return Math.min(await runAgain(failures), 1);
}

const args = process.argv.slice(2);
const unit = args[0] === '--unit';
if (unit) {
  const jobs = String(Math.max(2, availableParallelism()));
  // Only the tests of servers need to run one after the other.
  args.splice(0, 1, '--parallel', '--jobs', jobs, ...filesOf(notUnit).flatMap((file) => ['--ignore', file]));
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
// Several runs cannot share servers that they are given, because each removes all keys.
const given = process.env['REDIS_URL'] ?? process.env['VALKEY_URL'];
const several = !given && availableParallelism() > 1;
const all = args[0] === '--all' ? args.slice(1) : args.length === 0 ? args : undefined;
process.exitCode = all && several ? await runAll(all) : await end(mocha(all ?? args));
