import { prefixOf, type AdminSource } from 'headgate/admin';

/** Stands for the path of a file if it is unknown. */
const FILE = 'FILE';

/** The prefix of the command line's keys. */
const DEFAULT_PREFIX = 'hg';

/**
 * The options with which the command line opens a store. Empty for Redis, because the environment has its address. Null if the command line
 * cannot open the store: memory belongs to one process, and there is no option for PostgreSQL.
 */
export function flagsOf(source: AdminSource, prefix: string | undefined): readonly string[] | null {
  if (typeof source === 'string') return ['--sqlite', source];
  if ('prepare' in source) return ['--sqlite', pathOf(source)];
  // A client of Redis, apart from a store.
  if (!('decide' in source)) return prefixFlags(prefix);
  if ('clear' in source || 'setup' in source) return null;
  return 'whenReady' in source ? prefixFlags(prefixOf(source)) : ['--sqlite', FILE];
}

const prefixFlags = (prefix = DEFAULT_PREFIX): readonly string[] =>
  prefix === DEFAULT_PREFIX ? [] : ['--prefix', prefix];

/** The path of an open database: `name` of better-sqlite3, `location` of node:sqlite. */
function pathOf(database: object): string {
  const { name, location } = database as { name?: unknown; location?: () => unknown };
  const path = typeof name === 'string' ? name : typeof location === 'function' && location.call(database);
  return typeof path === 'string' && path !== '' && path !== ':memory:' ? path : FILE;
}
