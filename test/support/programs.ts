// Programs in TypeScript that import Headgate by name, compiled once, because tsx would compile all of `src` at each start of a program.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { build, type BuildOptions } from 'esbuild';
import { luaFiles } from '../../src/stores/redis/lua-files.js';

/** Creates a directory in which programs find all packages. The directory is removed at the end of this process. */
export function programDirectory(): string {
  const cache = new URL('../../node_modules/.cache/', import.meta.url).pathname;
  mkdirSync(cache, { recursive: true });
  const directory = mkdtempSync(`${cache}programs-`);
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Compiles programs to files that end in `.mjs`, and treats Lua files as the library's build does. */
export async function compilePrograms(options: BuildOptions): Promise<void> {
  const contents = `export const luaFiles = ${JSON.stringify(luaFiles)};`;
  await build({
    ...{ bundle: true, format: 'esm', platform: 'node', target: 'node20', packages: 'external' },
    ...{ outExtension: { '.js': '.mjs' }, logLevel: 'error' },
    plugins: [
      { name: 'Lua', setup: ({ onLoad }) => onLoad({ filter: /lua-files\.ts$/ }, () => ({ contents })) },
    ],
    ...options,
  });
}
