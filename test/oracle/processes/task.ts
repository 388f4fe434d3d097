// The task of a process, without the drawing of sites, so that processes start quickly.
import type { DrawnLimiter } from '../draw.js';
import { optionsOf } from '../program.js';

/** `unshared` is a broken store: each process has a file of its own. */
export type StoreKind = 'redis' | 'valkey' | 'sqlite' | 'postgres' | 'unshared';

/** The place of a store: the port of a server and a prefix, a path, or the URL of a server and a table. */
export type Place = readonly [kind: StoreKind, where: string, name: string];

export interface ProcessSite {
  readonly limiters: readonly DrawnLimiter[];
  /** Whether operators reset keys, which empties ledgers. */
  readonly resets: boolean;
}

/** The task of a process. A worker also has the file for its records, and the time for which it works, ms. */
export interface Task {
  readonly role: 'worker' | 'reader';
  readonly site: ProcessSite;
  readonly place: Place;
  readonly log: string;
  readonly seed: number;
  readonly ms: number;
}

export const REDELIVER_MS = 1000;
export const GROUP = 'mail';

/** The options of a real limiter. A request with an id is repeated until it has an answer. */
export const realOptions = (drawn: DrawnLimiter, at: number): Record<string, unknown> => ({
  ...optionsOf(`l${at}`, drawn),
  ...(drawn.hasIds ? { repeats: 100_000 } : {}),
  ...{ onStoreError: 'throw', timeout: '20s', warnings: false },
});
