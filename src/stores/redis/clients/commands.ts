/** Takes what came of a call, once: its reply, or an error and nothing else. */
export type Done = (error: Error | undefined, reply?: unknown) => void;

/** Is told that a call is being written, and returns its deadline. */
export type Written = () => string;

/** One server that holds keys. */
export interface Server {
  /** Tells it from the others of a cluster: `host:port`. */
  readonly name: string;
  /** Sends one command that concerns this server alone. */
  send(command: readonly string[]): Promise<unknown>;
}

/** Something about a client's options that puts limits at risk. */
export interface Hazard {
  readonly level: 'warning' | 'error';
  readonly message: string;
}

/** What the store needs of a client. Nothing here is sent before the client is ready, nor again after it has been written. */
export interface Commands {
  /** Whether the keys of one call must be in one slot. */
  readonly cluster: boolean;
  /** Puts what `send` sends on the wire in as few writes as it can. */
  together(send: () => void): void;
  /** Whether commands can be sent at once. */
  ready(): boolean;
  /** Resolves the next time that the client is ready. */
  whenReady(): Promise<void>;
  /** Resolves when the client is ready, if it is about to be. @throws HeadgateError `HEADGATE_STORE_AWAY` if not */
  connected(): Promise<void>;
  /** While somebody waits for `connected`: why, as a sentence for people. */
  waitsFor(): string | undefined;
  /** The servers that hold keys: of a cluster its primaries. */
  servers(): readonly Server[];
  /** The name of the server of a cluster that holds a key; undefined if there is no cluster, or the client is not ready. */
  serverOf(key: string): string | undefined;
  hazards(): Hazard[];
  /** `script` is a text, or its hash. `args[0]` is the call's deadline: what `written` returns, when the call is written. */
  run(
    command: 'eval' | 'evalsha',
    script: string,
    keys: readonly string[],
    args: string[],
    written: Written,
    done: Done,
  ): void;
}
