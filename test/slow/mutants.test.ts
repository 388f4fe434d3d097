// npm run mutants: the mutants, the selection by a seed, the tests to run, and the verdict on each mutant.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { listFiles, root } from '../../scripts/lib/run.mjs';
import { testsOf, Tree } from '../../scripts/mutants/judge.js';
import { applied, mutateLua, type Mutant } from '../../scripts/mutants/lua.js';
import { isDrawn } from '../../scripts/mutants/sample.mjs';

// The sections of signal.lua are two halves of a function.
const lua = listFiles('src').filter((file) => file.endsWith('.lua') && !file.endsWith('/signal.lua'));

describe('mutants', () => {
  it('of Lua: boundaries, operators, constants, conditions, results, calls and statements', () => {
    const cases: Readonly<Record<string, readonly string[]>> = {
      'x = (a) <= (b)': ['x = (a) < (b)', ''],
      'x = math.floor(a / 2)': [
        'x = math.ceil(a / 2)',
        'x = math.floor(a * 2)',
        'x = math.floor(a / 3)',
        'x = math.floor(a / 1)',
        '',
      ],
      'if a and not b then f() end': [
        'if a or not b then f() end',
        'if (a) then f() end',
        'if (not b) then f() end',
        'if a and (b) then f() end',
        'if not (a and not b) then f() end',
        'if a and not b then  end',
        '',
      ],
      'return a == b, c': ['return a ~= b, c', 'return not (a == b), c', 'return a == b, (c) + 1'],
    };
    for (const [text, expected] of Object.entries(cases)) {
      const texts = mutateLua('file', text).map((mutant) => applied(text, mutant));
      expect(texts, text).to.have.members(expected);
    }
  });

  it('cover every Lua file, each with its tests', () => {
    expect(lua).to.include.members(['src/algorithms/gcra.lua', 'src/stores/redis/lua/common.lua']);
    for (const file of lua) {
      expect(mutateLua(file, readFileSync(join(root, file), 'utf8')), file).to.not.be.empty;
      expect(testsOf(file), file).to.not.be.empty;
    }
  });

  it('are the same for the same seed, and differ for another', () => {
    const all = Array.from({ length: 1000 }, (_, i) => `mutant ${i}`);
    const drawn = (seed: string) =>
      all.filter((each) => isDrawn(each, { HEADGATE_MUTANTS: '10', HEADGATE_SEED: seed }));
    expect(drawn('7')).to.deep.equal(drawn('7')).and.not.deep.equal(drawn('8'));
    expect(drawn('7').length).to.be.within(60, 140);
    expect(all.every((each) => isDrawn(each, {}))).to.be.true;
    expect(() => isDrawn('a', { HEADGATE_SEED: 'one' })).to.throw('whole numbers');
  });

  describe('planted', function () {
    this.timeout(120_000);

    const file = 'src/common/duration.ts';
    const text = readFileSync(join(root, file), 'utf8');
    const plant = (from: string, to: string): Mutant => {
      const start = text.indexOf(from);
      expect(start).to.be.at.least(0);
      return { file, line: 0, operator: 'planted', start, end: start + from.length, to };
    };
    const judged = (mutant: Mutant, limit = 60_000) => tree.judge(mutant, ['test/bad-input.test.ts'], limit);
    let tree: Tree;
    before(() => (tree = new Tree()));
    after(() => tree.remove());

    it('are killed by the test that fails', async () => {
      expect(await judged(plant('throw invalidOption(', 'void ('))).to.deep.equal({
        verdict: 'killed',
        by: 'test/bad-input.test.ts',
      });
    });

    it('survive tests that all pass', async () => {
      expect((await judged(plant('import ms', 'import  ms'))).verdict).to.equal('survived');
    });

    it('are not killed by a test that only exceeds its time', async () => {
      const slow = plant(
        '\nexport function',
        '\nexport const never = await new Promise(() => setInterval(() => {}, 1_000));\nexport function',
      );
      expect((await judged(slow, 5_000)).verdict).to.equal('timed out');
    });

    it('of TypeScript are killed in Stryker, by a test that fails or does not load', () => {
      const condition = 'result >= least';
      const lines = text.split('\n');
      const line = lines.findIndex((each) => each.includes(condition)) + 1;
      const column = lines[line - 1]!.indexOf(condition);
      const range = `${line}:${column}-${line}:${column + condition.length}`;
      const { stdout, stderr } = spawnSync('npx', ['stryker', 'run', '--mutate', `${file}:${range}`], {
        cwd: root,
        encoding: 'utf8',
        env: { ...process.env, HEADGATE_TESTS: 'test/bad-input.test.ts', HEADGATE_SERVERS: 'none' },
      });
      // Mutants of a condition and a comparison.
      expect(stdout, stderr).to.match(
        /duration\.ts \| +100\.00 \| +100\.00 \| +3 \| +0 \| +0 \| +0 \| +0 \|/,
      );
    });
  });
});
