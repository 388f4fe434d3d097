import { checkChoice, checkFunction, checkInteger, checkShape } from '../../common/validate.js';
import { compileWarnings, type Warn } from '../../common/warnings.js';
import { Memory } from './memory-store.js';
import type { MemoryStore, MemoryStoreOptions } from './options.js';

export type { MemoryStore, MemoryStoreOptions } from './options.js';

/**
 * A store in this process: for one process, for tests, and as a substitute while Redis is down.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`
 */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  checkShape('memoryStore', options, ['clock', 'maxKeys', 'onFull', 'warnings']);
  return makeMemoryStore(options, compileWarnings(options.warnings));
}

/** Like `memoryStore`, for options whose names were already checked. */
export function makeMemoryStore(options: MemoryStoreOptions, warn: Warn): MemoryStore {
  const { onFull: given = 'admit' } = options;
  const maxKeys =
    options.maxKeys === undefined ? 1e6 : checkInteger('memoryStore.maxKeys', options.maxKeys, 100, 16e6);
  const onFull = checkChoice('memoryStore.onFull', given, ['admit', 'deny']);
  const clock = checkFunction('memoryStore.clock', options.clock) ?? (() => Date.now());
  return new Memory(clock, maxKeys, onFull, warn);
}
