// Bundles the playground: the core with its own clock, the reader of logs, and the page.
import { join } from 'node:path';
import { build, type BuildOptions, type Plugin } from 'esbuild';
import { EDGE_SETTINGS } from '../../lib/edge.js';
import { root } from '../../lib/run.mjs';

const HERE = join(root, 'scripts/docs/playground');

/** Resolves imports of files in `from` to a file of this folder, before the settings of the edge build see them. */
const withSubstitute = (filter: RegExp, from: string, file: string): BuildOptions => {
  const substitute: Plugin = {
    name: file,
    setup({ onResolve }) {
      onResolve({ filter }, ({ importer }) =>
        importer.startsWith(join(root, from)) ? { path: join(HERE, file), sideEffects: false } : undefined,
      );
    },
  };
  return { ...EDGE_SETTINGS, format: 'esm', plugins: [substitute, ...EDGE_SETTINGS.plugins!] };
};

/** The bundles, by name: the real core with a virtual clock; the reader of access logs; the page. */
const BUNDLES: Readonly<Record<string, BuildOptions>> = {
  core: {
    ...withSubstitute(/\/real-time\.js$/, 'src', 'virtual-time.ts'),
    inject: [...EDGE_SETTINGS.inject!, join(HERE, 'virtual-globals.ts')],
    entryPoints: { core: join(HERE, 'core.ts') },
  },
  log: {
    ...withSubstitute(/^node:util$|^\.\.\/(errors|format)\.js$/, 'packages/cli', 'log-parts.ts'),
    entryPoints: { log: join(HERE, 'access-log.ts') },
  },
  page: {
    ...{ bundle: true, minify: true, format: 'esm', target: 'es2022' },
    entryPoints: { page: join(HERE, 'page/main.ts') },
  },
};

/** Writes `core.js`, `log.js` and `page.js`. */
export async function bundlePlayground(directory: string): Promise<void> {
  for (const options of Object.values(BUNDLES)) await build({ ...options, outdir: directory });
}
