// What each sub-path costs its users, and what it may cost: a limit per sub-path, in scripts/sizes.json.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { root } from './run.mjs';

/** @param {string} file */
function readJson(file) {
  /** @type {unknown} */
  const value = JSON.parse(readFileSync(join(root, file), 'utf8'));
  return value;
}

/**
 * Prints the size of each sub-path as an application bundles it, with the libraries that it brings, but without its peers.
 *
 * @returns {Promise<boolean>} whether all keep their limits, and all have one
 */
export async function checkSizes() {
  const { exports, peerDependencies } =
    /** @type {{ exports: Record<string, string | { import: string }>, peerDependencies: Record<string, string> }} */ (
      readJson('package.json')
    );
  const limits = /** @type {Record<string, number>} */ (readJson('scripts/sizes.json'));
  let kept = true;
  console.log('sub-path, KiB minified, gzipped, limit');
  for (const [path, entry] of Object.entries(exports)) {
    if (typeof entry === 'string') continue;
    const { outputFiles } = await build({
      ...{ absWorkingDir: root, entryPoints: [entry.import], external: Object.keys(peerDependencies) },
      ...{ bundle: true, minify: true, write: false, platform: 'node', format: 'esm', logLevel: 'error' },
    });
    const contents = Buffer.concat(outputFiles.map((output) => output.contents));
    const gzipped = gzipSync(contents).length;
    const limit = limits[path];
    const within = limit !== undefined && gzipped <= limit * 1024;
    kept &&= within;
    const sizes = [contents.length, gzipped].map((bytes) => (bytes / 1024).toFixed(1).padStart(6));
    console.log(path.padEnd(32), ...sizes, String(limit).padStart(5), within ? '' : 'TOO LARGE');
  }
  return kept;
}
