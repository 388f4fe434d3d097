// Checks the packed packages: declarations in every module system, manifests, files, and the size of each sub-path.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { PACKAGES } from './lib/library.js';
import { pack } from './lib/pack.js';
import { root, run } from './lib/run.mjs';

const directory = mkdtempSync(join(tmpdir(), 'headgate-package-'));
try {
  const isSound = pack(directory).map(
    ({ tarball }) =>
      run('node_modules/.bin/publint', ['--strict', tarball]) === 0 &&
      run('node_modules/.bin/attw', ['--profile', 'node16', tarball]) === 0,
  );
  console.log('sub-path, KiB minified, gzipped, limit');
  for (const folder of PACKAGES) isSound.push(await checkSizes(folder));
  process.exitCode = isSound.every(Boolean) ? 0 : 1;
} finally {
  rmSync(directory, { recursive: true });
}

/**
 * Prints the size of each sub-path in an application's bundle, with libraries but without peer dependencies. Resolves with `true` if every
 * sub-path of the package has a limit (scripts/sizes.json) and stays within its limit.
 */
async function checkSizes(folder: string): Promise<boolean> {
  const readJson = <T>(file: string) => JSON.parse(readFileSync(join(root, file), 'utf8')) as T;
  const { name, exports, peerDependencies } = readJson<{
    name: string;
    exports: Record<string, string | { import: string }>;
    peerDependencies: Record<string, string>;
  }>(join(folder, 'package.json'));
  const limits = readJson<Record<string, number>>('scripts/sizes.json');
  let allFit = true;
  for (const [path, entry] of Object.entries(exports)) {
    if (typeof entry === 'string') continue;
    const { outputFiles } = await build({
      ...{
        absWorkingDir: join(root, folder),
        entryPoints: [entry.import],
        external: Object.keys(peerDependencies),
      },
      ...{ bundle: true, minify: true, write: false, platform: 'node', format: 'esm', logLevel: 'error' },
    });
    const contents = Buffer.concat(outputFiles.map((output) => output.contents));
    const gzipped = gzipSync(contents).length;
    const subPath = folder === '.' ? path : join(name, path);
    const { [subPath]: limit = 0 } = limits;
    const within = gzipped <= limit * 1024;
    allFit &&= within;
    const sizes = [contents.length, gzipped].map((bytes) => (bytes / 1024).toFixed(1).padStart(6));
    console.log(subPath.padEnd(32), ...sizes, String(limit).padStart(5), within ? '' : 'TOO LARGE');
  }
  return allFit;
}
