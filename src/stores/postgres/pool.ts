// The part of `pg` that the store uses.

/** A row of a result. The texts of the store return every column as text, so that no parser of the user or of a library matters. */
export type PostgresRow = Readonly<Record<string, unknown>>;

/** The bytes of a column that `encode(..., 'hex')` returned. */
export function bytesOf(hex: unknown): Uint8Array {
  return Buffer.from(hex as string, 'hex');
}

/** The result of a statement. A text of several statements has an array of results. */
export interface PostgresResult {
  /** The rows, as objects by column. */
  readonly rows: readonly PostgresRow[];
}

/** A client of a `pg` pool. */
export interface PostgresClient {
  /** Runs a text of one or more statements. */
  query(text: string): Promise<PostgresResult>;
  /** Adds a listener for the loss of the connection. */
  on(event: 'error', listener: (error: Error) => void): unknown;
  /** Removes a listener. */
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
  /** Returns the client to its pool. With `true`, the pool closes its connection. */
  release(isBroken?: boolean): void;
}

/** A `Pool` of `pg` 8 or later, or of a library with the same interface. */
export interface PostgresPool {
  /** Returns a client, once one is free. */
  connect(): Promise<PostgresClient>;
  /** Adds a listener for the loss of an idle connection. */
  on(event: 'error', listener: (error: Error) => void): unknown;
  /** Removes a listener. Without this method, the store listens for as long as the pool lives. */
  removeListener?(event: 'error', listener: (error: Error) => void): unknown;
}
