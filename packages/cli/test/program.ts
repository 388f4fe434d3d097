// The command line as a program in one folder, as users install it, because a start from source takes seconds.
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../../scripts/lib/run.mjs';
import { compilePrograms, programDirectory } from '../../../test/support/programs.js';

/** Compiles the program. @returns its folder, and the file to run */
export async function compileProgram(): Promise<{ directory: string; file: string }> {
  const directory = programDirectory();
  await compilePrograms({
    entryPoints: [join(root, 'packages/cli/src/main.ts')],
    outdir: join(directory, 'dist'),
    splitting: true,
  });
  copyFileSync(join(root, 'packages/cli/package.json'), join(directory, 'package.json'));
  return { directory, file: join(directory, 'dist/main.mjs') };
}
