import { boolean, choice, custom, fn, integer, readOptions, type OptionTable } from '../../common/options.js';
import { checkShape } from '../../common/validate.js';
import { compileWarnings, type Warn, type Warnings } from '../../common/warnings.js';
import { CrossingList } from '../../features/thresholds/crossings.js';
import { STREAM_TABLE } from '../../features/thresholds/contract/stream-options.js';
import { Memory } from './memory-store.js';
import type { MemoryStore, MemoryStoreOptions } from './options.js';

export type { MemoryStore, MemoryStoreOptions } from './options.js';

export const MEMORY_TABLE = {
  clock: fn(),
  maxKeys: integer(100, 16e6, 1e6),
  onFull: choice(['admit', 'deny'], 'admit'),
  ...STREAM_TABLE,
  counts: boolean(true),
  warnings: custom('`false`, or an array of codes', (_, warnings) => compileWarnings(warnings as Warnings)),
} satisfies OptionTable<MemoryStoreOptions>;

/**
 * A store in this process: for one process, for tests, and as a substitute while Redis is down.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`
 */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  checkShape('memoryStore', options, Object.keys(MEMORY_TABLE));
  return makeMemoryStore(options, compileWarnings(options.warnings));
}

/** Like `memoryStore`, for options whose names were already checked. */
export function makeMemoryStore(options: MemoryStoreOptions, warn: Warn): MemoryStore {
  const { clock, maxKeys, onFull, thresholds, counts } = readOptions(MEMORY_TABLE, options, 'memoryStore.');
  const stream = thresholds ? new CrossingList() : undefined;
  return new Memory({ clock, maxKeys, onFull, warn, stream, counts });
}
