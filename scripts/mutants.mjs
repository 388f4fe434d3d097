// Do the tests notice? Takes small changes of src/ at random, applies each to a copy of the tree and runs the tests that execute it.
//   npm run mutants -- [--seed 1] [--count 60] [--only src/stores] [--only src/limiter/waiting/queue.ts:92] [--workers 2] [--measure]
import { availableParallelism, setPriority } from 'node:os';
import { parseArgs } from 'node:util';
import { getPrograms } from './programs.mjs';
import { describeMutant } from './mutants/changes.mjs';
import { compiler } from './mutants/compiles.mjs';
import { Tree } from './mutants/judge.mjs';
import { allMutants, shuffled } from './mutants/sample.mjs';
import { measuredTests, stagesFor } from './mutants/tests.mjs';

/** @typedef {import('./mutants/judge.mjs').Outcome} Outcome */

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    count: { type: 'string', default: '60' },
    only: { type: 'string' },
    workers: { type: 'string', default: String(availableParallelism()) },
    measure: { type: 'boolean', default: false },
  },
});
const [seed, count, workers] = [values.seed, values.count, values.workers].map((text) => {
  if (!/^[1-9]\d{0,8}$/.test(text))
    throw new Error(`--seed, --count and --workers are whole numbers: ${text}`);
  return Number(text);
});

const problems = getPrograms('redis', 'valkey');
if (problems.length > 0) throw new Error(problems.join('\n'));
// Whoever works on this machine meanwhile goes first.
setPriority(10);
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(130));

const tests = await measuredTests(values.measure, workers ?? 1);
const drawn = shuffled(allMutants(values.only), seed ?? 1);
const compiles = compiler();
let [position, taken, notCompiled] = [0, 0, 0];

/** @type {{ at: number, outcome: Outcome }[]} */
const judged = [];
await Promise.all(Array.from({ length: workers ?? 1 }, work));

const outcomes = judged.sort((a, b) => a.at - b.at).map(({ outcome }) => outcome);
const having = (/** @type {string} */ verdict) => outcomes.filter((outcome) => outcome.verdict === verdict);
for (const verdict of ['timed out', 'survived']) {
  for (const { mutant, by } of having(verdict))
    console.log(`${verdict}: ${describeMutant(mutant)}${by && ` (${by})`}`);
}
const killed = having('killed').length;
console.log(
  `Seed ${seed}, ${outcomes.length} of ${drawn.length} mutants: ${killed} killed, ${having('survived').length} survived, ` +
    `${having('timed out').length} timed out; ${notCompiled} more did not compile. ` +
    `Score: ${outcomes.length === 0 ? '-' : ((100 * killed) / outcomes.length).toFixed(1)} %`,
);

/** Judges one mutant after the other, in a tree of its own. */
async function work() {
  const tree = new Tree();
  try {
    for (let next = draw(); next; next = draw()) {
      const start = performance.now();
      const outcome = await tree.judge(next.mutant, stagesFor(next.mutant, tests));
      judged.push({ at: next.at, outcome });
      console.error(
        `${outcome.verdict.padEnd(9)} ${describeMutant(next.mutant)}${outcome.by && ` (${outcome.by})`}, ` +
          `${Math.round((performance.now() - start) / 1000)} s`,
      );
    }
  } finally {
    tree.remove();
  }
}

/** The next mutant that compiles, whoever asks. */
function draw() {
  while (taken < (count ?? 0)) {
    const mutant = drawn[position++];
    if (!mutant) break;
    if (compiles(mutant)) return { at: taken++, mutant };
    notCompiled++;
  }
  return undefined;
}
