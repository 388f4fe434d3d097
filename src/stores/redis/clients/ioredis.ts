import type { Writable } from 'node:stream';
import { HeadgateError } from '../../../common/errors.js';
import { withoutSecretFields } from '../../../common/shown.js';
import { errorsOf, type ClientErrors } from '../../client-errors.js';
import {
  isSignal,
  PASSED_DEADLINE,
  type Commands,
  type Hazard,
  type ScriptCall,
  type Server,
} from './commands.js';
import { slotOf } from './hash-slot.js';
import { away, connecting, connection } from './disconnected.js';
import { NEVER_RECONNECTS, NO_FAILOVER_DETECTOR, noSocketTimeout, ONE_SLOT } from './hazards.js';

/** The members that `redisStore` uses of an ioredis `Redis` or `Cluster` (version 5 or 6), or of iovalkey's. */
export interface IoredisLike {
  readonly status: string;
  readonly options: object;
  readonly stream?: Writable | null;
  connect(): Promise<unknown>;
  evalsha(sha: string, keyCount: number, ...args: string[]): Promise<unknown>;
  eval(source: string, keyCount: number, ...args: string[]): Promise<unknown>;
  on(event: string, listener: () => void): unknown;
  once(event: string, listener: () => void): unknown;
  removeListener(event: string, listener: () => void): unknown;
}

interface IoredisOptions {
  readonly host?: string;
  readonly port?: number;
  readonly keyPrefix?: string;
  readonly tls?: unknown;
  readonly stringNumbers?: boolean;
  readonly socketTimeout?: number;
  readonly retryStrategy?: unknown;
  readonly clusterRetryStrategy?: unknown;
  readonly redisOptions?: IoredisOptions;
  readonly sentinels?: unknown;
  readonly failoverDetector?: boolean;
}

/** A command object of ioredis, which encodes it again for each write. */
interface Command {
  readonly args: unknown[];
  setTimeout(ms: number): void;
  transformReply(reply: unknown): unknown;
}

interface Sender extends IoredisLike {
  sendCommand(command: Command, stream?: unknown): unknown;
}

interface Node extends IoredisLike {
  call(command: string, ...args: string[]): Promise<unknown>;
}

interface ClusterLike extends IoredisLike {
  /** The nodes of each slot. The primary comes first. */
  readonly slots: readonly (readonly string[] | undefined)[];
  nodes(role?: 'master'): readonly Node[];
  on(event: string, listener: (node: IoredisLike) => void): unknown;
}

/** A call without an answer from the server. */
interface Flight {
  readonly command: Command;
  readonly deadlineAt: number;
  readonly call: ScriptCall;
  /** The index among the calls under way. */
  at: number;
  /** Whether the connection of the call was lost. The call may have run. */
  lost: boolean;
}

function isCluster(client: IoredisLike): client is ClusterLike {
  return typeof (client as Partial<ClusterLike>).nodes === 'function';
}

/**
 * After a reconnect, ioredis writes unanswered commands again (`autoResendUnfulfilledCommands`; a Cluster after a failover), although the
 * server may have run the commands. When a connection is lost, this class therefore sets back the deadlines of the calls under way, so that
 * the server refuses the repeated calls.
 */
export class IoredisCommands implements Commands {
  readonly cluster: boolean;
  readonly #client: IoredisLike;
  readonly #errors: ClientErrors;
  /** The client with two changes: without autopipelining, which delays commands; and with each command passing through `#taken`. */
  readonly #sender: Sender;
  /** The client's options, with the options of a cluster's connections. */
  readonly #options: IoredisOptions;
  /** The calls under way, in no order. */
  readonly #flights: Flight[] = [];
  readonly #listeners = new Set<(server: string | undefined) => void>();
  #taken: Command | undefined;
  losses = 0;
  #connecting: Promise<void> | undefined;
  #nextReady: Promise<void> | undefined;

