/** A connection to a server. After a loss, the server that answers next may not know the charges made through the connection. */
export interface SliceConnection {
  isLost: boolean;
}

/** The connections of a client by the names of the servers; `undefined` for the only server, and for an unknown server. */
export class Connections {
  readonly #open = new Map<string | undefined, SliceConnection>();

  to(server: string | undefined): SliceConnection {
    let connection = this.#open.get(server);
    if (!connection) this.#open.set(server, (connection = { isLost: false }));
    return connection;
  }

  /** @param server `undefined` if any connection may be lost */
  lose(server: string | undefined): void {
    // A charge on an unknown server may have been on the lost server.
    const lost = server === undefined ? [...this.#open.keys()] : [server, undefined];
    for (const name of lost) {
      const connection = this.#open.get(name);
      if (connection) connection.isLost = true;
      this.#open.delete(name);
    }
  }
}
