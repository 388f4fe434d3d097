import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { listFiles, root, run } from './run.mjs';

const CACHE = join(root, 'node_modules/.cache/headgate');
const STAMP = join(CACHE, 'built');

/** The files that a build reads. */
const SOURCES = ['src', 'packages/*/src', 'scripts/build.ts', 'scripts/lib', 'package-lock.json'].concat(
  ['package.json', 'packages/*/package.json'],
  ['tsconfig*.json', 'packages/*/tsconfig*.json'],
);

/** The outputs of a build. */
const OUTPUTS = ['dist', 'packages/testing/dist', 'packages/dashboard/dist', 'packages/cli/dist'];

/** A hash of the files that a build reads. */
export function hashSource() {
  const hash = createHash('sha256');
  for (const file of listFiles(...SOURCES))
    if (existsSync(join(root, file))) hash.update(`${file}\0`).update(readFileSync(join(root, file)));
  return hash.digest('hex');
}

/** @param {string} hash of the files that were built */
export function markBuilt(hash) {
  mkdirSync(CACHE, { recursive: true });
  rmSync(STAMP, { force: true });
  writeFileSync(STAMP, hash);
}

/** Builds all packages unless the last build was of the same files. A build takes a minute, and several tests and gates need it. */
export function ensureBuilt() {
  const isBuilt = OUTPUTS.every((folder) => existsSync(join(root, folder)));
  if (isBuilt && existsSync(STAMP) && readFileSync(STAMP, 'utf8') === hashSource()) return;
  if (run('npm', ['run', 'build', '--silent']) !== 0) throw new Error('The build failed.');
}
