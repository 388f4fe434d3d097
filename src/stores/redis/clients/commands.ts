/** Receives the result of a call, once: its reply, or an error. */
export type Done = (error: Error | undefined, reply?: unknown) => void;

/**
 * A deadline in the past by any store's clock. Either the caller has stopped waiting, or the store's time is unknown, and the refusal
 * contains the time.
 */
export const PASSED_DEADLINE = '1';

/**
 * The beginning of a reply in which a script reports a reason not to run, such as a passed deadline. Signals are values, because errors travel
 * through the hooks of clients, such as ioredis' `reconnectOnError`.
 */
const SIGNAL = 'HEADGATE_';

export function isSignal(reply: unknown): reply is string {
  return typeof reply === 'string' && reply.startsWith(SIGNAL);
}

/** The name of the property by which a client of this package returns its commands, so that only programs that use the client load its code. */
export const COMMANDS = Symbol('headgate commands');

/** A call of a script, as a client sends it. */
export interface ScriptCall {
  readonly keys: readonly string[];
  /** The script's arguments. The first one is the deadline, which the client sets. */
  readonly args: string[];
  /** Called when the call is being written. @returns its deadline */
  deadline(): string;
  /** The end of the callers' time after that, by `performance.now()`. Absent if no caller waits. */
  readonly until?: number;
  /** Receives the result, once. */
  done(error: Error | undefined, reply?: unknown): void;
}

export interface Server {
  /** The server's name within its cluster: `host:port`. */
  readonly name: string;
  /** Sends a command to exactly this server. */
  send(command: readonly string[]): Promise<unknown>;
}

/** A setting of the client that puts limits at risk. */
export interface Hazard {
  readonly level: 'warning' | 'error';
  readonly message: string;
}

/** The methods of a client that the store needs. Calls are sent only when the client is ready, and are not repeated after the write. */
export interface Commands {
  /** Whether the keys of one call must be in one slot. */
  readonly cluster: boolean;
  /**
   * Whether there is no connection (HTTP). Each call then brings its script only if the server lacks it, and waits for no other call. The clock
   * of this process is assumed to be right until the first reply.
   */
  readonly connectionless?: boolean;
  /** The text that the client puts before every key, except in SCAN. */
  readonly keyPrefix: string;
  /**
   * The number of connections that were lost, or could not be restored. A server may have lost its scripts with the connection. Absent without
   * connections.
   */
  readonly losses?: number;
  /** Listens for the client's errors for one more store. @returns ends it. Without a listener, an error would end the process */
  listen(): () => void;
  /** Writes the calls of `send` to the connection in as few writes as possible. */
  together(send: () => void): void;
  ready(): boolean;
  /** Resolves the next time the client is ready. */
  whenReady(): Promise<void>;
  /** Resolves when the client is ready, if it is connecting. @throws HeadgateError `HEADGATE_STORE_AWAY` otherwise */
  connected(): Promise<void>;
  /**
   * Calls the listener each time a connection is lost, or cannot be restored. The server's data may be lost with the connection. The
   * listener receives the server's name, as in `servers`; `undefined` for the only server, or if any server may be lost.
   */
  onLost(listener: (server: string | undefined) => void): void;
  /** The reason, as a sentence for people, while a caller waits for `connected`. */
  waitsFor(): string | undefined;
  /** The servers with keys. For a cluster: the primaries. */
  servers(): readonly Server[];
  /** Sends one command to the server of a key, which is the command's first argument. */
  call(command: string, key: string, ...args: readonly string[]): Promise<unknown>;
  /** The name of the server of a cluster that has a key. Undefined without a cluster, or if the client is not ready. */
  serverOf(key: string): string | undefined;
  hazards(): Hazard[];
  /** Runs a script by its text or its hash. */
  run(command: 'eval' | 'evalsha', script: string, call: ScriptCall): void;
}
