/**
 * Makes a value when it is first needed. Random numbers and timers must not be used while modules load, nor while limiters are made:
 * Cloudflare Workers refuses both outside of requests.
 */
export function lazy<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | undefined;
  return () => (made ??= { value: make() }).value;
}

/** Makes a value once per object, and remembers the value as long as the object. */
export function oncePer<Owner extends object, Value>(make: (owner: Owner) => Value): (owner: Owner) => Value {
  const all = new WeakMap<Owner, { readonly value: Value }>();
  return (owner) => {
    let made = all.get(owner);
    if (!made) all.set(owner, (made = { value: make(owner) }));
    return made.value;
  };
}
