// Applies mutants to copies of the tree, a copy a worker, and runs the tests that may notice them.
import { spawn, spawnSync } from 'node:child_process';
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
import { read, root } from '../lib/run.mjs';
import { applied } from './changes.mjs';
import { stagesFor } from './tests.mjs';

/**
 * @typedef {import('./changes.mjs').Mutant} Mutant
 * @typedef {'killed' | 'survived' | 'timed out'} Verdict
 * @typedef {{ mutant: Mutant, verdict: Verdict, by: string }} Outcome `by`: the test that failed, or that did not end
 * @typedef {{ verdict: Verdict, by: string, again?: string[] }} Run of one stage. `again`: what runs the failed test alone
 * @typedef {{ fullTitle: string, file: string, err: { code?: string } }} Failure of a test
 */

const GENERATED_LUA = 'src/stores/redis/generated/lua.ts';

/** @type {Map<string, Promise<number>>} how long each stage takes without a mutant, ms */
const durations = new Map();

/** A copy of what git knows of the tree, in which one mutant after the other is judged. */
export class Tree {
  #path = mkdtempSync(join(tmpdir(), 'headgate-mutants-'));
  /** The tests that run, and the servers that they have started, are a process group of its own. */
  #group = 0;

  constructor() {
    const listed = read('git', ['ls-files', '--cached', '--others', '--exclude-standard']) ?? '';
    const files = listed.split('\n').filter((file) => !['', 'node_modules'].includes(file));
    for (const file of files.filter((each) => existsSync(join(root, each)))) {
      mkdirSync(dirname(join(this.#path, file)), { recursive: true });
      cpSync(join(root, file), join(this.#path, file));
    }
    symlinkSync(join(root, 'node_modules'), join(this.#path, 'node_modules'));
    process.once('exit', this.remove);
  }

  /** Ends what runs in it, and removes it. */
  remove = () => {
    process.off('exit', this.remove);
    this.#end();
    rmSync(this.#path, { recursive: true, force: true });
  };

  /**
   * Whether the tests notice a mutant. A test that does not end is no failure: it says only that something waits.
   *
   * @param {Mutant} mutant
   * @param {string[][]} [stages] test files and folders
   * @param {number} [grace] how much longer than without a mutant a stage may take: three times, and so many ms
   * @returns {Promise<Outcome>}
   */
  async judge(mutant, stages = stagesFor(mutant.file), grace = 30_000) {
    const versions = this.#versions(mutant);
    /** @type {Run} */
    let result = { verdict: 'survived', by: '' };
    for (const tests of stages) {
      const limit = 3 * (await this.#durationOf(tests)) + grace;
      this.#write(versions.map(({ file, mutated }) => [file, mutated]));
      const run = await this.#runTwice(tests, limit);
      this.#write(versions.map(({ file, original }) => [file, original]));
      if (run.verdict !== 'survived') result = run;
      if (run.verdict === 'killed') break;
    }
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
   * How long a stage takes without a mutant, ms. Where it fails even so, every mutant would pass for killed.
   * @param {string[]} tests
   * @returns {Promise<number>}
   */
  #durationOf(tests) {
    const known = durations.get(tests.join());
    if (known) return known;
    const start = performance.now();
    const measured = this.#runTwice(tests, 600_000).then(({ verdict, by }) => {
      if (verdict !== 'survived') throw new Error(`Without a mutant, ${tests.join(' ')} ${verdict}: ${by}`);
      return performance.now() - start;
    });
    durations.set(tests.join(), measured);
    return measured;
  }

  /**
   * The files that differ, with and without a mutant: what is generated from Lua is one of them.
   * @param {Mutant} mutant
   */
  #versions(mutant) {
    const files = mutant.file.endsWith('.lua') ? [mutant.file, GENERATED_LUA] : [mutant.file];
    const read = () => files.map((file) => readFileSync(join(this.#path, file), 'utf8'));
    const originals = read();
    this.#write([[mutant.file, applied(originals[0] ?? '', mutant)]]);
    if (files.includes(GENERATED_LUA)) this.#generateLua();
    const mutated = read();
    const versions = files.map((file, i) => ({
      file,
      original: originals[i] ?? '',
      mutated: mutated[i] ?? '',
    }));
    this.#write(versions.map(({ file, original }) => [file, original]));
    return versions;
  }

  /** @param {[file: string, text: string][]} texts */
  #write(texts) {
    for (const [file, text] of texts) writeFileSync(join(this.#path, file), text);
  }

  #generateLua() {
    const { status, stderr } = spawnSync(process.execPath, ['scripts/lua.mjs', 'build'], {
      cwd: this.#path,
      encoding: 'utf8',
    });
    if (status !== 0) throw new Error(`The scripts were not built: ${stderr}`);
  }

  /**
   * @param {string[]} tests
   * @param {number} limit ms
   * @returns {Promise<Run>}
   */
  #run(tests, limit) {
    const report = join(this.#path, 'report.json');
    rmSync(report, { force: true });
    const args = ['node_modules/mocha/bin/mocha.js', '--bail', ...tests];
    // The tests start their own servers: those of the developer are none to try mutants on.
    const { REDIS_URL: _redis, VALKEY_URL: _valkey, ...env } = process.env;
    const child = spawn(
      process.execPath,
      [...args, '--reporter', 'json', '--reporter-option', `output=${report}`],
      { cwd: this.#path, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true },
    );
    this.#group = child.pid ?? 0;
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text) => (output = (output + text).slice(-2_000)));
    const timer = setTimeout(() => this.#end(), limit);
    return new Promise((resolve) => {
      child.once('close', (status) => {
        clearTimeout(timer);
        this.#group = 0;
        // Ended by a signal: it took too long, or all memory.
        if (status === null) resolve({ verdict: 'timed out', by: tests.join(' ') });
        else if (status === 0) resolve({ verdict: 'survived', by: '' });
        else resolve(failureOf(failuresIn(report), output));
      });
    });
  }

  #end() {
    if (this.#group > 0) process.kill(-this.#group, 'SIGKILL');
  }
}

/**
 * What a run says that did not end well.
 * @param {Failure[]} failures of its tests
 * @param {string} output
 * @returns {Run}
 */
export function failureOf([first], output) {
  // No test failed: a file does not load, or something was left behind.
  if (!first) return { verdict: 'killed', by: `exit: ${output.trim().split('\n').at(-1)}` };
  const { fullTitle: by, file, err } = first;
  if (err.code === 'ERR_MOCHA_TIMEOUT') return { verdict: 'timed out', by };
  return { verdict: 'killed', by, again: by.includes('" hook') ? [file] : [file, '--fgrep', by] };
}

/**
 * @param {string} file
 * @returns {Failure[]}
 */
function failuresIn(file) {
  if (!existsSync(file)) return [];
  const report = /** @type {{ failures: Failure[] }} */ (JSON.parse(readFileSync(file, 'utf8')));
  return report.failures;
}
