import type { Store } from '../contract/store.js';

/** The interface by which an operator makes changes. */
export type Origin = 'admin' | 'cli';

/**
 * A store for limiters of the administration: it is not announced, and changes are logged by the administration, with the operator. Each
 * limiter gets its own object, because limiters of one name may have different policies here.
 *
 * @param store the store of the service
 * @param undoes the id of the logged change that overrides undo
 * @param owned whether closing the result closes the store
 */
export function unlogged(store: Store, origin: Origin, owned: boolean, undoes?: string): Store {
  const { overrides } = store;
  return {
    ...(store.embedded && { embedded: true }),
    decide: (query) => store.decide(query),
    adjust: (change) => store.adjust(change),
    lease: (change) => store.lease(change),
    reset: (subject) => store.reset(subject, false),
    ban: (subject, duration, note) => store.ban(subject, duration, note, false),
    ...(overrides && {
      overrides: {
        read: (place) => overrides.read(place),
        change: (place, change) =>
          overrides.change(place, { ...change, from: origin, ...(undoes !== undefined && { undoes }) }),
      },
    }),
    checkDimensions: store.checkDimensions && ((set) => store.checkDimensions!(set)),
    ...(store.servers && { servers: () => store.servers!() }),
    ...(store.serverOf && { serverOf: (subject) => store.serverOf!(subject) }),
    ...(store.whenReady && { whenReady: () => store.whenReady!() }),
    ...(store.waitsFor && { waitsFor: () => store.waitsFor!() }),
    ...(owned && { close: () => store.close?.() }),
  };
}
