// npm run compat:count -- PATH ...: counts the tests of another rate limiter that pass with Headgate's stand-in. Each path is a clone of the
// limiter's repository. The tests run in a copy with the packed Headgate instead of the limiter, and npm installs the versions of the clone.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startServer } from '../test/support/servers.js';
import { pack } from './lib/pack.js';

interface Suite {
  /** The packages that the tests load. */
  needs: readonly string[];
  /** The files of the copy that the stand-in replaces. */
  files: Record<string, string>;
  /** Runs the tests in a directory, with a Redis on that port. */
  run: (directory: string, port: number) => Counts;
}

interface Counts {
  passed: number;
  total: number;
  failed: string[];
}

/** The tests of internals, which the stand-in does not have: whole files, and one test of another file. */
const INTERNAL_TESTS = {
  files: ['logger-test', 'validation-test', 'types-test'],
  titles: '^(?!headers test should not attempt to set headers)',
};

const suites: Record<string, Suite> = {
  'express-rate-limit': {
    needs: [
      '@jest/globals',
      'express',
      'jest',
      'ratelimit-header-parser',
      'supertest',
      'ts-jest',
      'typescript',
    ],
    files: {
      'source/index.ts':
        "export * from 'headgate/compat/express-rate-limit'\nexport { default } from 'headgate/compat/express-rate-limit'\n",
      'source/memory-store.ts': "export { MemoryStore } from 'headgate/compat/express-rate-limit'\n",
      'jest.config.json': JSON.stringify({
        testTimeout: 30_000,
        testMatch: ['**/test/library/**/*-test.ts'],
        testPathIgnorePatterns: INTERNAL_TESTS.files,
        moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
        transform: {
          '\\.ts$': [
            'ts-jest',
            {
              diagnostics: false,
              tsconfig: { module: 'commonjs', esModuleInterop: true, isolatedModules: true },
            },
          ],
        },
      }),
    },
    run: jestCounts,
  },
  '@fastify/rate-limit': {
    needs: ['fastify', 'ioredis'],
    files: { 'index.js': "module.exports = require('headgate/compat/fastify-rate-limit')\n" },
    run: nodeCounts,
  },
};

function jestCounts(directory: string): Counts {
  const args = ['jest', '--json', '--runInBand', '--testNamePattern', INTERNAL_TESTS.titles];
  const report = JSON.parse(output(directory, 'npx', args)) as {
    testResults: { message: string; assertionResults: { status: string; fullName: string }[] }[];
  };
  const broken = report.testResults.find(({ assertionResults }) => assertionResults.length === 0);
  if (broken) throw new Error(`A file of tests did not run:\n${broken.message}`);
  const results = report.testResults.flatMap(({ assertionResults }) => assertionResults);
  return {
    passed: results.filter(({ status }) => status === 'passed').length,
    total: results.filter(({ status }) => status !== 'pending').length,
    failed: results.filter(({ status }) => status === 'failed').map(({ fullName }) => fullName),
  };
}

function nodeCounts(directory: string, port: number): Counts {
  const files = readdirSync(join(directory, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.js'))
    .map((name) => join('test', name));
  for (const name of files) {
    const file = join(directory, name);
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, text.replaceAll('host: REDIS_HOST', `port: ${port}, host: REDIS_HOST`));
  }
  const args = ['--test', '--test-concurrency=1', '--test-reporter=tap', ...files];
  const report = output(directory, process.execPath, args);
  const count = (name: string): number => Number(new RegExp(`^# ${name} (\\d+)$`, 'm').exec(report)?.[1]);
  // A suite fails with its tests, and is not counted.
  const results = report.matchAll(/^ *not ok \d+ - (.*)\n *---\n *duration_ms: .*\n( *type: 'suite')?/gm);
  const failed = [...results].filter(([, , isSuite]) => !isSuite).map(([, title]) => title!);
  return { passed: count('pass'), total: count('tests') - count('skipped'), failed };
}

/** The standard output of a command, also if tests fail. */
function output(directory: string, command: string, args: string[]): string {
  const { stdout, error } = spawnSync(command, args, {
    ...{ cwd: directory, encoding: 'utf8', maxBuffer: 2 ** 28 },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  if (error) throw error;
  return stdout;
}

interface Manifest {
  name: string;
  version: string;
  devDependencies: Record<string, string>;
}

const manifestOf = (directory: string): Manifest =>
  JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as Manifest;

/** Copies a clone, puts the stand-in into its place, and installs what its tests load. */
function prepare(clone: string, suite: Suite, { type, tarball, directory }: Record<string, string>): void {
  cpSync(clone, directory!, {
    recursive: true,
    filter: (path) => !/\/(node_modules|\.git)$/.test(path),
  });
  const { devDependencies } = manifestOf(clone);
  const dependencies = Object.fromEntries(suite.needs.map((name) => [name, devDependencies[name]]));
  const manifest = { type, private: true, dependencies: { ...dependencies, headgate: `file:${tarball}` } };
  writeFileSync(join(directory!, 'package.json'), JSON.stringify(manifest));
  for (const [file, text] of Object.entries(suite.files)) writeFileSync(join(directory!, file), text);
  const { status } = spawnSync(
    'npm',
    ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--silent'],
    {
      ...{ cwd: directory, stdio: ['ignore', 'ignore', 'inherit'] },
    },
  );
  if (status !== 0) throw new Error('npm install failed: the tests need packages from the registry.');
}

const clones = process.argv.slice(2);
if (clones.length === 0) {
  console.error(
    'usage: npm run compat:count -- PATH ...   (clones of express-rate-limit, @fastify/rate-limit)',
  );
  process.exit(2);
}
const work = mkdtempSync(join(tmpdir(), 'headgate-compat-'));
const server = await startServer('redis');
try {
  const [{ tarball }] = pack(work);
  for (const [index, clone] of clones.entries()) {
    const { name, version } = manifestOf(clone);
    const suite = suites[name];
    if (!suite) throw new Error(`${clone}: Headgate has no stand-in for ${name}.`);
    const directory = join(work, String(index));
    prepare(clone, suite, { tarball, directory, type: 'commonjs' });
    const { passed, total, failed } = suite.run(directory, server.port);
    console.log(`${name} ${version}, Node ${process.versions.node}: ${passed} of ${total} tests pass`);
    for (const title of failed) console.log(`  fails: ${title}`);
  }
} finally {
  await server.stop();
  rmSync(work, { recursive: true, force: true });
}
