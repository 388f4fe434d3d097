/**
 * Remembers the values created by `make`. Beyond `most` keys the memo is cleared, which needs no order of keys, and values are created
 * again when needed.
 *
 * @param make receives the key, and the remaining arguments of the call that needs the key's value
 */
export function memo<K, V, A extends readonly unknown[]>(
  most: number,
  make: (key: K, ...rest: A) => V,
): (key: K, ...rest: A) => V {
  const values = new Map<K, V>();
  return (key, ...rest) => {
    let value = values.get(key);
    if (value === undefined) {
      value = make(key, ...rest);
      if (values.size >= most) values.clear();
      values.set(key, value);
    }
    return value;
  };
}

/** Returns true at most once in `ms` for a key, or earlier if `most` keys came in between. */
export function sparingly(most: number, ms: number): (key: string) => boolean {
  const last = new Map<string, number>();
  return (key) => {
    const now = performance.now();
    if ((last.get(key) ?? -Infinity) > now - ms) return false;
    if (last.size >= most) last.clear();
    last.set(key, now);
    return true;
  };
}
