// Builds the package. CommonJS holds the library, because every loader can load CommonJS: import, require, Jest, bundlers. The ES modules
// only re-export the library, so that a process has one copy, whichever loader it uses. The price: bundlers cannot leave out the unused
// parts of a sub-path. The command line is an ES module.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { transform } from 'esbuild';
import { rollup, type Plugin } from 'rollup';
import { dts } from 'rollup-plugin-dts';
import { pageFiles } from '../../packages/dashboard/src/page-files.js';
import { luaFiles } from '../../src/stores/redis/lua-files.js';
import { chunksOf } from './chunks.js';
import { bundleEdge, LUA_CHUNK, LUA_FILES } from './edge.js';
import { lazyModules } from './lazy.js';
import { root } from './run.mjs';

/** The modules that read files of the source. The packages have the texts of these files instead. */
const TEXTS: Readonly<Record<string, () => object>> = {
  [LUA_FILES]: () => ({ luaFiles }),
  'packages/dashboard/src/page-files.ts': () => ({ pageFiles }),
};
const require = createRequire(import.meta.url);

/** The syntax of the oldest supported version of Node. */
const TARGET = 'node20';

/** The packages of the repository that are built, by their folders. The first is `headgate`, which the others import. */
export const PACKAGES = ['.', 'packages/testing', 'packages/dashboard'];

/**
 * Builds `cjs` and `esm`, each with a file per sub-path, and the declarations of both. Resolves with whether the types are right.
 *
 * @param folder the package. The packages beside `headgate` need its last build
 */
export async function buildPackage(directory: string, folder = '.'): Promise<boolean> {
  const doors = listDoors(folder);
  const declared = declare(doors, directory, folder);
  await buildCode(directory, folder);
  for (const door of doors) writeFacade(door, directory);
  const edgeDoors = listDoors(folder, 'workerd');
  if (edgeDoors.length > 0) await bundleEdge(edgeDoors, directory);
  return declared;
}

/** Builds `cjs` of a package, without declarations. */
export async function buildCode(directory: string, folder = '.'): Promise<void> {
  await bundle(listDoors(folder), directory, folder);
  writeFileSync(join(directory, 'cjs/package.json'), '{ "type": "commonjs" }\n');
}

/** Builds the program of `headgate-cli`, one ES module, and the page of its reports. */
export async function buildProgram(directory: string): Promise<void> {
  const source = join(root, 'packages/cli/src');
  const bundled = await rollup({ ...BUNDLE, input: { headgate: join(source, 'main.ts') } });
  await bundled.write({ dir: directory, format: 'es' });
  await bundled.close();
  chmodSync(join(directory, 'headgate.js'), 0o755);
  for (const file of ['page.js', 'page.css'])
    cpSync(join(source, 'replay/page', file), join(directory, 'page', file));
}

