import { errorsOf, type ClientErrors } from '../../client-errors.js';
import type { Commands, Hazard, ScriptCall, Server } from './commands.js';
import { slotOf } from './hash-slot.js';
import { away, connecting, connection } from './disconnected.js';
import { NEVER_RECONNECTS, noSocketTimeout, ONE_SLOT } from './hazards.js';

interface EvalOptions {
  keys: string[];
  arguments: (string | Buffer)[];
}

/** The members that `redisStore` uses of node-redis: a `createClient()` or a `createCluster()` of the package `redis`. */
export interface NodeRedisLike {
  readonly isOpen: boolean;
  evalSha(sha: string, options: EvalOptions): Promise<unknown>;
  eval(source: string, options: EvalOptions): Promise<unknown>;
  on(event: string, listener: (detail?: unknown) => void): unknown;
  once(event: string, listener: () => void): unknown;
  removeListener(event: string, listener: () => void): unknown;
}

interface Options {
  readonly socket?: {
    readonly tls?: unknown;
    readonly socketTimeout?: number;
    readonly reconnectStrategy?: unknown;
  };
  readonly pingInterval?: number;
}

interface Node {
  readonly address: string;
  readonly client?: Client | undefined;
  /** Set while the client connects for the first time. */
  readonly connectPromise?: Promise<unknown> | undefined;
}

interface Client extends NodeRedisLike {
  /** Only for clusters, since version 6. */
  readonly isReady?: boolean;
  withCommandOptions(options: { timeout: undefined; typeMapping: undefined }): NodeRedisLike;
  withTypeMapping(typeMapping: undefined): Client;
  sendCommand(command: readonly string[]): Promise<unknown>;
  readonly options?: Options;
  /** Since version 6. */
  readonly _keyPrefix?: string | undefined;
}

interface Cluster extends Omit<Client, 'sendCommand' | 'withTypeMapping'> {
  withTypeMapping(typeMapping: undefined): Cluster;
  /** @param firstKey a key of the server; `undefined` for any server */
  sendCommand(
    firstKey: string | undefined,
    isReadonly: boolean,
    command: readonly string[],
  ): Promise<unknown>;
  readonly slots: readonly ({ readonly master: Node } | undefined)[];
  readonly masters: readonly Node[];
  nodeClient(node: Node): Client | Promise<Client>;
  readonly _options?: { readonly defaults?: Options; readonly nodeAddressMap?: AddressMap };
}

interface Address {
  readonly host: string;
  readonly port: number;
}

/** The addresses at which the client reaches nodes that announce a different address. */
type AddressMap = Readonly<Record<string, Address | undefined>> | ((address: string) => Address | undefined);

function isCluster(client: Client | Cluster): client is Cluster {
  return 'slots' in client;
}

/** node-redis never writes a command twice, but may write one late, which the deadline makes harmless. */
export class NodeRedisCommands implements Commands {
  readonly cluster: boolean;
  readonly #client: Client | Cluster;
  /** The same client and connection without the user's mapping of replies. */
  readonly #plain: Client | Cluster;
  /** The same for scripts, with separate options. */
  readonly #sender: NodeRedisLike;
  readonly #up: string;
  readonly #errors: ClientErrors;
  losses = 0;
  #reconnecting = false;
  #connecting: Promise<void> | undefined;
  #isFinding = false;
  #nextReady: Promise<void> | undefined;

