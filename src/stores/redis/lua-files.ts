import { readFileSync, readdirSync } from 'node:fs';

/** A Lua file in its parts. A line such as `--- charge` begins another one. */
export interface LuaFile {
  /** The code that runs at every call and answers nearly every decision. */
  readonly first: string;
  /** In an algorithm: the code of the common case. In a script: the code that follows it. */
  readonly charge: string;
  /** The code that only limiters with overrides need, in the first part. */
  readonly overrides: string;
  readonly costs: string;
  /** The code that limiters with overrides need if the first part has not answered. */
  readonly live: string;
  /** The code that runs only if the first part has not answered. Empty if the file has no other part. */
  readonly rest: string;
  /** The code of scripts that do more than decide by one policy. */
  readonly changes: string;
}

/**
 * The Lua files by name, read when this module is loaded. A built package has no such files: there, the module itself holds their texts
 * (scripts/lib/library.ts).
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

/** Removes comments and indentation, which the server does not need. */
function bare(lua: string): string {
  return lua.replace(/^\s*(--.*)?\n|^ +/gm, '');
}
