// npm run mutants: which mutants it makes, that a seed decides which, which tests it runs, and what it says of them.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { root } from '../scripts/lib/run.mjs';
import { applied, type Mutant } from '../scripts/mutants/changes.mjs';
import { compiler } from '../scripts/mutants/compiles.mjs';
import { executedIn, isExecuted, placeOf } from '../scripts/mutants/coverage.mjs';
import { Tree, verdictOf } from '../scripts/mutants/judge.mjs';
import { mutateLua } from '../scripts/mutants/lua.mjs';
import { allMutants, shuffled, sourceFiles } from '../scripts/mutants/sample.mjs';
import { hashOf, stagesFor, type Tests } from '../scripts/mutants/tests.mjs';
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

  it('are of every source file', () => {
    const files = new Set(allMutants().map(({ file }) => file));
    for (const file of [
      'src/algorithms/gcra.ts',
      'src/algorithms/gcra.lua',
      'src/stores/redis/lua/common.lua',
    ])
      expect(files).to.include(file);
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

  describe('are judged by', function () {
    this.timeout(120_000);

    const file = 'src/common/duration.ts';
    const lines = readFileSync(join(root, file), 'utf8').split('\n');
    /** The mutants of the line that holds a text, which begin there. */
    const at = (text: string): Mutant => {
      const line = lines.findIndex((each) => each.includes(text)) + 1;
      const column = lines[line - 1]!.indexOf(text) + 1;
      return { file, line, column, operator: '', start: 0, end: 0, from: '', to: '' };
    };
    const body = at('return `${milliseconds');
    const [from, to] = [placeOf(body), placeOf({ line: body.line + 1, column: 1 })];
    const test = (ms: number, edges: number[], hash = hashOf(file), others = 0) => ({
      hash: '',
      ms,
      executed: {
        [file]: { hash, edges },
        other: { hash: '', edges: [0, others * placeOf({ line: 1, column: 0 })] },
      },
    });

    it('the tests that execute their place', () => {
      const tests: Tests = { here: test(900, [from, to]), elsewhere: test(900, [to, to + 1]) };
      expect(stagesFor(body, tests).flatMap((stage) => stage.tests)).to.deep.equal(['here']);
      expect(stagesFor(at('throw invalidOption'), tests)).to.deep.equal([]);
    });

    it('all that execute their file, where it has changed since it was measured', () => {
      const tests: Tests = { a: test(900, [to, to + 1], 'old'), b: test(900, [to, to + 1]) };
      expect(stagesFor(body, tests).flatMap((stage) => stage.tests)).to.deep.equal(['a']);
    });

    it('those of its name first, that are quick, and that execute little else, in stages that grow', () => {
      const tests: Tests = {
        slow: test(30_000, [from, to]),
        slower: test(60_000, [from, to]),
        broad: test(1_100, [from, to], undefined, 10_000),
        quick: test(1_000, [from, to]),
        quiet: test(1_200, [from, to]),
        'test/duration.test.ts': test(2_500, [from, to]),
      };
      expect(stagesFor(body, tests)).to.deep.equal([
        { tests: ['test/duration.test.ts', 'quick', 'quiet'], ms: 2_700 },
        { tests: ['slow'], ms: 30_000 },
        { tests: ['slower'], ms: 60_000 },
        { tests: ['broad'], ms: 1_100 },
      ]);
    });

    it('tests that are named for them, if they are Lua', () => {
      const tests: Tests = Object.fromEntries(
        ['vectors', 'redis/batch', 'redis/check', 'laws/bound', 'cli/ban-book', 'cli/top', 'cli/limits'].map(
          (name) => [`test/${name}.test.ts`, test(900, [])],
        ),
      );
      for (const lua of sourceFiles().filter((each) => each.endsWith('.lua')))
        expect(stagesFor({ ...body, file: lua }, tests), lua).to.not.be.empty;
    });

    it('what a process says that it has executed', () => {
      const folder = mkdtempSync(join(tmpdir(), 'headgate-test-'));
      const script = `import { toText } from './${file}'; toText(1000);`;
      const { status, stderr } = spawnSync(
        process.execPath,
        ['--import=tsx', '--input-type=module', '--eval', script],
        { cwd: root, env: { ...process.env, NODE_V8_COVERAGE: folder }, encoding: 'utf8' },
      );
      expect(status, stderr).to.equal(0);
      const edges = executedIn(folder)[file]!;
      rmSync(folder, { recursive: true });
      const executed = (text: string) => isExecuted(edges, placeOf(at(text)));
      for (const text of ['366 *', 'UNITS.find', "[1, 'ms']", 'return `${milliseconds'])
        expect(executed(text), text).to.equal(text !== "[1, 'ms']");
      for (const text of ['let result', 'typeof value', 'throw invalidOption', 'return result'])
        expect(executed(text), text).to.be.false;
    });
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
    const stages = [{ tests: ['test/bad-input.test.ts'], ms: 10_000 }];
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
      const { verdict } = await tree.judge(slow, [{ ...stages[0]!, ms: 1_000 }], 3_000);
      expect(verdict).to.equal('timed out');
      const waited = { fullTitle: 'a test', file: '', err: { code: 'ERR_MOCHA_TIMEOUT' } };
      const said = (...failures: (typeof waited)[]) => verdictOf({ status: 1, failures, output: '' }, []);
      expect(said(waited)).to.deep.equal({ verdict: 'timed out', by: 'a test' });
      expect(said(waited, { ...waited, fullTitle: 'another', err: { code: '' } })).to.include({
        verdict: 'killed',
        by: 'another',
      });
    });

    it('that do not compile are none', () => {
      const compiles = compiler();
      expect(compiles(plant('import ms', 'import  ms'))).to.be.true;
      expect(compiles(plant('throw invalidOption(', 'return undefined;('))).to.be.false;
    });
  });
});
