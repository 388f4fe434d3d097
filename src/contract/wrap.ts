import type { Store } from './store.js';

const MEMBERS: Readonly<Record<keyof Store, true>> = {
  ...{ embedded: true, health: true, remembersIds: true, overrides: true },
  ...{ decide: true, adjust: true, lease: true, reset: true, ban: true, usage: true },
  ...{ checkDimensions: true, servers: true, serverOf: true, whenReady: true, waitsFor: true },
  ...{ announce: true, keysOf: true, close: true },
};

/** The members of a store that differ from those of the store around which it is. An undefined member is missing. */
type Own = { readonly [Name in keyof Store]?: Store[Name] | undefined };

/** A store around another store, which has every member that `own` does not name. */
export function wrap(store: Store, own: Own): Store {
  const wrapped = {};
  for (const name of Object.keys(MEMBERS) as (keyof Store)[]) {
    const from = name in own ? own : store;
    const value: unknown = from[name];
    if (value === undefined) continue;
    // Other values than functions may change.
    const get = (): unknown => from[name];
    const isMethod = typeof value === 'function';
    const property = isMethod ? { value: value.bind(from) as unknown, writable: true } : { get };
    Object.defineProperty(wrapped, name, { ...property, configurable: true });
  }
  return wrapped as Store;
}
