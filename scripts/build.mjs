// Compiles src/ twice, into dist/esm and dist/cjs, side by side, and bundles the command line into dist/cli; dist/ is replaced whole, so nothing stale stays.
import { spawn } from 'node:child_process';
import { appendFileSync, existsSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundleCli } from './lib/bundle.mjs';
import { root } from './lib/run.mjs';

const tsc = join(root, 'node_modules/typescript/bin/tsc');
const dist = join(root, 'dist');
const fresh = join(root, `dist.${process.pid}`);

const results = await Promise.all([
  compile('tsconfig.build.json', 'esm'),
  compile('tsconfig.cjs.json', 'cjs'),
]);
if (results.every((status) => status === 0)) {
  writeFileSync(join(fresh, 'cjs/package.json'), '{ "type": "commonjs" }\n');
  callable(join(fresh, 'cjs/compat'));
  await bundleCli(join(fresh, 'cli'));
  rmSync(dist, { recursive: true, force: true });
  renameSync(fresh, dist);
} else {
  rmSync(fresh, { recursive: true, force: true });
  process.exitCode = 1;
}

/**
 * @param {string} project
 * @param {string} directory
 * @returns {Promise<number | null>}
 */
function compile(project, directory) {
  const args = [tsc, '--project', project, '--outDir', join(fresh, directory)];
  return new Promise((resolve) => {
    spawn(process.execPath, args, { cwd: root, stdio: 'inherit' }).once('close', resolve);
  });
}

/**
 * What these stand in for is called as `require` returns it.
 *
 * @param {string} directory
 */
function callable(directory) {
  if (!existsSync(directory)) return;
  for (const file of readdirSync(directory).filter((name) => name.endsWith('.js'))) {
    appendFileSync(join(directory, file), 'module.exports = Object.assign(exports.default, exports);\n');
  }
}
