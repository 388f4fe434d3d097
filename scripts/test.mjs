// Runs the tests, on a fresh clone too, in two tiers by folder:
//   npm test           every promise of README.md, on memory, SQLite and one Redis server: the folders test, without the folders slow in them
//   npm run test:all   the rest: the folders slow, and the suites of stores on Valkey
// A tier's programs are installed first. Arguments go to mocha: npm test -- --grep x, npm test -- test/http.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { ensureBuilt } from './lib/built.mjs';
import { ensureDependencies, ensureSqlite, hasNodeSqlite } from './lib/dependencies.mjs';
import { listFiles, root } from './lib/run.mjs';
import { getPrograms } from './programs.mjs';

/**
 * A run of Mocha: its arguments, its kinds of server, the effort of its random tests, `none` if it leaves SQLite out, and whether it waits for
 * most of its time.
 *
 * @typedef {{ args: string[], servers: string, effort?: string, sqlite?: string, waits?: boolean }} Run
 */

/** Mocha with the option of Node that .mocharc.json sets. Mocha's own program would start a second process for that option. */
const MOCHA = ['--import=./scripts/lib/typescript.mjs', 'node_modules/mocha/lib/cli/cli.js'];

/** The files of a run, about: a new run costs two to three seconds of the processor, and the last run ends alone. */
const QUICK_PER_RUN = 14;
const SLOW_PER_RUN = 6;

/** Suites that loop over the kinds of server. The quick tier runs them on Redis, and random tests search half as long there. */
const SERVER_SUITES = /^test\/(identity|vectors|laws\/|features\/\w+\/([\w-]+-)?law\b)/;

/** Tests of SQLite alone. */
const SQLITE = /\bsqlite\b.*\.test\.ts$/;

/** Tests of SQLite among others. */
const SQLITE_SUITES = /^test\/(admin\/suites|features\/(shares\/shares|slots\/shares|usage))\.test\.ts$/;

/** Parts of the names of the files that take longest, the longest first, so that no long run begins when the others have ended. */
const LONGEST =
  'slots/slow slow/scripts test/laws test/oracle.test together-processes.test combinations slow/package slow/site oracle/servers faults/cluster.test slow/upstash'
    .split(' ')
    .concat('oracle/in-process', 'oracle/postgres', 'dashboard/test/slow/page', 'postgres/suites');

/**
 * Parts of the names of files that wait for nine tenths of their time: for processes that hold slots, or for counts of seconds. One of their
 * runs goes on beside the others, because it hardly needs the processor.
 */
const WAITING = [
  'slots/slow/',
  'slices/slow/',
  'shares/slow/',
  'slow/demo',
  'slow/fetch/',
  'slow/top',
].concat(['cost', 'denied', 'key', 'link', 'notes'].map((name) => `dashboard/test/slow/${name}.`));

/** Suites that repeat on another store what `npm test` searches on memory and Redis. Random tests search less there. */
const REPEATED = /^test\/slow\/(upstash|postgres\/suites)/;
const REPEATED_EFFORT = '0.2';

/** The output of a counterexample: a failure, even if a second run finds none. */
const COUNTEREXAMPLE = /Property failed after|Counterexample/;

const isTest = (/** @type {string} */ file) => file.endsWith('.test.ts');

/**
 * @param {Run} run
 * @param {'inherit' | 'pipe'} output
 */
const mocha = ({ args, servers, effort = '1', sqlite }, output = 'inherit') =>
  spawn(process.execPath, [...MOCHA, ...args], {
    cwd: root,
    stdio: ['ignore', output, output],
    env: {
      ...process.env,
      HEADGATE_SERVERS: servers,
      ...(sqlite && { HEADGATE_SQLITE: sqlite }),
      HEADGATE_RUNS: process.env['HEADGATE_RUNS'] ?? effort,
      // The name of the report's file, so that a second run replaces the report of the first.
      HEADGATE_RUN: `${servers}-${args.at(-1)?.replaceAll('/', '-') ?? 'all'}`,
    },
  });

/**
 * @param {import('node:child_process').ChildProcess} child
 * @returns {Promise<number>} its exit status, or 1 if a signal ended it
 */
const exitStatus = async (child) => Number((await once(child, 'close'))[0] ?? 1);

