import { readFile } from 'node:fs/promises';
import { transform } from 'esbuild';

/** What all supported versions of Node run. */
export const TARGET = 'node20';

/**
 * The code of a file without types and comments, which the package need not carry: what users read is in the declarations.
 *
 * @param {string} file
 * @returns {Promise<string>}
 */
export async function bareCode(file) {
  const loader = file.endsWith('ts') ? 'ts' : 'js';
  // Only so does esbuild leave out all comments. Who bundles the code prints it with whitespace again.
  const { code } = await transform(await readFile(file, 'utf8'), {
    loader,
    minifyWhitespace: true,
    target: TARGET,
  });
  return code;
}
