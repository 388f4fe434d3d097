interface Emitter {
  on(event: string, listener: (detail?: unknown) => void): unknown;
  listenerCount?(event: string): number;
}

/** Remembers the last error of a client's connection. */
export class LastError {
  readonly #client: Emitter;
  #listens = false;
  #error: unknown;
  /** Called at the next error. */
  readonly next = new Set<() => void>();

  constructor(client: Emitter) {
    this.#client = client;
    // Listen only beside another listener. A client without listeners prints or throws its errors, and a listener would prevent both.
    if ((client.listenerCount?.('error') ?? 0) > 0) this.#listen();
    else client.on('newListener', (event) => void (event === 'error' && this.#listen()));
  }

  #listen(): void {
    if (this.#listens) return;
    this.#listens = true;
    this.#client.on('error', (error) => {
      this.#error = error;
      for (const listener of this.next) listener();
    });
    this.#client.on('ready', () => (this.#error = undefined));
  }

  /** Undefined if the client is well, or without another listener for the client's errors. */
  get(): unknown {
    return this.#error;
  }
}
