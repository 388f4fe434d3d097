import { join } from 'node:path';
import { read, run } from './run.mjs';

/** Builds and packs the package into a directory. Returns the tarball's path, and the paths of its files. */
export function pack(directory: string): { tarball: string; files: string[] } {
  if (run('npm', ['run', 'build', '--silent']) !== 0) throw new Error('The build failed.');
  const report = read('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', directory]);
  if (report === undefined) throw new Error('npm pack failed.');
  const [{ filename, files }] = JSON.parse(report) as [{ filename: string; files: { path: string }[] }];
  return { tarball: join(directory, filename), files: files.map(({ path }) => path) };
}
