interface Emitter {
  on(event: string, listener: (error?: unknown) => void): unknown;
  listenerCount?(event: string): number;
}

/** Remembers what a client's connection has failed with. */
export class LastError {
  readonly #client: Emitter;
  #listens = false;
  #error: unknown;

  constructor(client: Emitter) {
    this.#client = client;
  }

  /** Undefined if the client is well, or if nobody listens to its errors. */
  get(): unknown {
    // Only beside another listener: alone it would hide the error, which a client without listeners prints or throws.
    if (!this.#listens && (this.#client.listenerCount?.('error') ?? 0) > 0) {
      this.#listens = true;
      this.#client.on('error', (error) => (this.#error = error));
      this.#client.on('ready', () => (this.#error = undefined));
    }
    return this.#error;
  }
}
