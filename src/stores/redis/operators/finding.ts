/** One result of a check of a store. */
export interface Finding {
  /** `'error'`: limits do not apply, or not those of every policy. `'warning'`: limits may stop to apply. `'ok'`: the check passed. */
  readonly level: 'ok' | 'warning' | 'error';
  /** The subject of the check. */
  readonly code:
    | 'connection'
    | 'version'
    | 'commands'
    | 'eviction'
    | 'memory'
    | 'clock'
    | 'client'
    | 'overrides'
    | 'latency';
  /** The finding and its fix, for people. For a cluster it begins with the server's address. */
  readonly message: string;
}
