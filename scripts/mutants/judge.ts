// Whether the tests notice a mutant of Lua: it is applied to a copy of the tree, where the tests run until one fails.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { listFiles, root } from '../lib/run.mjs';
import { applied, type Mutant } from './lua.js';

type Verdict = 'killed' | 'survived' | 'timed out';

/** Lua runs where nobody measures it: the first place names its tests. */
const testsOfPlaces: readonly (readonly [place: string, tests: string[]])[] = [
  ['src/stores/redis/lua/note-bans.lua', ['cli/ban-book', 'cli/bans']],
  ['src/stores/redis/lua/seal-bans.lua', ['cli/ban-book', 'cli/bans']],
  ['src/stores/redis/lua/count.lua', ['cli/top']],
  ['src/stores/redis/lua/publish.lua', ['cli/limits']],
  ['src/stores/redis/lua/check.lua', ['redis/check', 'cli/check', 'redis/']],
  ['src/', ['vectors', 'identity', 'redis/', 'laws/', 'windows', 'bad-input', 'stores', 'features/']],
];

/** The test files of a Lua file, the most likely first. */
export function testsOf(file: string): string[] {
  const names = testsOfPlaces.find(([place]) => file.startsWith(place))?.[1] ?? [];
  const all = listFiles('test').filter((test) => test.endsWith('.test.ts'));
  const found = names.flatMap((name) =>
    all.filter(
      (test) => test === `test/${name}.test.ts` || (name.endsWith('/') && test.startsWith(`test/${name}`)),
    ),
  );
  return [...new Set(found)];
}

/** A copy of what git knows of the tree, in which one mutant after the other is judged. */
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
   * A test that does not end is no failure: it says only that something waits. On a busy machine, tests may fail by themselves: only what
   * fails twice, and passes without the mutant, is a kill.
   *
   * @param limit how long a test file may take, ms
   * @returns `by`: the test file that failed, or that did not end
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

  /** Runs a test file in a process group of its own: what does not end in time is ended with all that it has started. */
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
