// Decides whether the tests notice a mutant of Lua: applies it to a copy of the tree, and runs the tests until one fails.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { listFiles, root } from '../lib/run.mjs';
import { applied, type Mutant } from './lua.js';

type Verdict = 'killed' | 'survived' | 'timed out';

/** The tests of Lua files, because coverage cannot be measured in Redis. The first matching place names the tests. */
const testsOfPlaces: readonly (readonly [place: string, tests: string[]])[] = [
  ['src/stores/redis/lua/note-changes.lua', ['packages/cli/test/ban-book', 'packages/cli/test/bans']],
  ['src/stores/redis/lua/count.lua', ['packages/cli/test/slow/top']],
  ['src/stores/redis/lua/publish.lua', ['packages/cli/test/limits']],
  ['src/stores/redis/lua/check.lua', ['redis/check', 'packages/cli/test/check', 'redis/']],
  ['src/', ['vectors', 'identity', 'redis/', 'laws/', 'windows', 'bad-input', 'stores', 'features/']],
];

/** The test files of a Lua file, the most likely first. */
export function testsOf(file: string): string[] {
  const names = testsOfPlaces.find(([place]) => file.startsWith(place))?.[1] ?? [];
  const all = listFiles('test', 'packages/*/test/*').filter((test) => test.endsWith('.test.ts'));
  const tests = names.flatMap((name) =>
    all.filter(
      (test) =>
        [`${name}.test.ts`, `test/${name}.test.ts`].includes(test) ||
        (name.endsWith('/') && test.startsWith(`test/${name}`) && !test.includes('/slow/')),
    ),
  );
  return [...new Set(tests)];
}

/** A copy of the tree as git lists it, for judging mutants one by one. */
export class Tree {
  readonly #path = mkdtempSync(join(tmpdir(), 'headgate-mutants-'));

  constructor() {
    for (const file of listFiles().filter((each) => each !== 'node_modules' && existsSync(join(root, each))))
      cpSync(join(root, file), join(this.#path, file));
    symlinkSync(join(root, 'node_modules'), join(this.#path, 'node_modules'));
    process.once('exit', this.remove);
  }

  readonly remove = (): void => {
    process.off('exit', this.remove);
    rmSync(this.#path, { recursive: true, force: true });
  };

  /**
   * Runs the tests on a mutant. Only a test file that fails twice, and passes without the mutant, kills the mutant, because on a busy
   * machine tests also fail by themselves. A test without an end is not a failure: some code waits, nothing more.
   *
   * @param limit the time limit of a test file, ms
   * @returns `by`: the test file that failed or did not end
   */
  async judge(
    mutant: Mutant,
    tests: readonly string[],
    limit: number,
  ): Promise<{ verdict: Verdict; by: string }> {
    const path = join(this.#path, mutant.file);
    const original = readFileSync(path, 'utf8');
    const mutated = applied(original, mutant);
    for (const by of tests) {
      writeFileSync(path, mutated);
      const first = await this.#run(by, limit);
      const second = first === 'killed' ? await this.#run(by, limit) : first;
      writeFileSync(path, original);
      if (second === 'timed out') return { verdict: second, by };
      if (second === 'killed' && (await this.#run(by, limit)) === 'survived') return { verdict: second, by };
    }
    return { verdict: 'survived', by: '' };
  }

  /** Runs a test file in a separate process group. At the time limit, the whole group is killed. */
  async #run(test: string, limit: number): Promise<Verdict> {
    const args = ['node_modules/mocha/bin/mocha.js', '--bail', '--reporter', 'json', test];
    const options = { cwd: this.#path, detached: true };
    const child = spawn(process.execPath, args, { ...options, stdio: ['ignore', 'pipe', 'ignore'] });
    const end = () => process.kill(-(child.pid ?? 0), 'SIGKILL');
    process.once('exit', end);
    const timer = setTimeout(end, limit);
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
    const [status] = (await once(child, 'close')) as [number | null];
    clearTimeout(timer);
    process.off('exit', end);
    if (status === 0) return 'survived';
    return status === null || output.includes('"code": "ERR_MOCHA_TIMEOUT"') ? 'timed out' : 'killed';
  }
}
