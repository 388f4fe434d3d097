/** What tells by events that it is closed: a socket, or a stream. */
interface Closing {
  once(event: string, listener: () => void): unknown;
}

/** The functions to call when a connection closes. */
const followers = new WeakMap<Closing, Set<() => void>>();

/**
 * Calls a function when a connection closes. All share one listener for each event: a connection may have any number of requests at a time, and
 * Node warns of more than ten listeners.
 *
 * @param events those that tell of the end: always the same for one connection
 * @returns a function that ends it
 */
export function follow(connection: Closing, events: readonly string[], closed: () => void): () => void {
  let all = followers.get(connection);
  if (!all) {
    const made = (all = new Set<() => void>());
    followers.set(connection, made);
    for (const event of events) connection.once(event, () => made.forEach((tell) => tell()));
  }
  const own = all.add(closed);
  return () => void own.delete(closed);
}
