// Builds the library into dist/cjs and dist/esm, and the command line into dist/cli; dist/ is replaced whole, so nothing stale stays.
import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { bundleCli } from './lib/bundle.mjs';
import { buildLibrary } from './lib/library.mjs';
import { root } from './lib/run.mjs';

const dist = join(root, 'dist');
const fresh = join(root, `dist.${process.pid}`);

try {
  const typesAreRight = await buildLibrary(fresh);
  if (!typesAreRight) throw new Error('The build has type errors.');
  await bundleCli(join(fresh, 'cli'));
  rmSync(dist, { recursive: true, force: true });
  renameSync(fresh, dist);
} finally {
  rmSync(fresh, { recursive: true, force: true });
}
