import type { Commands, Done, Written } from '../clients.js';
import { away, connection } from './away.js';

interface EvalOptions {
  keys: string[];
  arguments: (string | Buffer)[];
}

/** What `redisStore` takes of node-redis: a `createClient()` or a `createCluster()` of the package `redis`. */
export interface NodeRedisLike {
  readonly isOpen: boolean;
  evalSha(sha: string, options: EvalOptions): Promise<unknown>;
  eval(source: string, options: EvalOptions): Promise<unknown>;
  on(event: string, listener: () => void): unknown;
  once(event: string, listener: () => void): unknown;
  removeListener(event: string, listener: () => void): unknown;
}

/** What clients have from version 5 on. */
interface WithOptions {
  readonly isReady?: boolean;
  withCommandOptions?(options: { timeout: undefined; typeMapping: undefined }): NodeRedisLike;
}

/** node-redis never writes a command twice; what it could not write it writes later, and the deadline makes that harmless. */
export class NodeRedisCommands implements Commands {
  readonly cluster: boolean;
  readonly #client: NodeRedisLike & WithOptions;
  /** The same client and connection, with options for these commands. */
  readonly #view: NodeRedisLike;
  /** The event that tells that it is ready. */
  readonly #up: string;
  #reconnecting = false;
  #connecting: Promise<void> | undefined;
  #nextReady: Promise<void> | undefined;

  constructor(client: NodeRedisLike) {
    this.#client = client;
    this.cluster = 'slots' in client;
    this.#up = this.cluster ? 'connect' : 'ready';
    const { withCommandOptions } = this.#client;
    // Its own timeout costs as much as the command; the store has one. A cluster keeps it: it bounds what waits for a node.
    this.#view =
      withCommandOptions && !this.cluster
        ? withCommandOptions.call(client, { timeout: undefined, typeMapping: undefined })
        : client;
    client.on('reconnecting', () => (this.#reconnecting = true));
    client.on('ready', () => (this.#reconnecting = false));
  }

  // The client itself writes at the end of a turn what was sent in it.
  together(send: () => void): void {
    send();
  }

  ready(): boolean {
    return this.#client.isReady ?? this.#client.isOpen;
  }

  whenReady(): Promise<void> {
    return (this.#nextReady ??= new Promise((resolve) => {
      this.#client.once(this.#up, () => {
        this.#nextReady = undefined;
        resolve();
      });
    }));
  }

  connected(): Promise<void> {
    if (!this.#client.isOpen) return Promise.reject(away('call its connect() first'));
    if (this.#reconnecting) return Promise.reject(away('it is reconnecting'));
    return (this.#connecting ??= connection(this.#client, [this.#up], ['reconnecting', 'end']).finally(
      () => (this.#connecting = undefined),
    ));
  }

  run(
    command: 'eval' | 'evalsha',
    script: string,
    keys: readonly string[],
    [, ...args]: string[],
    written: Written,
    done: Done,
  ): void {
    const options = {
      keys: keys as string[],
      arguments: [new WhenWritten(written) as unknown as Buffer, ...args],
    };
    const answer =
      command === 'eval' ? this.#view.eval(script, options) : this.#view.evalSha(script, options);
    answer.then((reply) => done(undefined, reply), done);
  }
}

/** Room for any moment in ms, and for a step in microseconds with its sign. */
const DIGITS = 20;

/**
 * An argument that is filled in when the client encodes it, for which it asks its length: the client writes a turn of the event
 * loop later than it was told to, and nobody knows how long that turn takes.
 */
class WhenWritten extends Uint8Array {
  #written: Written | undefined;

  constructor(written: Written) {
    super(DIGITS);
    this.#written = written;
  }

  override get length(): number {
    if (this.#written) {
      const text = this.#written().padEnd(DIGITS);
      this.#written = undefined;
      for (let i = 0; i < DIGITS; i++) this[i] = text.charCodeAt(i);
    }
    return DIGITS;
  }
}
// For clients it is a Buffer. A `length` defined on each would cost several times as much as the call.
Object.setPrototypeOf(WhenWritten.prototype, Buffer.prototype as object);
