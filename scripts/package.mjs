// Checks the packed package: its declarations in every module system, its manifest, its files, and what each sub-path weighs.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pack } from './lib/pack.mjs';
import { run } from './lib/run.mjs';
import { checkSizes } from './lib/sizes.mjs';

const directory = mkdtempSync(join(tmpdir(), 'headgate-package-'));
try {
  const { tarball } = pack(directory);
  process.exitCode =
    run('node_modules/.bin/publint', ['--strict', tarball]) ||
    run('node_modules/.bin/attw', ['--profile', 'node16', tarball]) ||
    Number(!(await checkSizes()));
} finally {
  rmSync(directory, { recursive: true });
}
