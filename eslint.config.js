import js from '@eslint/js';
import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

/** The projects of `npm run types`, those of pages first. Without a list, the linter works as an editor's service, which is slower. */
const PROJECTS = [
  'packages/cli/src/replay/page',
  'packages/dashboard/src/page',
  'scripts/docs/playground/page',
  '.',
].map((folder) => `${folder}/tsconfig.json`);

export default defineConfig(
  globalIgnores([
    ...['**/dist*/', 'coverage/', '**/legacy/', 'test/slow/runners/', 'packages/express-rate-limit/'],
  ]),
  js.configs.recommended,
  tseslint.configs.recommendedTypeChecked,
  {
    languageOptions: { parserOptions: { project: PROJECTS, tsconfigRootDir: import.meta.dirname } },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      eqeqeq: 'error',
      // TypeScript knows what is defined.
      'no-undef': 'off',
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-import-type-side-effects': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      // Objects of functions that use no `this` are written with method signatures too.
      '@typescript-eslint/unbound-method': 'off',
    },
  },
  // Further parameters have names, as fields of an object.
  {
    files: ['src/**', 'packages/*/src/**'],
    ignores: ['src/algorithms/**', 'src/stores/state/**', 'src/stores/redis/scripts.ts'],
    rules: { '@typescript-eslint/max-params': ['error', { max: 4 }] },
  },
  // A cast in plain JavaScript is a comment, which the rule does not see.
  { files: ['**/*.{js,mjs,cjs}'], rules: { '@typescript-eslint/no-unsafe-assignment': 'off' } },
  // Templates of htm have no types, so the data that they show has none either.
  {
    files: ['packages/dashboard/src/page/*.js'],
    rules: Object.fromEntries(
      ['argument', 'call', 'member-access', 'return'].map((kind) => [
        `@typescript-eslint/no-unsafe-${kind}`,
        'off',
      ]),
    ),
  },
  { files: ['**/*.cjs'], rules: { '@typescript-eslint/no-require-imports': 'off' } },
  // The test installs what these import.
  {
    files: ['test/slow/**/*.mjs', 'examples/frameworks/*.mjs'],
    extends: [tseslint.configs.disableTypeChecked],
  },
  { files: ['src/**', 'packages/*/src/**'], rules: { 'no-console': 'error' } },
  // expect(x).to.be.true
  { files: ['**/test/**'], rules: { '@typescript-eslint/no-unused-expressions': 'off' } },
  // A stand-in for something asynchronous often has nothing to wait for.
  { files: ['**/test/**', 'examples/**'], rules: { '@typescript-eslint/require-await': 'off' } },
);