  constructor(client: NodeRedisLike) {
    this.#client = client as Client;
    this.cluster = isCluster(this.#client);
    this.#up = this.cluster ? 'connect' : 'ready';
    // The client's own timeout costs as much as the command, and the store already has a timeout. A cluster keeps the client's timeout,
    // which also bounds the wait for a node.
    this.#plain = this.#client.withTypeMapping(undefined);
    this.#sender = this.cluster
      ? this.#plain
      : this.#client.withCommandOptions({ timeout: undefined, typeMapping: undefined });
    this.#errors = errorsOf(client, 'The client of redisStore');
    for (const event of this.#down) client.on(event, () => this.losses++);
    client.on('reconnecting', () => (this.#reconnecting = true));
    client.on('ready', () => (this.#reconnecting = false));
  }

  // The client collects the commands of a turn of the event loop, and writes them at its end.
  together(send: () => void): void {
    send();
  }

  ready(): boolean {
    const client = this.#client;
    // A cluster of version 5 is open while it still looks for its servers.
    return client.isReady ?? (client.isOpen && (!isCluster(client) || client.masters.length > 0));
  }

  whenReady(): Promise<void> {
    return (this.#nextReady ??= new Promise((resolve) => {
      this.#client.once(this.#up, () => {
        this.#nextReady = undefined;
        resolve();
      });
    }));
  }

  listen(): () => void {
    return this.#errors.listen();
  }

  get #down(): readonly string[] {
    return this.cluster ? ['node-reconnecting', 'node-disconnect'] : ['reconnecting', 'end'];
  }

  onLost(listener: (server: string | undefined) => void): void {
    const client = this.#client;
    const nameOf = (at: unknown) => (isCluster(client) ? nameAt(client, at as Address) : undefined);
    for (const event of this.#down) client.on(event, (at) => listener(nameOf(at)));
  }

  connected(): Promise<void> {
    if (!this.#client.isOpen) return Promise.reject(away('call its connect() first'));
    const error = this.#errors.last;
    if (this.#reconnecting) return Promise.reject(away('it is reconnecting', error));
    return (this.#connecting ??= connection(
      this.#client,
      { up: [this.#up], down: ['reconnecting', 'end'] },
      this.#errors,
      !this.cluster,
    ).finally(() => (this.#connecting = undefined)));
  }

  waitsFor(): string | undefined {
    return this.#connecting && connecting(Boolean(this.#options.socket?.tls));
  }

  get #options(): Options {
    const client = this.#client;
    return (isCluster(client) ? client._options?.defaults : client.options) ?? {};
  }

  servers(): readonly Server[] {
    const client = this.#plain;
    if (!isCluster(client)) return [{ name: '', send: (command) => client.sendCommand(command) }];
    return client.masters.map((node) => ({
      name: node.address,
      send: async (command) =>
        (await client.nodeClient(node)).withTypeMapping(undefined).sendCommand(command),
    }));
  }

  get keyPrefix(): string {
    return this.#client._keyPrefix ?? '';
  }

  call(command: string, key: string, ...args: readonly string[]): Promise<unknown> {
    const client = this.#plain;
    const whole = this.keyPrefix + key;
    const words = [command, whole, ...args];
    return isCluster(client) ? client.sendCommand(whole, false, words) : client.sendCommand(words);
  }

  serverOf(key: string): string | undefined {
    return this.ready() ? this.#nodeOf(key)?.address : undefined;
  }

  #nodeOf(key: string): Node | undefined {
    const client = this.#client;
    return isCluster(client) ? client.slots[slotOf(this.keyPrefix + key)]?.master : undefined;
  }

  /** Makes the client look up the server of a slot. A client with an outdated table does so only after a server refuses a key. */
  #findServerOf(client: Cluster, key: string): void {
    if (this.#isFinding) return;
    this.#isFinding = true;
    const done = (): void => void (this.#isFinding = false);
    client.sendCommand(undefined, false, ['GET', key]).then(done, done);
  }

  hazards(): Hazard[] {
    const client = this.#client;
    const { socket, pingInterval } = this.#options;
    const { socketTimeout, reconnectStrategy } = socket ?? {};
    const hazards: Hazard[] = [];
    if (!socketTimeout) hazards.push(noSocketTimeout(EXAMPLE));
    else {
      if (!pingInterval || pingInterval >= socketTimeout) hazards.push(IDLE);
      if (reconnectStrategy === undefined) hazards.push(GIVES_UP);
    }
    if (reconnectStrategy === false) hazards.push(NEVER_RECONNECTS);
    if (this.cluster && client._keyPrefix?.includes('{')) hazards.push(ONE_SLOT);
    return hazards;
  }

  run(command: 'eval' | 'evalsha', script: string, call: ScriptCall): void {
    const { keys } = call;
    const node = this.#nodeOf(keys[0]!);
    if (!node && isCluster(this.#client)) {
      this.#findServerOf(this.#client, keys[0]!);
      call.done(away("it knows no server of the key's slot"));
      return;
    }
    // The client would keep the call until it is connected again.
    if (node?.client?.isReady === false && !node.connectPromise) {
      call.done(away(`${node.address} is reconnecting`));
      return;
    }
    const options = {
      keys: keys as string[],
      arguments: [new WhenWritten(call) as unknown as Buffer, ...call.args.slice(1)],
    };
    const answer =
      command === 'eval' ? this.#sender.eval(script, options) : this.#sender.evalSha(script, options);
    answer.then(
      (reply) => call.done(undefined, reply),
      (error: Error) => call.done(error),
    );
  }
}

/** The announced address of the node that a client reaches at an address. `undefined` if the node is unknown. */
function nameAt({ masters, _options }: Cluster, { host, port }: Address): string | undefined {
  const map = _options?.nodeAddressMap;
  if (!map) return `${host}:${port}`;
  const reached = (address: string) => (typeof map === 'function' ? map(address) : map[address]);
  return masters.find(({ address }) => {
    const at = reached(address);
    return at ? at.host === host && at.port === port : address === `${host}:${port}`;
  })?.address;
}

const EXAMPLE = 'socket: { socketTimeout: 5000, reconnectStrategy: () => 500 }, pingInterval: 1000';

const IDLE: Hazard = {
  level: 'warning',
  message: `The client closes connections that are idle for its socketTimeout. Set a pingInterval below it: ${EXAMPLE}.`,
};

const GIVES_UP: Hazard = {
  level: 'error',
  message: `The client does not connect again after a socketTimeout, unless it has a reconnectStrategy. Set one: ${EXAMPLE}.`,
};

/** Room for any time in ms, and for a step in microseconds with its sign. */
const DEADLINE_LENGTH = 20;

/**
 * An argument with a value that is set when the client asks for the length to encode it. The client writes calls a turn of the event loop
 * after they were sent, and the length of such a turn is unknown.
 */
class WhenWritten extends Uint8Array {
  #call: ScriptCall | undefined;

  constructor(call: ScriptCall) {
    super(DEADLINE_LENGTH);
    this.#call = call;
  }

  override get length(): number {
    if (this.#call) {
      const text = this.#call.deadline().padEnd(DEADLINE_LENGTH);
      this.#call = undefined;
      for (let i = 0; i < DEADLINE_LENGTH; i++) this[i] = text.charCodeAt(i);
    }
    return DEADLINE_LENGTH;
  }
}
// The prototype makes clients treat the argument as a Buffer. Defining `length` on each object would cost several times as much as the
// call.
Object.setPrototypeOf(WhenWritten.prototype, Buffer.prototype as object);
