// The part of `pg` that the store uses.

/** A row of a result. */
export type Row = Readonly<Record<string, unknown>>;

/** The result of a statement. A text of several statements has an array of results. */
export interface PostgresResult {
  readonly rows: readonly Row[];
}

/** A client of a `pg` pool. */
export interface PostgresClient {
  query(text: string): Promise<PostgresResult>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
  /** Returns the client to its pool. With `true`, the pool closes its connection. */
  release(isBroken?: boolean): void;
}

/** A `Pool` of `pg` 8 or later, or of a library with the same interface. */
export interface PostgresPool {
  connect(): Promise<PostgresClient>;
  on(event: 'error', listener: (error: Error) => void): unknown;
}
