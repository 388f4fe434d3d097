import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { getPrograms } from '../programs.mjs';
import { read, root, run } from './run.mjs';

/**
 * Installs the packages of package-lock.json, unless they are installed already, so that a fresh clone needs only Node and npm. Packages are
 * not compiled: see `ensureSqlite`.
 */
export function ensureDependencies() {
  if (installed()) return;
  console.log('Installing dependencies (npm ci) ...');
  const options = ['--include=dev', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  const status = run('npm', ['ci', ...options]);
  if (status !== 0) process.exit(status);
}

/** Whether this Node has SQLite itself, unlike Node 20. */
export const hasNodeSqlite = process.getBuiltinModule?.('node:sqlite') !== undefined;

/** Brings the file of better-sqlite3 for this Node, unless it is there already. npm fetches it, or compiles it for a minute. */
export function ensureSqlite() {
  const loads = () =>
    read(process.execPath, ['-e', "new (require('better-sqlite3'))(':memory:')"]) !== undefined;
  if (loads()) return;
  console.log('Bringing better-sqlite3 for this Node (npm rebuild) ...');
  const problems = getPrograms('compiler', 'python');
  run('npm', ['rebuild', 'better-sqlite3', '--loglevel=error']);
  if (problems.length > 0 && !loads()) console.error(problems.join('\n'));
  if (!loads())
    throw new Error(
      `better-sqlite3 does not run on Node ${process.version}. Its installation printed the reason.`,
    );
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
