// Checks the packed package: its declarations in every module system, its manifest and its list of files.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pack } from './lib/pack.mjs';
import { run } from './lib/run.mjs';

const directory = mkdtempSync(join(tmpdir(), 'headgate-package-'));
try {
  const { tarball } = pack(directory);
  process.exitCode =
    run('node_modules/.bin/publint', ['--strict', tarball]) ||
    run('node_modules/.bin/attw', ['--profile', 'node16', tarball]);
} finally {
  rmSync(directory, { recursive: true });
}