  constructor(client: IoredisLike) {
    this.#client = client;
    const sender = client as Sender;
    this.#sender = Object.create(client, {
      options: { value: Object.create(client.options, { enableAutoPipelining: { value: false } }) as object },
      sendCommand: {
        value: (command: Command, stream?: unknown) => {
          this.#taken = command;
          // Disables the client's `commandTimeout`: in a late process its timer fires before the reply is read, and the reply would be
          // lost.
          command.setTimeout = () => {};
          // Replaces the transformers of replies that an application may have set for all commands of a name.
          command.transformReply = textsOf;
          return sender.sendCommand(command, stream);
        },
      },
    }) as Sender;
    this.cluster = isCluster(client);
    const options = client.options as IoredisOptions;
    this.#options = { ...options.redisOptions, ...options };
    this.#errors = errorsOf(client, 'The client of redisStore');
    client.on('close', () => this.#lost());
    if (isCluster(client)) {
      const watch = (node: IoredisLike) => void node.on('close', () => this.#lost(nameOf(node)));
      client.nodes().forEach(watch);
      client.on('+node', watch);
    }
  }

  together(send: () => void): void {
    const nodes = isCluster(this.#client) ? this.#client.nodes() : [this.#client];
    const streams = nodes.flatMap(({ stream }) => stream ?? []);
    for (const stream of streams) stream.cork();
    try {
      send();
    } finally {
      for (const stream of streams) stream.uncork();
    }
  }

  ready(): boolean {
    return this.#client.status === 'ready';
  }

  whenReady(): Promise<void> {
    return (this.#nextReady ??= new Promise((resolve) => {
      this.#client.once('ready', () => {
        this.#nextReady = undefined;
        resolve();
      });
    }));
  }

  listen(): () => void {
    return this.#errors.listen();
  }

  onLost(listener: (server: string | undefined) => void): void {
    this.#listeners.add(listener);
  }

  connected(): Promise<void> {
    const { status } = this.#client;
    const error = this.#errors.last;
    // With `lazyConnect`, the first command connects.
    if (status === 'wait') this.#client.connect().catch(() => {});
    else if (status !== 'connecting' && status !== 'connect')
      return Promise.reject(away(`its status is "${status}"`, error));
    return (this.#connecting ??= connection(
      this.#client,
      { up: ['ready'], down: ['close', 'end'] },
      this.#errors,
      !this.cluster,
    ).finally(() => (this.#connecting = undefined)));
  }

  waitsFor(): string | undefined {
    return this.#connecting && connecting(Boolean(this.#options.tls));
  }

  servers(): readonly Server[] {
    const nodes = isCluster(this.#client) ? this.#client.nodes('master') : [this.#client as Node];
    return nodes.map((node) => ({
      name: nameOf(node),
      send: ([command = '', ...args]) => node.call(command, ...args).catch(rethrow),
    }));
  }

  get keyPrefix(): string {
    return this.#options.keyPrefix ?? '';
  }

  call(command: string, key: string, ...args: readonly string[]): Promise<unknown> {
    return (this.#client as Node).call(command, key, ...args).catch(rethrow);
  }

  serverOf(key: string): string | undefined {
    if (!isCluster(this.#client) || !this.ready()) return undefined;
    return this.#client.slots[slotOf(this.keyPrefix + key)]?.[0];
  }

  hazards(): Hazard[] {
    const { socketTimeout, keyPrefix = '', retryStrategy, clusterRetryStrategy } = this.#options;
    const { sentinels, failoverDetector } = this.#options;
    const hazards: Hazard[] = [];
    if (!socketTimeout)
      hazards.push(
        noSocketTimeout(this.cluster ? 'redisOptions: { socketTimeout: 5000 }' : 'socketTimeout: 5000'),
      );
    if (typeof (this.cluster ? clusterRetryStrategy : retryStrategy) !== 'function')
      hazards.push(NEVER_RECONNECTS);
    if (this.cluster && keyPrefix.includes('{')) hazards.push(ONE_SLOT);
    if (sentinels && !failoverDetector) hazards.push(NO_FAILOVER_DETECTOR);
    return hazards;
  }

  run(command: 'eval' | 'evalsha', script: string, call: ScriptCall): void {
    const { keys, args } = call;
    args[0] = call.deadline();
    const answer = this.#sender[command](script, keys.length, ...keys, ...args);
    const flight: Flight = {
      command: this.#taken!,
      deadlineAt: keys.length + 2,
      call,
      at: this.#flights.length,
      lost: false,
    };
    this.#taken = undefined;
    this.#flights.push(flight);
    answer.then(
      (reply) => {
        if (!this.#landed(flight)) return;
        // The server has refused the repeated call. The first one may have run.
        if (flight.lost && isSignal(reply)) call.done(connectionLost());
        else call.done(undefined, this.#options.stringNumbers ? numbersOf(reply) : reply);
      },
      (error: Error) => {
        if (this.#landed(flight)) call.done(flight.lost ? connectionLost(error) : refusalOf(error));
      },
    );
  }

  /** Ends a call. @returns false if the call has already ended because its connection was lost */
  #landed(flight: Flight): boolean {
    if (this.#flights[flight.at] !== flight) return false;
    const last = this.#flights.pop()!;
    if (last !== flight) {
      this.#flights[flight.at] = last;
      last.at = flight.at;
    }
    return true;
  }

  /** @param server the server of the connection; `undefined` for the only server, or for every server of a cluster */
  #lost(server?: string): void {
    this.losses++;
    for (const listener of this.#listeners) listener(server);
    // Other nodes of a cluster may still answer.
    const lost = this.cluster ? this.#flights : this.#flights.splice(0);
    for (const flight of lost) {
      flight.command.args[flight.deadlineAt] = PASSED_DEADLINE;
      flight.lost = true;
      if (!this.cluster) flight.call.done(connectionLost());
    }
  }
}

/** The name of a node in the client's table of slots. */
function nameOf({ options }: IoredisLike): string {
  const { host, port } = options as IoredisOptions;
  return `${host}:${port}`;
}

/** The last refusal of a call that a Cluster repeated until giving up. Servers have refused the call each time. */
function refusalOf(error: Error): Error {
  const [, words] = /^Too many Cluster redirections\. Last error: (?:\w+: )?(.*)$/s.exec(error.message) ?? [];
  return words === undefined ? discreet(error) : new Error(words, { cause: discreet(error) });
}

/** The client's error without the command, whose arguments can be passwords and keys of clients. */
const discreet = (error: Error): Error => withoutSecretFields(error) as Error;

function rethrow(error: Error): never {
  throw discreet(error);
}

function connectionLost(cause?: Error): HeadgateError {
  return new HeadgateError('HEADGATE_STORE_AWAY', 'The connection was lost while the store decided.', {
    cause,
  });
}

/** A reply with texts in place of buffers. */
function textsOf(reply: unknown): unknown {
  if (reply instanceof Buffer) return reply.toString();
  if (Array.isArray(reply))
    for (let i = 0; i < reply.length; i++) if (typeof reply[i] === 'object') reply[i] = textsOf(reply[i]);
  return reply;
}

function numbersOf(reply: unknown): unknown {
  if (Array.isArray(reply)) return reply.map(numbersOf);
  return typeof reply === 'string' && /^-?\d+$/.test(reply) ? Number(reply) : reply;
}
