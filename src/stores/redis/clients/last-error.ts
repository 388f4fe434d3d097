interface Emitter {
  on(event: string, listener: (detail?: unknown) => void): unknown;
  listenerCount?(event: string): number;
}

/** Remembers what a client's connection has failed with. */
export class LastError {
  readonly #client: Emitter;
  #listens = false;
  #error: unknown;

  constructor(client: Emitter) {
    this.#client = client;
    // Only beside another listener: alone it would hide the error, which a client without listeners prints or throws.
    if ((client.listenerCount?.('error') ?? 0) > 0) this.#listen();
    else client.on('newListener', (event) => void (event === 'error' && this.#listen()));
  }

  #listen(): void {
    if (this.#listens) return;
    this.#listens = true;
    this.#client.on('error', (error) => (this.#error = error));
    this.#client.on('ready', () => (this.#error = undefined));
  }

  /** Undefined if the client is well, or if nobody listens to its errors. */
  get(): unknown {
    return this.#error;
  }
}
