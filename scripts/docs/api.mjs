// The API reference in docs/api is made from the docstrings, and is committed so that it can be read.
//   build   writes it
//   check   fails when it is stale
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { read, root, run } from '../lib/run.mjs';

const committed = join(root, 'docs/api');
const fresh = mkdtempSync(join(tmpdir(), 'headgate-api-'));
try {
  process.exitCode = run('node_modules/.bin/typedoc', ['--logLevel', 'Warn', '--out', fresh]);
  if (process.exitCode === 0)
    run('node_modules/.bin/prettier', [
      '--config',
      '.prettierrc.json',
      '--write',
      '--log-level',
      'warn',
      fresh,
    ]);
  if (process.exitCode === 0 && process.argv[2] === 'build') {
    rmSync(committed, { recursive: true, force: true });
    cpSync(fresh, committed, { recursive: true });
  } else if (process.exitCode === 0 && read('diff', ['--recursive', fresh, committed]) === undefined) {
    console.error('docs/api is stale: run npm run docs:api and commit it.');
    process.exitCode = 1;
  }
} finally {
  rmSync(fresh, { recursive: true });
}
