// npm run mutants: which mutants it makes, that a seed decides which, and what it says of them.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { root } from '../scripts/lib/run.mjs';
import { applied, type Mutant } from '../scripts/mutants/changes.mjs';
import { compiler } from '../scripts/mutants/compiles.mjs';
import { failureOf, Tree } from '../scripts/mutants/judge.mjs';
import { mutateLua } from '../scripts/mutants/lua.mjs';
import { allMutants, shuffled, sourceFiles } from '../scripts/mutants/sample.mjs';
import { stagesFor } from '../scripts/mutants/tests.mjs';
import { mutateTypeScript } from '../scripts/mutants/typescript.mjs';

const textsOf = (generate: typeof mutateLua, text: string) =>
  generate('file', text).map((mutant) => applied(text, mutant));

describe('the mutants', () => {
  it('of TypeScript: boundaries, operators, constants, conditions, results, calls and statements', () => {
    const cases: Readonly<Record<string, readonly string[]>> = {
      'a < b;': ['a <= b;', '{}'],
      'x = a === b;': ['x = a !== b;', '{}'],
      'x = a * 1_000;': ['x = a / 1_000;', 'x = a * 1001;', 'x = a * 999;', '{}'],
      'x = 0n;': ['x = 1n;', 'x = (-1n);', '{}'],
      'x = Math.min(a, b);': ['x = Math.max(a, b);', '{}'],
      'x = a && !b;': ['x = a || !b;', 'x = a;', 'x = !b;', 'x = a && b;', '{}'],
      'if (a < b) f();': ['{}', 'if (!(a < b)) f();', 'if (a <= b) f();', 'if (a < b) {}'],
      'const f = () => a;': [
        'const f = () => !(a);',
        'const f = () => (a) + 1;',
        'const f = () => undefined;',
      ],
      'await f(true);': ['f(true);', 'await f(false);', '{}'],
      'i++;': ['i--;', '{}'],
      'x = a ? -b : c;': ['x = !(a) ? -b : c;', 'x = a ? b : c;', '{}'],
    };
    for (const [text, expected] of Object.entries(cases))
      expect(textsOf(mutateTypeScript, text), text).to.have.members(expected);
  });

  it('of Lua: the same', () => {
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
    for (const [text, expected] of Object.entries(cases))
      expect(textsOf(mutateLua, text), text).to.have.members(expected);
  });

  it('leave types, imports and wording as they are', () => {
    for (const text of ['import a from "1";', 'type A = 1 | true;', 'let a: 1 | 2;', 'let b = "1 < 2";'])
      expect(textsOf(mutateTypeScript, text), text).to.deep.equal([]);
  });

  it('are of every source file, and each file has tests that may notice them', () => {
    const files = new Set(allMutants().map(({ file }) => file));
    for (const file of [
      'src/algorithms/gcra.ts',
      'src/algorithms/gcra.lua',
      'src/stores/redis/lua/common.lua',
    ])
      expect(files).to.include(file);
    for (const file of sourceFiles()) expect(stagesFor(file).flat(), file).to.not.be.empty;
  });

  it('are the same for the same seed, and others for another', () => {
    const mutants = allMutants('src/stores');
    expect(shuffled(mutants, 7)).to.deep.equal(shuffled(mutants, 7));
    expect(shuffled(mutants, 7).slice(0, 20)).to.not.deep.equal(shuffled(mutants, 8).slice(0, 20));
    expect(shuffled(mutants, 7)).to.have.members(mutants);
    const [first] = shuffled(mutants, 7);
    expect(allMutants(`${first!.file}:${first!.line}`)).to.deep.include(first);
    expect(allMutants(`${first!.file}:${first!.line}:${first!.column}`)).to.deep.include(first);
    expect(allMutants(`${first!.file}:${first!.line}:999`)).to.deep.equal([]);
  });

  describe('planted', function () {
    this.timeout(120_000);

    const file = 'src/common/duration.ts';
    const text = readFileSync(join(root, file), 'utf8');
    const plant = (from: string, to: string): Mutant => {
      const start = text.indexOf(from);
      expect(start).to.be.at.least(0);
      return { file, line: 0, column: 0, operator: 'planted', start, end: start + from.length, from, to };
    };
    const stages = [['test/bad-input.test.ts']];
    let tree: Tree;
    before(() => (tree = new Tree()));
    after(() => tree.remove());

    it('are killed by the test that fails', async () => {
      const mutant = plant('throw invalidOption(', 'void (');
      const { verdict, by } = await tree.judge(mutant, stages);
      expect(verdict).to.equal('killed');
      expect(by).to.match(/^bad input/);
    });

    it('survive tests that all pass', async () => {
      const { verdict } = await tree.judge(plant('import ms', 'import  ms'), stages);
      expect(verdict).to.equal('survived');
    });

    it('are not killed by a test that only takes too long', async () => {
      const slow = plant(
        '\nexport function',
        '\nexport const never = await new Promise(() => setInterval(() => {}, 1_000));\nexport function',
      );
      const { verdict } = await tree.judge(slow, stages, 3_000);
      expect(verdict).to.equal('timed out');
      const waited = { fullTitle: 'a test', file: '', err: { code: 'ERR_MOCHA_TIMEOUT' } };
      expect(failureOf([waited], '')).to.deep.equal({ verdict: 'timed out', by: 'a test' });
    });

    it('that do not compile are none', () => {
      const compiles = compiler();
      expect(compiles(plant('import ms', 'import  ms'))).to.be.true;
      expect(compiles(plant('throw invalidOption(', 'return undefined;('))).to.be.false;
    });
  });
});