/** The entry file of each sub-path with this condition, by its path in `src` and in `cjs`, without the extension. */
function listDoors(folder: string, condition = 'require'): string[] {
  const { exports } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')) as {
    exports: Record<string, string | Record<string, string>>;
  };
  return Object.values(exports)
    .flatMap((target) => (typeof target === 'string' ? [] : (target[condition] ?? [])))
    .map((file) => file.replace(/^\.\/dist\/\w+\//, '').slice(0, -'.js'.length));
}

/** Bundles the entry files. Code of several entry files goes to `shared`, so that an entry file loads only the code it uses. */
async function bundle(doors: string[], directory: string, folder: string): Promise<void> {
  const chunkOf = chunksOf(folder);
  const bundled = await rollup({
    ...BUNDLE,
    plugins: [lazyModules, ...BUNDLE.plugins],
    input: Object.fromEntries(doors.map((door) => [door, join(root, folder, `src/${door}.ts`)])),
  });
  await bundled.write({
    chunkFileNames: 'shared/[name].js',
    // The modules for edge runtimes import the texts of Lua from this file, so that the package holds the texts once.
    manualChunks: (id, meta) => (id === join(root, LUA_FILES) ? LUA_CHUNK : chunkOf(id, meta)),
    onlyExplicitManualChunks: true,
    minifyInternalExports: false,
    dir: join(directory, 'cjs'),
    format: 'cjs',
    exports: 'named',
    externalLiveBindings: false,
    generatedCode: 'es2015',
    hoistTransitiveImports: false,
    interop: 'default',
    // A stand-in for another limiter is called as `require` returns it.
    footer: ({ name, isEntry }) =>
      isEntry && name.startsWith('compat/')
        ? 'module.exports = Object.assign(exports.default, exports);'
        : '',
  });
  await bundled.close();
}

const readable: Plugin = {
  name: 'readable',
  resolveId: (source, importer) =>
    importer !== undefined && source.startsWith('.')
      ? resolve(dirname(importer), source.replace(/\.js$/, '.ts'))
      : undefined,
  load: async (id) => {
    const texts = TEXTS[relative(root, id)];
    if (!texts) return bareCode(id);
    return Object.entries(texts())
      .map(([name, value]) => `export const ${name} = ${JSON.stringify(value)};`)
      .join('\n');
  },
  renderChunk: async (code) => (await transform(code, { target: TARGET })).code,
};

/** The settings of every bundle: packages are imported, not copied. */
const BUNDLE = {
  external: (id: string) => !id.startsWith('.') && !id.startsWith(root),
  treeshake: { moduleSideEffects: false },
  plugins: [readable],
};

/** The code of a file without types and comments, which the package does not need: users read the declarations. */
async function bareCode(file: string): Promise<string> {
  const loader = file.endsWith('ts') ? 'ts' : 'js';
  // This is the only setting with which esbuild removes all comments. Bundling prints the code with whitespace again.
  const options = { loader, minifyWhitespace: true, target: TARGET } as const;
  return (await transform(await readFile(file, 'utf8'), options)).code;
}

/** Checks the types, and writes the declarations that an entry file refers to: a file per sub-path, and `shared`, as for the code. */
async function declare(doors: string[], directory: string, folder: string): Promise<boolean> {
  const types = join(directory, 'types');
  const args = ['--project', join(folder, 'tsconfig.build.json'), '--emitDeclarationOnly', '--outDir', types];
  // TypeScript 7 needs a sixth of the time, and with several threads twice as much work.
  const command = [join(root, 'node_modules/typescript-7/bin/tsc'), '--singleThreaded', ...args];
  const tsc = spawn(process.execPath, command, { cwd: root, stdio: 'inherit' });
  await once(tsc, 'close');
  const bundled = await rollup({
    external: BUNDLE.external,
    // The plugin warns of types in signatures that no sub-path exports.
    logLevel: 'silent',
    input: Object.fromEntries(doors.map((door) => [door, join(types, `${door}.d.ts`)])),
    plugins: [dts()],
  });
  await bundled.write({
    // The name of a chunk ends with `.d`.
    chunkFileNames: 'shared/[name].ts',
    minifyInternalExports: false,
    hoistTransitiveImports: false,
    dir: join(directory, 'cjs'),
  });
  await bundled.close();
  rmSync(types, { recursive: true });
  return tsc.exitCode === 0;
}

/** Writes the ES module of an entry file. It names its exports, which every loader and bundler understands. */
function writeFacade(door: string, directory: string): void {
  const implementation = join(directory, 'cjs', `${door}.js`);
  const facade = join(directory, 'esm', `${door}.js`);
  const from = `from '${relative(dirname(facade), implementation)}';\n`;
  const exported = require(implementation) as Record<string, unknown>;
  const names = Object.keys(exported).filter((name) => name !== 'default');
  // Loaders and bundlers disagree about the `default` of a CommonJS module, so the default has a name as well.
  const main = names.find((name) => exported[name] === exported['default']);
  if ('default' in exported && main === undefined)
    throw new Error(`${door}: export the default by a name, too.`);
  const defaults = main === undefined ? [] : [`${main} as default`];
  mkdirSync(dirname(facade), { recursive: true });
  writeFileSync(facade, `export { ${[...names, ...defaults].join(', ')} } ${from}`);
  const declared = [`export * ${from}`, ...defaults.map((name) => `export { ${name} } ${from}`)];
  writeFileSync(facade.replace(/\.js$/, '.d.ts'), declared.join(''));
}
