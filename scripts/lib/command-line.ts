// The command line is one file beside the library. It contains all libraries that are not dependencies of the package, so their licences ship, too.
import { chmodSync, cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { build, type Plugin } from 'esbuild';
import { root } from './run.mjs';

/** The syntax that all supported versions of Node run. */
export const TARGET = 'node20';

/** The files of a report's page, beside the bundle. */
const page = [
  'node_modules/uplot/dist/uPlot.iife.min.js',
  'node_modules/uplot/dist/uPlot.min.css',
  'src/cli/replay/page/page.js',
  'src/cli/replay/page/page.css',
];

/**
 * Writes `cli`: the command line, the page of its reports, and the licences of its libraries.
 *
 * @param program an ES module that imports the library by `./`
 * @param packageDirectory the directory whose `cjs` has the library
 */
export async function writeCommandLine(program: string, packageDirectory: string): Promise<void> {
  const directory = join(packageDirectory, 'cli');
  const outfile = join(directory, 'headgate.js');
  const { dependencies } = manifestIn('.');
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

const libraryBeside: Plugin = {
  name: 'library beside',
  setup({ onResolve }) {
    onResolve({ filter: /^\.\// }, ({ path, importer }) =>
      importer === '<stdin>' ? { path: `../cjs/${path.slice('./'.length)}`, external: true } : undefined,
    );
  },
};

/** The directory of the package that contains a file. */
const packageOf = (file: string) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file)?.[0];

type Manifest = Readonly<Record<'name' | 'version' | 'license', string>> & {
  readonly dependencies: Readonly<Record<string, string>>;
};
const manifestIn = (directory: string) =>
  JSON.parse(readFileSync(join(root, directory, 'package.json'), 'utf8')) as Manifest;

function licenceOf(directory: string): string {
  const path = join(root, directory);
  const { name, version, license } = manifestIn(directory);
  const file = readdirSync(path).find((entry) => /^licen[cs]e([-.]|$)/i.test(entry));
  if (!file) throw new Error(`${directory} has no licence file: the command line may not ship it.`);
  const text = readFileSync(join(path, file), 'utf8').trim();
  return `${'='.repeat(80)}\n${name} ${version} (${license})\n\n${text}\n`;
}
