// Builds the package into dist/, which is replaced as a whole, so that no stale file stays.
import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { buildPackage } from './lib/library.js';
import { root } from './lib/run.mjs';

const dist = join(root, 'dist');
const fresh = join(root, `dist.${process.pid}`);

try {
  const typesAreRight = await buildPackage(fresh);
  if (!typesAreRight) throw new Error('The build has type errors.');
  rmSync(dist, { recursive: true, force: true });
  renameSync(fresh, dist);
} finally {
  rmSync(fresh, { recursive: true, force: true });
}
