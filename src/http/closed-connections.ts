/** An emitter of events about its closing: a socket, or a stream. Serverless platforms and mocks may have a plain object in its place. */
interface Closing {
  once?(event: string, listener: () => void): unknown;
}

const followers = new WeakMap<Closing, Set<() => void>>();

export function reportsClosing(connection: Closing | undefined): connection is Required<Closing> {
  return typeof connection?.once === 'function';
}

/**
 * Calls a function when a connection closes, if the connection reports closing. The callbacks of a connection share a listener per event,
 * because a connection may have any number of requests at a time, and Node warns of more than ten listeners.
 *
 * @param events the events of the closing, always the same for a connection
 * @returns a function that stops listening
 */
export function onClosed(connection: Closing, events: readonly string[], closed: () => void): () => void {
  if (!reportsClosing(connection)) return () => {};
  let all = followers.get(connection);
  if (!all) {
    const made = (all = new Set<() => void>());
    followers.set(connection, made);
    for (const event of events) connection.once(event, () => made.forEach((tell) => tell()));
  }
  const own = all.add(closed);
  return () => void own.delete(closed);
}
