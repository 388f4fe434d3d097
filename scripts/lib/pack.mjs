import { join } from 'node:path';
import { read, run } from './run.mjs';

/**
 * Builds and packs the package.
 * @param {string} directory where the tarball goes
 * @returns {{ tarball: string, files: string[] }} its path, and the paths that it holds
 */
export function pack(directory) {
  if (run(process.execPath, ['scripts/build.mjs']) !== 0) throw new Error('The build failed.');
  const report = read('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', directory]);
  if (report === undefined) throw new Error('npm pack failed.');
  const [{ filename, files }] = /** @type {[{ filename: string, files: { path: string }[] }]} */ (
    JSON.parse(report)
  );
  return { tarball: join(directory, filename), files: files.map(({ path }) => path) };
}
