// Which modules of the bundle share a file. Rollup alone makes a file for each set of entry files that share modules. Node needs a third of a
// millisecond to find and read a file, so modules that a limiter needs anyway are in a few files, a file per layer.
import { join, relative } from 'node:path';
import type { ManualChunkMeta } from 'rollup';
import { partOf } from './lazy.js';
import { root } from './run.mjs';

/**
 * The files, from the lowest layer to the highest, with the entry files that need all of it, and those that need nothing of it (`!`). A module is
 * in the first file that fits. For a module that fits nowhere, rollup finds the file.
 */
const LAYERS: readonly (readonly [file: string, ...doors: string[]])[] = [
  ['errors', 'testing', 'express', 'index'],
  ['common', 'prometheus', 'express', 'index'],
  ['contract', 'redis', 'sqlite', 'stores', 'express', 'index'],
  ['state', 'stores', 'express', 'index', '!redis'],
  ['limiter', 'express', 'index', '!redis', '!stores'],
  ['clients', 'admin', 'compat/express-rate-limit', 'express', '!index', '!redis'],
  ['http', 'compat/express-rate-limit', 'express', '!index', '!admin'],
  ['middleware', 'http', 'express', '!index', '!admin', '!compat/express-rate-limit'],
];

/** Returns the function by which rollup assigns modules to files. */
export function chunksOf(folder: string): (id: string, meta: ManualChunkMeta) => string | undefined {
  const reached = new Map<string, ReadonlySet<string>>();
  return (id, { getModuleInfo }) => {
    const part = partOf(id);
    if (part !== undefined) return part;
    const isReached = (door: string): boolean => {
      let modules = reached.get(door);
      if (!modules) {
        const found = new Set([join(root, folder, `src/${door}.ts`)]);
        for (const each of found) for (const next of getModuleInfo(each)?.importedIds ?? []) found.add(next);
        reached.set(door, (modules = found));
      }
      return modules.has(id);
    };
    if (relative(root, id).startsWith('..')) return undefined;
    return LAYERS.find(([, ...doors]) => doors.every((door) => (door.startsWith('!') ? !isReached(door.slice(1)) : isReached(door))))?.[0];
  };
}
