// Checks the packed package: its declarations in every module system, its manifest, its files, and the size of each sub-path.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { pack } from './lib/pack.js';
import { root, run } from './lib/run.mjs';

const directory = mkdtempSync(join(tmpdir(), 'headgate-package-'));
try {
  const { tarball } = pack(directory);
  process.exitCode =
    run('node_modules/.bin/publint', ['--strict', tarball]) ||
    run('node_modules/.bin/attw', ['--profile', 'node16', tarball]) ||
    Number(!(await checkSizes()));
} finally {
  rmSync(directory, { recursive: true });
}

/**
 * Prints the size of each sub-path as an application bundles it, with its libraries but without its peers. Resolves with whether all sub-paths
 * have a limit (scripts/sizes.json) and stay within it.
 */
async function checkSizes(): Promise<boolean> {
  const readJson = <T>(file: string) => JSON.parse(readFileSync(join(root, file), 'utf8')) as T;
  const { exports, peerDependencies } = readJson<{
    exports: Record<string, string | { import: string }>;
    peerDependencies: Record<string, string>;
  }>('package.json');
  const limits = readJson<Record<string, number>>('scripts/sizes.json');
  let allFit = true;
  console.log('sub-path, KiB minified, gzipped, limit');
  for (const [path, entry] of Object.entries(exports)) {
    if (typeof entry === 'string') continue;
    const { outputFiles } = await build({
      ...{ absWorkingDir: root, entryPoints: [entry.import], external: Object.keys(peerDependencies) },
      ...{ bundle: true, minify: true, write: false, platform: 'node', format: 'esm', logLevel: 'error' },
    });
    const contents = Buffer.concat(outputFiles.map((output) => output.contents));
    const gzipped = gzipSync(contents).length;
    const { [path]: limit = 0 } = limits;
    const within = gzipped <= limit * 1024;
    allFit &&= within;
    const sizes = [contents.length, gzipped].map((bytes) => (bytes / 1024).toFixed(1).padStart(6));
    console.log(path.padEnd(32), ...sizes, String(limit).padStart(5), within ? '' : 'TOO LARGE');
  }
  return allFit;
}
