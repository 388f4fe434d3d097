import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, run } from './run.mjs';

/** Installs the packages of package-lock.json, unless they are installed already, so that a fresh clone needs only Node and npm. */
export function ensureDependencies() {
  if (installed()) return;
  console.log('Installing dependencies (npm ci) ...');
  const status = run('npm', ['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error']);
  if (status !== 0) process.exit(status);
}

// npm records the installed versions. A package at another version than the lock file's means that npm must install again.
function installed() {
  const record = join(root, 'node_modules/.package-lock.json');
  if (!existsSync(record)) return false;
  const want = packages(join(root, 'package-lock.json'));
  const have = packages(record);
  return Object.entries(want).every(
    ([path, { version, optional }]) => path === '' || optional || have[path]?.version === version,
  );
}

/** @param {string} file */
function packages(file) {
  const lock = /** @type {{ packages: Record<string, { version?: string, optional?: boolean }> }} */ (
    JSON.parse(readFileSync(file, 'utf8'))
  );
  return lock.packages;
}
