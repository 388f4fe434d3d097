import type { Commands, Done } from '../clients.js';
import { away, connection } from './away.js';

interface EvalOptions {
  keys: string[];
  arguments: string[];
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
  #reconnecting = false;
  #connecting: Promise<void> | undefined;

  constructor(client: NodeRedisLike) {
    this.#client = client;
    this.cluster = 'slots' in client;
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

  connected(): Promise<void> {
    if (!this.#client.isOpen) return Promise.reject(away('call its connect() first'));
    if (this.#reconnecting) return Promise.reject(away('it is reconnecting'));
    return (this.#connecting ??= connection(
      this.#client,
      [this.cluster ? 'connect' : 'ready'],
      ['reconnecting', 'end'],
    ).finally(() => (this.#connecting = undefined)));
  }

  evalsha(sha: string, keys: readonly string[], args: readonly string[], done: Done): void {
    const answer = this.#view.evalSha(sha, { keys: keys as string[], arguments: args as string[] });
    answer.then((reply) => done(undefined, reply), done);
  }

  eval(source: string, keys: readonly string[], args: readonly string[], done: Done): void {
    const answer = this.#view.eval(source, { keys: keys as string[], arguments: args as string[] });
    answer.then((reply) => done(undefined, reply), done);
  }
}
