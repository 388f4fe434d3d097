// Builds each package into its dist/, which is replaced as a whole, so that no stale file stays.
import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { buildPackage, PACKAGES } from './lib/library.js';
import { root } from './lib/run.mjs';

for (const folder of PACKAGES) {
  const dist = join(root, folder, 'dist');
  const fresh = join(root, folder, `dist.${process.pid}`);
  try {
    const typesAreRight = await buildPackage(fresh, folder);
    if (!typesAreRight) throw new Error(`The build of ${folder} has type errors.`);
    rmSync(dist, { recursive: true, force: true });
    renameSync(fresh, dist);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}
