// npm run mutants:lua: checks that the tests notice mistakes. Draws small changes of the Lua in src/, applies each change to a copy of the
// tree, and runs the tests of the changed file.
// HEADGATE_MUTANTS=50 HEADGATE_SEED=1 npm run mutants:lua -- [src/algorithms] [src/algorithms/gcra.lua:92]
import { readFileSync } from 'node:fs';
import { setPriority } from 'node:os';
import { join } from 'node:path';
import { listFiles, root } from './lib/run.mjs';
import { getPrograms } from './programs.mjs';
import { testsOf, Tree } from './mutants/judge.js';
import { mutateLua } from './mutants/lua.js';
import { isDrawn } from './mutants/sample.mjs';

const problems = getPrograms('redis', 'valkey');
if (problems.length > 0) throw new Error(problems.join('\n'));
// Other work on this machine goes first.
setPriority(10);
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(130));

const [only = 'src/', line] = (process.argv[2] ?? '').split(':');
const drawn = listFiles('src')
  .filter((file) => file.endsWith('.lua') && file.startsWith(only))
  .flatMap((file) => mutateLua(file, readFileSync(join(root, file), 'utf8')))
  .filter((mutant) => line === undefined || mutant.line === Number(line))
  .filter(({ file, start, end, to }) => isDrawn(`${file} ${start} ${end} ${to}`));

const tree = new Tree();
const count = { killed: 0, survived: 0, 'timed out': 0 };
for (const mutant of drawn) {
  const { verdict, by } = await tree.judge(mutant, testsOf(mutant.file), 300_000);
  count[verdict]++;
  console.log(
    `${verdict.padEnd(9)} ${mutant.file}:${mutant.line} ${mutant.operator}: ${mutant.to || '(nothing)'} ${by && `(${by})`}`,
  );
}
tree.remove();
console.log(
  Object.entries(count)
    .map(([verdict, number]) => `${number} ${verdict}`)
    .join(', '),
);