/**
 * Starts up to `width` runs at once, and one more that waits, each with its own servers. Prints a run's output at the run's end.
 *
 * @param {Run[]} runs
 * @param {number} width
 * @returns {Promise<{ run: Run, text: string }[]>} the failed runs with their output
 */
async function runAtOnce(runs, width) {
  const busy = runs.filter(({ waits }) => !waits);
  const waiting = runs.filter(({ waits }) => waits);
  /** @type {{ run: Run, text: string }[]} */
  const failures = [];
  const next = (/** @type {boolean} */ takesAny) => (takesAny ? busy.shift() : undefined) ?? waiting.shift();
  const work = async (/** @type {boolean} */ takesAny) => {
    for (let run = next(takesAny); run; run = next(takesAny)) {
      const child = mocha(run, 'pipe');
      /** @type {Buffer[]} */
      const output = [];
      for (const stream of [child.stdout, child.stderr])
        stream?.on('data', (/** @type {Buffer} */ chunk) => output.push(chunk));
      const start = performance.now();
      const failed = (await exitStatus(child)) !== 0;
      const seconds = Math.round((performance.now() - start) / 1000);
      const files = run.args.filter(isTest);
      output.push(Buffer.from(`${seconds} s: ${files.join(' ')}\n`));
      const text = Buffer.concat(output).toString();
      if (failed) failures.push({ run, text });
      else process.stdout.write(text);
    }
  };
  const lanes = Array.from({ length: width }, () => true);
  // A width of one is for runs that nothing may disturb.
  if (width > 1) lanes.push(false);
  await Promise.all(lanes.map(work));
  return failures;
}

/**
 * Runs failures again while nothing else runs, because a busy machine delays servers. A test that passes only then is reported as unsteady.
 *
 * @param {{ run: Run, text: string }[]} failures
 * @returns {Promise<number>} the number of runs that failed again
 */
async function runAgain(failures) {
  let count = 0;
  for (const { run, text } of failures) {
    process.stdout.write(`\n${text}`);
    const [second] = COUNTEREXAMPLE.test(text) ? [{ text: '' }] : await runAtOnce([run], 1);
    if (second) {
      count++;
      noteFailure(run, second.text || text);
    }
    console.log(second?.text ?? `UNSTEADY: ${run.args.join(' ')} failed beside others, and passed alone.`);
  }
  return count;
}

/**
 * Adds the end of a failed run's output to the file HEADGATE_FAILED_RUNS, for `.ci/run`: a leak or a file that does not load is in no report.
 *
 * @param {Run} run
 * @param {string} text
 */
function noteFailure({ args }, text) {
  const file = process.env['HEADGATE_FAILED_RUNS'];
  if (file) appendFileSync(file, `FAILED RUN ${args.filter(isTest).join(' ')}\n${text.slice(-2000)}\n`);
}

/**
 * @param {string[]} files
 * @param {number} size of a group, about
 * @returns {string[][]} the files of each run: neighbours, in groups of about the same size
 */
function groupsOf(files, size) {
  const each = Math.ceil(files.length / Math.max(1, Math.round(files.length / size)));
  return files.flatMap((_, i) => (i % each === 0 ? [files.slice(i, i + each)] : []));
}

/**
 * Sorts runs: those of LONGEST, then the others by the size of their files.
 *
 * @param {Run[]} runs
 * @returns {Run[]}
 */
function sorted(runs) {
  const rankOf = (/** @type {Run} */ { args }) =>
    LONGEST.findIndex((part) => args.some((arg) => arg.includes(part))) + 1 || LONGEST.length + 1;
  const sizeOf = (/** @type {Run} */ { args }) =>
    args.filter(isTest).reduce((sum, file) => sum + statSync(join(root, file)).size, 0);
  return runs.sort((a, b) => rankOf(a) - rankOf(b) || sizeOf(b) - sizeOf(a));
}

/**
 * The runs of a tier, in steps that follow each other.
 *
 * @param {boolean} slow
 * @returns {{ runs: Run[], width: number }[]}
 */
