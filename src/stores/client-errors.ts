import { warnOnce } from '../common/warnings.js';

interface Emitter {
  on(event: string, listener: (detail?: unknown) => void): unknown;
  removeListener?(event: string, listener: (detail?: unknown) => void): unknown;
  listenerCount?(event: string): number;
}

/**
 * Listens for the errors of a client or a pool while a store uses it, because an error without a listener ends the process. A client has one
 * listener, however many stores use it.
 */
export class ClientErrors {
  /** The last error of the connection. Undefined if the client is well. */
  last: unknown;
  /** Called at the next error. */
  readonly next = new Set<() => void>();
  readonly #client: Emitter;
  readonly #name: string;
  #stores = 0;

  /** @param name of the client in the warning */
  constructor(client: Emitter, name: string) {
    this.#client = client;
    this.#name = name;
  }

  /** Listens for one more store. @returns ends it */
  listen(): () => void {
    if (this.#stores++ === 0) {
      this.#client.on('error', this.#learn);
      this.#client.on('ready', this.#forget);
    }
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      if (--this.#stores > 0) return;
      this.#client.removeListener?.('error', this.#learn);
      this.#client.removeListener?.('ready', this.#forget);
    };
  }

  readonly #learn = (error: unknown): void => {
    this.last = error;
    for (const listener of this.next) listener();
    if ((this.#client.listenerCount?.('error') ?? 0) > 1) return;
    const { message, code } = (error ?? {}) as { message?: string; code?: string };
    warnOnce(
      'HEADGATE_CLIENT_ERROR',
      `${this.#name} reported an error, to which only Headgate listens: ${message || code || String(error)}. Without a listener, ` +
        "an error may end the process. Add your own: client.on('error', (error) => console.error(error)).",
    );
  };

  readonly #forget = (): void => {
    this.last = undefined;
  };
}

const known = new WeakMap<object, ClientErrors>();

/** The errors of a client or a pool, the same object for each store. */
export function errorsOf(client: Emitter, name: string): ClientErrors {
  let errors = known.get(client);
  if (!errors) known.set(client, (errors = new ClientErrors(client, name)));
  return errors;
}
