// Which tests may notice a mutant: the files that execute its place. They are measured once, and what was measured is kept.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { listFiles, root } from '../lib/run.mjs';
import { executedIn, isExecuted, placeOf } from './coverage.mjs';
import { mocha } from './mocha.mjs';

/**
 * @typedef {import('./changes.mjs').Mutant} Mutant
 * @typedef {{ hash: string, edges: number[] }} Executed places of one source file, which was this text
 * @typedef {{ hash: string, ms: number, executed: Record<string, Executed> }} Measured
 * @typedef {Record<string, Measured>} Tests by their file
 * @typedef {{ tests: string[], ms: number }} Stage what runs together, and how long it takes
 */

const CACHE = join(root, 'node_modules/.cache/headgate-mutants.json');

/** These run what was built, or nothing of src/ at all. */
const others = /^test\/(demo|docs|house|mutants|package|prometheus|release)\.test\.ts$/;

/** How long the stages may take, ms. What is left then is not run: it notices next to nothing, and takes minutes. */
const stageTimes = [3_000, 10_000, 30_000, 60_000, 60_000];

/** @type {readonly (readonly [place: string, tests: string[]])[]} Lua runs where nobody measures it: the first place counts, and of its tests the first two come first */
const luaTests = [
  ['src/stores/redis/lua/note-bans.lua', ['cli/ban-book', 'cli/bans']],
  ['src/stores/redis/lua/seal-bans.lua', ['cli/ban-book', 'cli/bans']],
  ['src/stores/redis/lua/count.lua', ['cli/top']],
  ['src/stores/redis/lua/publish.lua', ['cli/limits']],
  ['src/stores/redis/lua/check.lua', ['redis/check', 'cli/check', 'redis']],
  ['src/', ['vectors', 'identity', 'redis', 'laws', 'windows', 'bad-input', 'stores', 'features']],
];

/**
 * @param {Mutant} mutant
 * @param {Tests} tests
 * @returns {Stage[]} the quickest and most likely first
 */
export function stagesFor({ file, line, column }, tests) {
  const ordered = file.endsWith('.lua')
    ? namedFor(file, tests)
    : executing(file, placeOf({ line, column }), tests);
  const startUp = Math.min(...Object.values(tests).map(({ ms }) => ms));
  /** @type {Stage[]} */
  const stages = [];
  let stage = stages[0];
  for (const test of ordered) {
    const ms = (tests[test]?.ms ?? 0) - startUp;
    if (!stage || stage.ms + ms > Number(stageTimes[stages.length - 1])) {
      if (stages.length === stageTimes.length) break;
      stages.push((stage = { tests: [], ms: startUp }));
    }
    stage.tests.push(test);
    stage.ms += ms;
  }
  return stages;
}

/**
 * @param {string} file
 * @param {Tests} tests
 */
function namedFor(file, tests) {
  const names = luaTests.find(([place]) => file.startsWith(place))?.[1] ?? [];
  const quickFirst = Object.keys(tests).sort((a, b) => (tests[a]?.ms ?? 0) - (tests[b]?.ms ?? 0));
  const of = (/** @type {string[]} */ some) =>
    quickFirst.filter((test) =>
      some.some((name) => test === `test/${name}.test.ts` || test.startsWith(`test/${name}/`)),
    );
  return [...new Set([...of(names.slice(0, 2)), ...of(names)])];
}

/**
 * The tests that execute a place. First come those of its name, that run quickly, that execute much of its file, and little else.
 * @param {string} file
 * @param {number} place
 * @param {Tests} tests
 */
function executing(file, place, tests) {
  const hash = hashOf(file);
  const most = Math.max(...Object.values(tests).map((test) => linesOf(test, file)));
  return Object.entries(tests)
    .flatMap(([test, measured]) => {
      const here = measured.executed[file];
      // The places have moved since it was measured: the file must do.
      if (!here || (here.hash === hash && !isExecuted(here.edges, place))) return [];
      const lines = Math.max(1, linesOf(measured, file));
      const all = Object.keys(measured.executed).reduce((sum, each) => sum + linesOf(measured, each), 0);
      const likely = Math.sqrt(lines / all) * (lines / most) ** 2 * (nameOf(test) === nameOf(file) ? 10 : 1);
      return [{ test, cost: measured.ms / likely }];
    })
    .sort((a, b) => a.cost - b.cost)
    .map(({ test }) => test);
}

/** @param {string} file */
const nameOf = (file) => basename(file).split('.')[0];

/**
 * How many lines of a file a test executes.
 * @param {Measured} test
 * @param {string} file
 */
function linesOf({ executed }, file) {
  const edges = executed[file]?.edges ?? [];
  let places = 0;
  for (let i = 0; i < edges.length; i += 2) places += (edges[i + 1] ?? endOf(file)) - Number(edges[i]);
  return places / placeOf({ line: 1, column: 0 });
}

/** @type {Map<string, number>} */
const ends = new Map();

/** @param {string} file */
function endOf(file) {
  const known = ends.get(file);
  if (known !== undefined) return known;
  const path = join(root, file);
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n').length : 0;
  const end = placeOf({ line: lines, column: 0 });
  ends.set(file, end);
  return end;
}

/**
 * Measures the tests that are new or have changed, each file alone. One that fails even without a mutant is left out.
 * @param {boolean} anew measure all of them
 * @param {number} workers
 * @returns {Promise<Tests>}
 */
export async function measuredTests(anew, workers) {
  const files = listFiles('test').filter((file) => /\.test\.ts$/.test(file) && !others.test(file));
  const known = anew ? {} : cached();
  /** @type {Tests} */
  const tests = {};
  /** @type {string[]} */
  const unknown = [];
  for (const file of files) {
    const test = known[file];
    if (test?.hash === hashOf(file)) tests[file] = test;
    else unknown.push(file);
  }
  const work = async () => {
    for (let file = unknown.pop(); file; file = unknown.pop()) {
      const test = await measure(file);
      console.error(`${test ? `${Math.round(test.ms)} ms`.padEnd(9) : 'FAILS    '} ${file}`);
      if (!test) continue;
      tests[file] = test;
      mkdirSync(dirname(CACHE), { recursive: true });
      writeFileSync(CACHE, JSON.stringify({ ...known, ...tests }));
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
  return tests;
}

/** @returns {Tests} */
function cached() {
  try {
    /** @type {Tests} */
    const tests = JSON.parse(readFileSync(CACHE, 'utf8'));
    return tests;
  } catch {
    return {};
  }
}

/**
 * @param {string} test
 * @returns {Promise<Measured | undefined>} nothing if it fails twice
 */
async function measure(test, again = true) {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-coverage-'));
  try {
    const hash = hashOf(test);
    const start = performance.now();
    const { status } = await mocha(root, [test], 600_000, { NODE_V8_COVERAGE: folder });
    const ms = performance.now() - start;
    if (status !== 0) return again ? await measure(test, false) : undefined;
    /** @type {Record<string, Executed>} */
    const executed = {};
    for (const [file, edges] of Object.entries(executedIn(folder)))
      executed[file] = { hash: hashOf(file), edges };
    return { hash, ms, executed };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** @param {string} file */
export const hashOf = (file) =>
  createHash('sha1')
    .update(readFileSync(join(root, file)))
    .digest('base64');
