// A store of a test around another store.
import type { Store } from 'headgate';

/** The five methods that a store must have, so that it counts as a store on the network, with the test's own in place of some. */
export function around(inner: Store, own: Partial<Store> = {}): Store {
  return {
    decide: (query) => inner.decide(query),
    adjust: (change) => inner.adjust(change),
    lease: (change) => inner.lease(change),
    reset: (subject) => inner.reset(subject),
    ban: (subject, duration) => inner.ban(subject, duration),
    ...own,
  };
}
