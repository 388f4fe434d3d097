// Applies mutants to copies of the tree, a copy a worker, and runs the tests that may notice them.
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { listFiles, root } from '../lib/run.mjs';
import { applied } from './changes.mjs';
import { mocha } from './mocha.mjs';

/**
 * @typedef {import('./changes.mjs').Mutant} Mutant
 * @typedef {import('./mocha.mjs').Ran} Ran
 * @typedef {import('./tests.mjs').Stage} Stage
 * @typedef {'killed' | 'survived' | 'timed out'} Verdict
 * @typedef {{ mutant: Mutant, verdict: Verdict, by: string }} Outcome `by`: the test that failed, or that did not end
 * @typedef {{ verdict: Verdict, by: string, again?: string[] }} Run of one stage. `again`: what runs the failed test alone
 */

/** How many stages may take too long: a mutant that hangs so many hangs them all. */
const PATIENCE = 2;

/** @type {Map<string, Promise<Run>>} what tests say without a mutant, by what runs them */
const plain = new Map();

/** A copy of what git knows of the tree, in which one mutant after the other is judged. */
export class Tree {
  #path = mkdtempSync(join(tmpdir(), 'headgate-mutants-'));

  constructor() {
    const files = listFiles().filter((file) => file !== 'node_modules');
    for (const file of files.filter((each) => existsSync(join(root, each)))) {
      mkdirSync(dirname(join(this.#path, file)), { recursive: true });
      cpSync(join(root, file), join(this.#path, file));
    }
    symlinkSync(join(root, 'node_modules'), join(this.#path, 'node_modules'));
    process.once('exit', this.remove);
  }

  remove = () => {
    process.off('exit', this.remove);
    rmSync(this.#path, { recursive: true, force: true });
  };

  /**
   * Whether the tests notice a mutant. A test that does not end is no failure: it says only that something waits.
   *
   * @param {Mutant} mutant
   * @param {readonly Stage[]} stages
   * @param {number} [grace] how much longer than without a mutant a stage may take: three times, and so many ms
   * @returns {Promise<Outcome>}
   */
  async judge(mutant, stages, grace = 20_000) {
    let restore = this.#apply(mutant);
    /** @type {Run} */
    let result = { verdict: 'survived', by: '' };
    let hung = 0;
    for (const { tests, ms } of stages) {
      const run = await this.#runTwice(tests, 3 * ms + grace);
      if (run.verdict === 'survived') continue;
      if (run.again) {
        restore();
        if (!(await this.#passes(run.again))) {
          restore = this.#apply(mutant);
          continue;
        }
      }
      result = run;
      if (run.verdict === 'killed' || ++hung === PATIENCE) break;
    }
    restore();
    return { mutant, verdict: result.verdict, by: result.by };
  }

  /**
   * Runs a stage. On a busy machine, tests may fail by themselves: only what fails twice is a kill.
   * @param {string[]} tests
   * @param {number} limit ms
   * @returns {Promise<Run>}
   */
  async #runTwice(tests, limit) {
    const first = await this.#run(tests, limit);
    if (first.verdict !== 'killed') return first;
    const second = await this.#run(first.again ?? tests, limit);
    return second.verdict === 'killed' ? first : this.#run(tests, limit);
  }

  /**
   * Whether tests pass without a mutant. What fails even so says nothing.
   * @param {string[]} tests
   */
  async #passes(tests) {
    const known = plain.get(tests.join());
    const run = known ?? this.#runTwice(tests, 600_000);
    plain.set(tests.join(), run);
    return (await run).verdict === 'survived';
  }

  /**
   * @param {Mutant} mutant
   * @returns {() => void} restores the file
   */
  #apply(mutant) {
    const path = join(this.#path, mutant.file);
    const original = readFileSync(path, 'utf8');
    writeFileSync(path, applied(original, mutant));
    return () => writeFileSync(path, original);
  }

  /**
   * @param {string[]} tests
   * @param {number} limit ms
   * @returns {Promise<Run>}
   */
  async #run(tests, limit) {
    return verdictOf(await mocha(this.#path, tests, limit), tests);
  }
}

/**
 * What a run says of a mutant.
 * @param {Ran} ran
 * @param {string[]} tests
 * @returns {Run}
 */
export function verdictOf({ status, failures, output }, tests) {
  if (status === 0) return { verdict: 'survived', by: '' };
  // Ended by a signal: it took too long, or all memory.
  if (status === null) return { verdict: 'timed out', by: tests.join(' ') };
  const failure = failures.find(({ err }) => err.code !== 'ERR_MOCHA_TIMEOUT');
  if (failure) {
    const { fullTitle: by, file } = failure;
    return { verdict: 'killed', by, again: by.includes('" hook') ? [file] : [file, '--fgrep', by] };
  }
  if (failures[0]) return { verdict: 'timed out', by: failures[0].fullTitle };
  // No test failed: a file does not load, or something was left behind.
  return { verdict: 'killed', by: `exit: ${output.trim().split('\n').at(-1)}`, again: tests };
}
