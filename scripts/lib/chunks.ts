// The files of the CommonJS bundle. Left alone, rollup makes a file for each set of entry files that share modules. Because Node needs a third of
// a millisecond to find and read a file, modules that every limiter needs are in a few files, a file per layer.
import { join } from 'node:path';
import type { ManualChunkMeta } from 'rollup';
import { root } from './run.mjs';

/** In each row a file, and two entry files. A module goes to the file of the first row whose entry files both import it; rollup places the rest. */
const LAYERS = [
  ['errors', 'testing', 'express'],
  ['common', 'prometheus', 'express'],
  ['contract', 'redis', 'express'],
  ['state', 'stores', 'express'],
  ['limiter', 'index', 'express'],
  ['http', 'admin', 'express'],
  ['http', 'compat/express-rate-limit', 'express'],
  ['middleware', 'fastify', 'express'],
] as const;

/** Returns the function by which rollup assigns modules to files. */
export function chunksOf(folder: string): (id: string, meta: ManualChunkMeta) => string | undefined {
  const imported = new Map<string, ReadonlySet<string>>();
  return (id, { getModuleInfo }) => {
    const isImportedBy = (door: string): boolean => {
      let modules = imported.get(door);
      if (!modules) {
        const found = new Set([join(root, folder, `src/${door}.ts`)]);
        for (const each of found) for (const next of getModuleInfo(each)?.importedIds ?? []) found.add(next);
        imported.set(door, (modules = found));
      }
      return modules.has(id);
    };
    return LAYERS.find(([, ...doors]) => doors.every(isImportedBy))?.[0];
  };
}
