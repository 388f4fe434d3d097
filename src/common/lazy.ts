/**
 * Makes a value when it is first needed. Random numbers and timers must not be used while modules load, nor while limiters are made:
 * Cloudflare Workers refuses both outside of requests.
 */
export function lazy<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | undefined;
  return () => (made ??= { value: make() }).value;
}
