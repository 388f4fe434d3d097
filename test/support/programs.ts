// Programs in TypeScript that import Headgate by name, compiled once, because tsx would compile all of `src` at each start of a program.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
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

const children = new Map<string, Promise<string>>();

/** Compiles the program of child processes once per run. @param script a path from this folder, or a whole one. @returns the compiled file */
export function compileChild(script: string): Promise<string> {
  const entry = resolve(import.meta.dirname, script);
  let child = children.get(entry);
  if (!child) children.set(entry, (child = compile(entry)));
  return child;
}

async function compile(entry: string): Promise<string> {
  const outfile = join(programDirectory(), 'child.mjs');
  const tsconfig = resolve(import.meta.dirname, '../../tsconfig.json');
  await compilePrograms({ entryPoints: [entry], outfile, tsconfig });
  return outfile;
}
