import { readFileSync, readdirSync } from 'node:fs';

/** A Lua file in its parts. A line such as `--- charge` begins another one. */
export interface LuaFile {
  /** What runs at every call: what nearly every decision needs, and no more. */
  readonly first: string;
  /** In an algorithm: decides the common case. In a script: what follows it. */
  readonly charge: string;
  /** What only limiters with overrides need; and what follows it in the first part. */
  readonly overrides: string;
  readonly costs: string;
  /** What limiters with overrides need if the first part has not answered. */
  readonly live: string;
  /** What runs only if the first part has not answered. Empty: the file has no other part. */
  readonly rest: string;
  /** What only scripts have that do more than to decide by one policy. */
  readonly changes: string;
}

/**
 * The Lua files by name. They are read when this module is loaded. A package that is built has no such files: there, the module holds their
 * texts (scripts/lib/library.ts).
 */
export const luaFiles: Readonly<Record<string, LuaFile>> = Object.fromEntries(
  ['../../algorithms/', './lua/'].flatMap((directory) => {
    const url = new URL(directory, import.meta.url);
    const names = readdirSync(url).filter((name) => name.endsWith('.lua'));
    return names.map((name) => [name.slice(0, -'.lua'.length), read(new URL(name, url))]);
  }),
);

function read(file: URL): LuaFile {
  const [first = '', ...others] = readFileSync(file, 'utf8').split(
    /^--- (?=(?:charge|overrides|costs|live|rest|changes)$)/m,
  );
  const part = (name: string): string =>
    bare((others.find((other) => other.startsWith(name)) ?? '').slice(name.length));
  return {
    first: bare(first),
    charge: part('charge'),
    overrides: part('overrides'),
    costs: part('costs'),
    live: part('live'),
    rest: part('rest'),
    changes: part('changes'),
  };
}

/** Without comments and indentation, which the server has no use for. */
function bare(lua: string): string {
  return lua.replace(/^\s*(--.*)?\n|^ +/gm, '');
}
