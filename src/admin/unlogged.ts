import type { Store } from '../contract/store.js';
import { wrap } from '../contract/wrap.js';
import { withFields, type OverrideFields } from './overrides/override-source.js';

/** The interface by which an operator makes changes. */
export type Origin = 'admin' | 'cli';

/**
 * A store for limiters of the administration: it is not announced, and changes are logged by the administration, with the operator. Each
 * limiter gets its own object, because limiters of one name may have different policies here.
 *
 * @param store the store of the service
 * @param owned whether closing the result closes the store
 * @param changes the fields of changes of overrides
 */
export function unlogged(store: Store, origin: Origin, owned: boolean, changes: OverrideFields = {}): Store {
  return wrap(store, {
    announce: undefined,
    reset: (subject) => store.reset(subject, false),
    ban: (subject, duration, note) => store.ban(subject, duration, note, false),
    overrides: withFields(store, { from: origin, ...changes }),
    ...(!owned && { close: undefined }),
  });
}
