import { readFileSync, readdirSync } from 'node:fs';
import { basename, sep } from 'node:path';

/** The sections of a Lua file by name. A line such as `--- section charge` begins a section. The lines before are the section `first`. */
export type LuaFile = Readonly<Record<string, string>>;

/**
 * The Lua files by name, read when this module is loaded. A built package has no Lua files: the module itself holds the texts
 * (scripts/lib/library.ts).
 */
export const luaFiles: Readonly<Record<string, LuaFile>> = Object.fromEntries(
  ['../../algorithms/', '../../features/', './lua/'].flatMap((directory) => {
    const url = new URL(directory, import.meta.url);
    const names = readdirSync(url, { encoding: 'utf8', recursive: true });
    return names
      .filter((name) => name.endsWith('.lua'))
      .map((name) => [basename(name, '.lua'), read(new URL(name.replaceAll(sep, '/'), url))]);
  }),
);

function read(file: URL): LuaFile {
  const sections = `--- section first\n${readFileSync(file, 'utf8')}`.split(/^--- section /m).slice(1);
  return Object.fromEntries(
    sections.map((section) => {
      const [name] = /^\w+/.exec(section)!;
      return [name, bare(section.slice(name.length))];
    }),
  );
}

/** Removes comments and indentation, which the server does not need. Directives of scripts.ts stay. */
function bare(lua: string): string {
  return lua.replace(/^\s*(--(?!- [a-z]).*)?\n|^ +/gm, '');
}
