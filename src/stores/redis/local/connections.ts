/** A connection to a server. After its loss, the server that answers next may not know the charges made through this connection. */
export interface Connection {
  isLost: boolean;
}

/** The connections of a client by the names of their servers; `undefined` for the only server, and for an unknown one. */
export class Connections {
  readonly #open = new Map<string | undefined, Connection>();

  to(server: string | undefined): Connection {
    let connection = this.#open.get(server);
    if (!connection) this.#open.set(server, (connection = { isLost: false }));
    return connection;
  }

  /** @param server `undefined` if any connection may be lost */
  lose(server: string | undefined): void {
    // A charge on an unknown server may have been on this one.
    const lost = server === undefined ? [...this.#open.keys()] : [server, undefined];
    for (const name of lost) {
      const connection = this.#open.get(name);
      if (connection) connection.isLost = true;
      this.#open.delete(name);
    }
  }
}
