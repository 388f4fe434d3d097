// What each sub-path costs its users, and what it may cost: a limit per sub-path, in scripts/sizes.json.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { root } from './run.mjs';

/** The sizes of one sub-path, in bytes, with the libraries that it brings, but without its peers.
 * @typedef {{ minified: number, gzipped: number }} Size */

/**
 * Bundles a sub-path of the built package as an application would.
 *
 * @param {string} file
 * @param {string[]} peers
 * @returns {Promise<Size>}
 */
async function sizeOf(file, peers) {
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: [file],
    bundle: true,
    minify: true,
    write: false,
    platform: 'node',
    format: 'esm',
    external: peers,
    logLevel: 'error',
  });
  const contents = Buffer.concat(outputFiles.map((output) => output.contents));
  return { minified: contents.length, gzipped: gzipSync(contents).length };
}

/**
 * Prints the size of each sub-path beside its limit.
 *
 * @returns {Promise<boolean>} whether all keep it, and all have one
 */
export async function checkSizes() {
  const manifest =
    /** @type {{ exports: Record<string, string | { import: string }>, peerDependencies: Record<string, string> }} */ (
      JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    );
  const limits = /** @type {Record<string, number>} */ (
    JSON.parse(readFileSync(join(root, 'scripts/sizes.json'), 'utf8'))
  );
  const peers = Object.keys(manifest.peerDependencies);
  let kept = true;
  console.log('sub-path, KiB minified, gzipped, limit');
  for (const [path, entry] of Object.entries(manifest.exports)) {
    if (typeof entry === 'string') continue;
    const { minified, gzipped } = await sizeOf(entry.import, peers);
    const limit = limits[path];
    const within = limit !== undefined && gzipped <= limit * 1024;
    kept &&= within;
    console.log(
      [
        path.padEnd(32),
        kib(minified),
        kib(gzipped),
        String(limit).padStart(5),
        within ? '' : 'TOO LARGE',
      ].join(' '),
    );
  }
  return kept;
}

/** @param {number} bytes */
function kib(bytes) {
  return (bytes / 1024).toFixed(1).padStart(6);
}
