import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { root } from './run.mjs';

/**
 * Builds and packs the package.
 * @param {string} directory where the tarball goes
 * @returns {{ tarball: string, files: string[] }} its path, and the paths that it holds
 */
export function pack(directory) {
  const output = execFileSync('npm', ['pack', '--json', '--silent', '--pack-destination', directory], {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const reports = /** @type {[{ filename: string, files: { path: string }[] }]} */ (
    JSON.parse(output.slice(output.indexOf('[\n')))
  );
  const [{ filename, files }] = reports;
  return { tarball: join(directory, filename), files: files.map(({ path }) => path) };
}
