// Do the tests notice? Applies wrong versions of the algorithms and scripts, one at a time, to a copy of the tree and runs the
// tests of decisions against it. Each must turn one red: the table of which is printed, and kept in docs/testing.md.
//   npm run mutants [-- word ...]   only those whose file or description has one of the words
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from './lib/run.mjs';
import { mutants } from './mutants/list.mjs';
import { ensureServers } from './servers.mjs';

/** In the order in which they are run, until one fails: few mutants outlive the vectors. */
const stages = [
  ['vectors'],
  ['laws/life', 'laws/clock', 'laws/charge', 'identity', 'laws/keys'],
  ['laws/denied-keys', 'redis/denials'],
  ['laws/page', 'laws/memory'],
  ['stores', 'windows', 'features/live-change', 'bad-input', 'laws/bound', 'laws/retry'],
].map((names) => names.map((name) => `test/${name}.test.ts`));

/**
 * @typedef {{ file: string, from: string, to: string, what: string }} Mutant
 * @typedef {{ mutant: Mutant, killer: string | undefined }} Outcome
 */

ensureServers();
const words = process.argv.slice(2);
const chosen = Object.entries(mutants)
  .flatMap(([file, list]) => list.map(([from, to, what]) => ({ file, from, to, what })))
  .filter(({ file, what }) => words.length === 0 || words.some((word) => `${file} ${what}`.includes(word)));

const stale = chosen.filter(
  ({ file, from }) => readFileSync(join(root, file), 'utf8').split(from).length !== 2,
);
if (stale.length > 0) {
  for (const { file, from, what } of stale) console.error(`${file}: "${what}" must match once: ${from}`);
  process.exit(2);
}

/** @type {Outcome[]} */
const outcomes = [];
const queue = [...chosen];
await Promise.all(Array.from({ length: Math.min(availableParallelism(), queue.length) }, worker));

outcomes.sort((a, b) => chosen.indexOf(a.mutant) - chosen.indexOf(b.mutant));
console.log('\n| file | mutant: killed by |\n|---|---|');
for (const file of new Set(chosen.map((mutant) => mutant.file))) {
  const cells = outcomes
    .filter(({ mutant }) => mutant.file === file)
    .map(({ mutant, killer }) => `${mutant.what}: ${killer ? suiteOf(killer) : '**nothing**'}`);
  console.log(`| \`${file.replace('src/', '')}\` | ${cells.join('<br>')} |`);
}
const survivors = outcomes.filter(({ killer }) => killer === undefined);
console.log(`\n${outcomes.length - survivors.length} killed, ${survivors.length} survived`);
process.exit(survivors.length === 0 ? 0 : 1);

/** @param {string} title of a test */
function suiteOf(title) {
  return /^(vectors|law \d+|windows|bad input)/.exec(title)?.[0] ?? 'conformance';
}

async function worker() {
  const tree = mkdtempSync(join(tmpdir(), 'headgate-mutants-'));
  try {
    for (const name of [
      'src',
      'test',
      'scripts',
      'package.json',
      'tsconfig.json',
      '.mocharc.json',
      '.prettierrc.json',
    ])
      cpSync(join(root, name), join(tree, name), { recursive: true });
    symlinkSync(join(root, 'node_modules'), join(tree, 'node_modules'));
    for (let mutant = queue.shift(); mutant; mutant = queue.shift()) {
      const restore = apply(tree, mutant);
      let killer;
      for (const tests of stages) killer ??= await runTests(tree, tests);
      restore();
      outcomes.push({ mutant, killer });
      console.error(
        `${killer ? 'killed  ' : 'SURVIVED'} ${mutant.file}: ${mutant.what}${killer ? ` (${killer})` : ''}`,
      );
    }
  } finally {
    rmSync(tree, { recursive: true });
  }
}

/**
 * Returns what undoes it.
 * @param {string} tree
 * @param {Mutant} mutant
 */
function apply(tree, { file, from, to, what }) {
  const path = join(tree, file);
  const source = readFileSync(path, 'utf8');
  const write = (/** @type {string} */ text) => {
    writeFileSync(path, text);
    if (!file.endsWith('.lua')) return;
    const { status, stderr } = spawnSync(process.execPath, ['scripts/lua.mjs', 'build'], {
      cwd: tree,
      encoding: 'utf8',
    });
    if (status !== 0) throw new Error(`${file}: "${what}" does not build: ${stderr}`);
  };
  write(source.replace(from, () => to));
  return () => write(source);
}

/**
 * The first test that fails, if any.
 * @param {string} tree
 * @param {string[]} tests
 * @returns {Promise<string | undefined>}
 */
function runTests(tree, tests) {
  return new Promise((resolve, reject) => {
    const args = ['node_modules/mocha/bin/mocha.js', '--bail', '--reporter', 'json', ...tests];
    const child = spawn(process.execPath, args, { cwd: tree, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    let errors = '';
    child.stdout.setEncoding('utf8').on('data', (text) => (output += text));
    child.stderr.setEncoding('utf8').on('data', (text) => (errors += text));
    child.once('close', (status) => {
      if (status === 0) return resolve(undefined);
      /** @type {{ failures: { fullTitle: string }[] } | undefined} */
      const report = output.startsWith('{') ? JSON.parse(output) : undefined;
      const failure = report?.failures[0];
      if (failure) resolve(failure.fullTitle);
      else reject(new Error(`The tests did not run:\n${output.slice(-2000)}${errors.slice(-2000)}`));
    });
  });
}
