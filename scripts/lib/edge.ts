// Builds the ES modules for edge runtimes, which have no modules of Node, or only some. Bundlers choose these modules by the conditions
// `workerd` and `edge-light` of package.json, and leave out the unused parts.
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { build, type BuildOptions } from 'esbuild';
import { luaFiles } from '../../src/stores/redis/lua-files.js';
import { root } from './run.mjs';

const EDGE = join(root, 'src/edge');

/** The settings of a bundle without modules and globals of Node. */
export const EDGE_SETTINGS: BuildOptions = {
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
        const contents = `export const luaFiles = ${JSON.stringify(luaFiles)};`;
        onLoad({ filter: /lua-files\.ts$/ }, () => ({ contents }));
      },
    },
  ],
};

/** Bundles the entry files, with the declarations of the ES modules of `directory`. */
export async function bundleEdge(doors: readonly string[], directory: string): Promise<void> {
  const outdir = join(directory, 'edge');
  await build({
    ...EDGE_SETTINGS,
    ...{ entryPoints: doors.map((door) => `src/${door}.ts`), outdir, outbase: 'src', packages: 'external' },
    ...{ format: 'esm', splitting: true, chunkNames: 'shared/[hash]' },
  });
  for (const door of doors) cpSync(join(directory, 'esm', `${door}.d.ts`), join(outdir, `${door}.d.ts`));
}
