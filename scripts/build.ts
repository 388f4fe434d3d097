// Builds each package into its dist/, which is replaced as a whole, so that no stale file stays.
import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { hashSource, markBuilt } from './lib/built.mjs';
import { buildPackage, buildProgram, PACKAGES } from './lib/library.js';
import { root } from './lib/run.mjs';

const hash = hashSource();
for (const folder of PACKAGES)
  await replace(folder, async (fresh) => {
    const typesAreRight = await buildPackage(fresh, folder);
    if (!typesAreRight) throw new Error(`The build of ${folder} has type errors.`);
  });
await replace('packages/cli', buildProgram);
markBuilt(hash);

async function replace(folder: string, build: (fresh: string) => Promise<void>): Promise<void> {
  const dist = join(root, folder, 'dist');
  const fresh = join(root, folder, `dist.${process.pid}`);
  try {
    await build(fresh);
    rmSync(dist, { recursive: true, force: true });
    renameSync(fresh, dist);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}