function stepsOf(slow) {
  const all = listFiles('test', 'packages/*/test/*').filter(isTest);
  const isSlow = (/** @type {string} */ file) => file.includes('/slow/');
  // On a Node without SQLite, `npm test` leaves SQLite to `npm run test:all`, because its driver is compiled for a minute.
  const isLater = (/** @type {string} */ file) => !hasNodeSqlite && SQLITE.test(file);
  const quick = all.filter((file) => !isSlow(file) && !isLater(file));
  // More runs than cores, because a run waits about half of the time. A run empties its servers, so runs cannot share given servers. Faults go
  // by real time.
  const given = process.env['REDIS_URL'] ?? process.env['VALKEY_URL'];
  const width = given ? 1 : availableParallelism() + 2;
  const faultWidth = given ? 1 : availableParallelism() + 1;
  if (!slow) {
    const run = { servers: 'redis', effort: '0.3', ...(!hasNodeSqlite && { sqlite: 'none' }) };
    const groups = groupsOf(quick, QUICK_PER_RUN);
    return [{ runs: sorted(groups.map((args) => ({ ...run, args }))), width }];
  }
  const servers = 'redis,valkey';
  // `npm test` runs the tests of these files that use neither.
  const suitesOf = (/** @type {string[]} */ args) => ({
    ...{ args: ['-g', '/valkey|sqlite/i', ...args], servers: 'valkey' },
    effort: REPEATED_EFFORT,
  });
  const onSqlite = {
    args: ['-g', '/sqlite/i', ...quick.filter((file) => SQLITE_SUITES.test(file))],
    servers: 'none',
  };
  const folderOf = (/** @type {string} */ file) => /^test\/slow\/(faults|alone)\//.exec(file)?.[1];
  const inFolder = (/** @type {string | undefined} */ folder) => {
    const files = all.filter((file) => (isSlow(file) || isLater(file)) && folderOf(file) === folder);
    const isLong = (/** @type {string} */ file) => LONGEST.some((part) => file.includes(part));
    const waits = (/** @type {string} */ file) => WAITING.some((part) => file.includes(part));
    const short = files.filter((file) => !isLong(file));
    const groups = [
      ...files.filter(isLong).map((file) => [file]),
      ...groupsOf(short.filter(waits), SLOW_PER_RUN),
      ...groupsOf(
        short.filter((file) => !waits(file)),
        SLOW_PER_RUN,
      ),
    ];
    return groups.map((args) => ({
      ...{ args, servers, waits: args.every(waits) },
      effort: args.some((file) => REPEATED.test(file)) ? REPEATED_EFFORT : '0.6',
    }));
  };
  const busy = [
    suitesOf(quick.filter((file) => SERVER_SUITES.test(file))),
    ...(hasNodeSqlite ? [] : [onSqlite]),
    ...inFolder(undefined),
  ];
  return [
    { runs: sorted(busy), width },
    // They run when the busy tests have ended.
    { runs: sorted(inFolder('faults')), width: faultWidth },
    { runs: sorted(inFolder('alone')), width: 1 },
  ];
}

/**
 * @param {boolean} slow
 * @param {string[]} args options for each Mocha
 */
async function runTier(slow, args) {
  const failures = [];
  for (const { runs, width } of stepsOf(slow))
    failures.push(
      ...(await runAtOnce(
        runs.map((run) => ({ ...run, args: [...args, ...run.args] })),
        width,
      )),
    );
  return Math.min(await runAgain(failures), 1);
}

const args = process.argv.slice(2);
const slow = args[0] === '--slow';
if (slow) args.shift();
// Options alone go to each run of the tier (after --each); files or a pattern make one run of Mocha.
const each = args[0] === '--each' ? args.slice(1) : args.length === 0 ? [] : undefined;

ensureDependencies();
const problems =
  slow || !each
    ? getPrograms('redis', 'valkey', 'postgres', 'pgbouncer', 'chromium', 'prometheus')
    : getPrograms('redis');
if (problems.length > 0) {
  console.error(problems.join('\n'));
  process.exit(1);
}
if (!hasNodeSqlite && (slow || !each)) ensureSqlite();
else if (!hasNodeSqlite)
  console.log(`Node ${process.version} has no SQLite: npm run test:all tests it with better-sqlite3.`);
// Several slow tests use the build. Otherwise they would all build at once.
if (slow) ensureBuilt();
process.exitCode = each
  ? await runTier(slow, each)
  : await exitStatus(mocha({ args, servers: process.env['HEADGATE_SERVERS'] ?? 'redis,valkey' }));
