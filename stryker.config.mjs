// npm run mutants: Stryker makes small mistakes in the TypeScript of src/, and runs the test files that execute each one (docs/contributing/testing.md).
import { createRequire } from 'node:module';

/** The quick tier: the others run the built package, or need files that a copy of the tree lacks. */
const tests = '{test,packages/*/test}/{*,!(slow)/**/*}.test.ts';

export default {
  plugins: ['@stryker-mutator/tap-runner', './scripts/mutants/sample.mjs'],
  testRunner: 'tap',
  tap: {
    testFiles: [process.env['HEADGATE_TESTS'] ?? tests],
    nodeArgs: [
      ...['--import=./scripts/lib/typescript.mjs', '--import=./scripts/mutants/hook.mjs'],
      // Mocha in the process itself, by its real path.
      ...['--require={{hookFile}}', createRequire(import.meta.url).resolve('mocha/lib/cli/cli.js')],
      ...['--reporter=tap', '{{testFile}}'],
    ],
  },
  mutate: ['src/**/*.ts'],
  // Wording is no behaviour.
  mutator: { excludedMutations: ['StringLiteral'] },
  checkers: ['sample'],
  coverageAnalysis: 'perTest',
  dryRunTimeoutMinutes: 60,
  timeoutMS: 20_000,
  ignorePatterns: ['/dist.*', '/dist', '/docs/api', '/bench.json'],
  reporters: ['clear-text', 'progress'],
};
