// Builds the ES modules for edge runtimes, which have no modules of Node, or only some. Bundlers choose these modules by the conditions
// `workerd` and `edge-light` of package.json, and leave out the unused parts.
import { cpSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { build, type BuildOptions } from 'esbuild';
import { luaFiles } from '../../src/stores/redis/lua-files.js';
import { root } from './run.mjs';

const EDGE = join(root, 'src/edge');

/** The module that holds the texts of Lua. */
export const LUA_FILES = 'src/stores/redis/lua-files.ts';

/** The name of the file in `cjs/shared` that holds the texts of Lua. */
export const LUA_CHUNK = 'lua-files';

/** The settings of a bundle without modules and globals of Node. */
export const EDGE_SETTINGS = edgeSettings(`export const luaFiles = ${JSON.stringify(luaFiles)};`);

/** @param lua the code in place of the module that reads Lua files */
function edgeSettings(lua: string): BuildOptions {
  return {
    ...{
      absWorkingDir: root,
      bundle: true,
      minify: true,
      target: 'es2022',
      legalComments: 'none',
      logLevel: 'error',
    },
    inject: [join(EDGE, 'globals.ts')],
    plugins: [
      {
        name: 'without Node',
        setup({ onResolve, onLoad }) {
          const substitutes: [RegExp, string][] = [
            [/^node:/, 'node-modules.ts'],
            [/\/real-time\.js$/, 'real-time.ts'],
          ];
          for (const [filter, file] of substitutes)
            onResolve({ filter }, () => ({ path: join(EDGE, file), sideEffects: false }));
          onLoad({ filter: /lua-files\.ts$/ }, () => ({ contents: lua }));
        },
      },
    ],
  };
}

/** Bundles the entry files, with the declarations of the ES modules of `directory`, and the texts of Lua of its CommonJS modules. */
export async function bundleEdge(doors: readonly string[], directory: string): Promise<void> {
  const outdir = join(directory, 'edge');
  const lua = join(directory, `cjs/shared/${LUA_CHUNK}.js`);
  // esbuild adapts a relative path to the place of the output.
  const path = relative(join(root, dirname(LUA_FILES)), lua);
  await build({
    ...edgeSettings(`import lua from ${JSON.stringify(path)}; export const { luaFiles } = lua;`),
    ...{ entryPoints: doors.map((door) => `src/${door}.ts`), outdir, outbase: 'src', packages: 'external' },
    ...{ format: 'esm', splitting: true, chunkNames: 'shared/[hash]', external: [lua] },
  });
  for (const door of doors) cpSync(join(directory, 'esm', `${door}.d.ts`), join(outdir, `${door}.d.ts`));
}
