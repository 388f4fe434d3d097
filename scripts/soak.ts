// npm run soak: tests that take too long for npm test. Prints their counts, and exits with 1 if a promise was broken.
//   npm run soak [memory] [faults] [fuzz] [dimensions] [mixed] [sqlite] [oracle]     default: all but the oracle
//   npm run soak dimensions -- --steps 1000000 --engine redis      the steps on each engine: memory, redis, valkey, slotBy, acrossSlots
//   npm run soak sqlite -- --minutes 10                on a Node with node:sqlite
//   npm run soak oracle                               random sites against the model, on every store in turn, until it is stopped (or -- --minutes 60)
//   npm run soak mixed -- --minutes 60 --from 1       the length of the mixed faults, and the number of the first round
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { flood } from '../test/slow/faults/flood.js';

const MEGABYTE = 2 ** 20;
const { positionals: chosen, values } = parseArgs({
  allowPositionals: true,
  options: {
    minutes: { type: 'string' },
    from: { type: 'string', default: '1' },
    steps: { type: 'string', default: '1000000' },
    engine: { type: 'string' },
  },
});
const runs = (part: string): boolean => (chosen.length === 0 && part !== 'oracle') || chosen.includes(part);
let broken = 0;
let done = false;

// A promise never resolves, and nothing else keeps the process alive.
process.on('beforeExit', () => {
  if (!done) promise(false, 'the soak was answered to its end');
  process.exitCode = broken === 0 ? 0 : 1;
});

function promise(kept: boolean, what: string): void {
  console.log(`${kept ? 'ok  ' : 'FAIL'} ${what}`);
  if (!kept) broken++;
}

function mocha(environment: Record<string, string>, ...args: string[]): boolean {
  const { status } = spawnSync(
    process.execPath,
    ['node_modules/mocha/bin/mocha.js', '--timeout', '600000', ...args],
    {
      stdio: 'inherit',
      env: { ...process.env, ...environment },
    },
  );
  return status === 0;
}

if (runs('memory')) {
  const { decisions, heaps, keys, stillDenied, stillBanned, longestPause, perSecond } = await flood(
    10_000_000,
    1_000_000,
  );
  const megabytes = heaps.map((bytes) => Math.round(bytes / MEGABYTE));
  console.log(
    `${decisions} decisions over ever new keys, ${Math.round(perSecond)} a second; ${keys} keys kept; ` +
      `heap ${megabytes.join(', ')} MB at the quarters; longest pause ${longestPause.toFixed(1)} ms`,
  );
  promise(stillDenied && stillBanned, 'the denied key and the banned key are not freed');
  promise(heaps.at(-1)! < heaps[0]! * 1.05 + MEGABYTE, 'the heap is flat');
}

if (runs('faults')) {
  const files = ['server', 'sentinel', 'cluster', 'resend'].map((name) => `test/slow/faults/${name}.test.ts`);
  for (let round = 1; round <= 5; round++) {
    const passed = mocha({ HEADGATE_REPORT: '1' }, ...files);
    promise(passed, `faults, round ${round}`);
  }
}

if (runs('fuzz')) {
  const files = [
    'test/slow/faults/fuzz.test.ts',
    'test/compatibility/compatibility.test.ts',
    'test/identity.test.ts',
  ];
  promise(
    mocha({ HEADGATE_RUNS: '100', HEADGATE_SEEDS: 'new' }, ...files),
    'random bytes, and random traces, a hundred times as many',
  );
}

if (runs('dimensions')) {
  const { playDimensions } = await import('../test/slow/faults/dimensions.js');
  await playDimensions(Number(values.steps), values.engine, ({ engine, steps, seconds, broken }) => {
    const sum = Object.values(steps).reduce((a, b) => a + b, 0);
    console.log(`${engine}: ${sum} steps in ${seconds} s: ${JSON.stringify(steps)}`);
    for (const each of broken) console.log(each);
    promise(broken.length === 0, `policies by several dimensions on ${engine}`);
  });
}

if (runs('mixed')) {
  const { mixed } = await import('../test/slow/faults/mixed.js');
  const { broken, ...counts } = await mixed(Number(values.minutes ?? 60), Number(values.from), (line) =>
    console.log(line),
  );
  console.table(counts);
  promise(broken.length === 0, `mixed faults and hostile clients: ${broken.length} promises broken`);
  promise(counts.heapGrowth < 8 * MEGABYTE, 'the heap does not grow from round to round');
}

if (runs('sqlite')) {
  const { filled, killed } = await import('../test/sqlite/soak.js');
  const minutes = Number(values.minutes ?? 10);
  const counts = await killed(minutes);
  console.table(counts);
  promise(counts.overAdmitted === 0, 'SQLite: nothing is admitted above a limit');
  promise(counts.lost === 0, 'SQLite: no admitted unit is lost');
  promise(counts.unlogged >= 0 && counts.unlogged <= counts.maxUnlogged, 'SQLite: no other unit is charged');
  promise(counts.integrity === 'ok', 'SQLite: the file is sound');
  const { keys, perSecond, files, logs } = await filled(10_000_000, 20);
  const megabytes = (sizes: readonly number[]): string => sizes.map((size) => size.toFixed(1)).join(', ');
  console.log(
    `${keys} keys, ${Math.round(perSecond)} a second; at each tenth the file has ${megabytes(files)} MB, its log ${megabytes(logs)} MB`,
  );
  promise(
    files.at(-1)! < 1.3 * files[2]! + 1,
    'SQLite: the file does not grow with the keys that there have been',
  );
  promise(Math.max(...logs) < 32, 'SQLite: its log stays short');
}

if (runs('oracle')) {
  const { soak } = await import('../test/oracle/run.js');
  const found = await soak(Number(values.minutes ?? Infinity), (line) => console.log(line));
  promise(found === undefined, found ?? 'every answer is that of the model');
}

done = true;
