import { setImmediate } from '../common/real-time.js';

/** Resolves when other requests of this process have had a turn. Fake timers of tests do not delay this. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(() => resolve()));
