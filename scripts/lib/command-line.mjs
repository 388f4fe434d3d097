// The command line is one file beside the library. It contains all libraries that the package does not depend on, so their licences ship, too.
import { chmodSync, cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { build } from 'esbuild';
import { TARGET } from './code.mjs';
import { root } from './run.mjs';

/** What a report's page is made of, beside the bundle. */
const page = [
  'node_modules/uplot/dist/uPlot.iife.min.js',
  'node_modules/uplot/dist/uPlot.min.css',
  'src/cli/replay/page/page.js',
  'src/cli/replay/page/page.css',
];

/**
 * Writes `cli`: the command line, the page of its reports, and the licences of what it contains.
 *
 * @param {string} program an ES module that imports the library by `./`
 * @param {string} packageDirectory where `cjs` has the library
 */
export async function writeCommandLine(program, packageDirectory) {
  const directory = join(packageDirectory, 'cli');
  const outfile = join(directory, 'headgate.js');
  const { dependencies } = /** @type {{ dependencies: Record<string, string> }} */ (
    JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  );
  const { metafile } = await build({
    absWorkingDir: root,
    stdin: { contents: program, resolveDir: root },
    outfile,
    bundle: true,
    metafile: true,
    platform: 'node',
    format: 'esm',
    target: TARGET,
    plugins: [libraryBeside],
    external: Object.keys(dependencies),
    legalComments: 'inline',
    logLevel: 'warning',
    // The names of functions stay, for stack traces.
    minify: true,
    keepNames: true,
    // CommonJS libraries in an ES module.
    banner: {
      js: "import { createRequire as bundleRequire } from 'node:module';\nconst require = bundleRequire(import.meta.url);",
    },
  });
  chmodSync(outfile, 0o755);
  for (const file of page) cpSync(join(root, file), join(directory, 'page', basename(file)));
  const packages = new Set(
    [...Object.keys(metafile.inputs), ...page].flatMap((input) => packageOf(input) ?? []),
  );
  const licences = [...packages].sort().map(licenceOf);
  writeFileSync(join(directory, 'THIRD-PARTY-LICENSES.txt'), licences.join('\n'));
}

/** @type {import('esbuild').Plugin} */
const libraryBeside = {
  name: 'library beside',
  setup({ onResolve }) {
    onResolve({ filter: /^\.\// }, ({ path, importer }) =>
      importer === '<stdin>' ? { path: `../cjs/${path.slice('./'.length)}`, external: true } : undefined,
    );
  },
};

/**
 * @param {string} input a file's path from the root
 * @returns {string | undefined} the directory of the package that it is from
 */
function packageOf(input) {
  return /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(input)?.[0];
}

/**
 * @param {string} directory
 * @returns {string}
 */
function licenceOf(directory) {
  const path = join(root, directory);
  const { name, version, license } = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'));
  const file = readdirSync(path).find((entry) => /^licen[cs]e([-.]|$)/i.test(entry));
  if (!file) throw new Error(`${directory} has no licence file: the command line may not ship it.`);
  const text = readFileSync(join(path, file), 'utf8').trim();
  return `${'='.repeat(80)}\n${name} ${version} (${license})\n\n${text}\n`;
}
