import { join } from 'node:path';
import { ensureBuilt } from './built.mjs';
import { read } from './run.mjs';

/** A packed package: the path of its tarball, and the paths of its files. */
export interface Packed {
  readonly name: string;
  readonly version: string;
  readonly tarball: string;
  readonly files: readonly string[];
}

/** Builds all packages of the repository, and packs them into a directory. The first is `headgate`. */
export function pack(directory: string): [Packed, ...Packed[]] {
  ensureBuilt();
  const options = ['--ignore-scripts', '--json', '--pack-destination', directory];
  const report = read('npm', ['pack', '--workspaces', ...options]);
  if (report === undefined) throw new Error('npm pack failed.');
  const packages = JSON.parse(report) as {
    name: string;
    version: string;
    filename: string;
    files: { path: string }[];
  }[];
  const packed = packages.map(({ name, version, filename, files }) => ({
    ...{ name, version, tarball: join(directory, filename) },
    files: files.map(({ path }) => path),
  }));
  const headgate = packed.find(({ name }) => name === 'headgate')!;
  return [headgate, ...packed.filter((each) => each !== headgate)];
}
