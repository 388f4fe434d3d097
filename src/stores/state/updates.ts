// The updates of a database that runs many of them in one transaction: see `StateBackend.updateAll`.
import type { StateChange } from './key-state.js';
import type { Askers, StateBackend } from './state-store.js';

/** An update that waits for its transaction. */
export interface Update {
  readonly keys: readonly string[];
  readonly change: Parameters<NonNullable<StateBackend['updateAll']>>[1];
  readonly askers: Askers;
  /** The time of the question, by `performance.now()`. */
  readonly asked: number;
  resolve(): void;
  reject(error: unknown): void;
}

/** The states within a transaction. */
export interface States {
  read(key: string): Uint8Array | undefined;
  write(key: string, change: StateChange): void;
}

/**
 * Runs the change of an update. @returns false if the question itself failed, so that nothing was written for it @throws the error of a
 * database that failed
 */
export function runUpdate(states: States, { keys, change, reject }: Update, now: number): boolean {
  const before = keys.map((key) => states.read(key));
  let changes: readonly StateChange[];
  try {
    changes = change(before, now);
  } catch (error) {
    reject(error);
    return false;
  }
  changes.forEach((each, i) => states.write(keys[i]!, each));
  return true;
}

/** Rejects updates. Their questions count as sent, because they may have changed something: otherwise their charges would not be returned. */
export function rejectAll(updates: Iterable<Update>, error: unknown): void {
  for (const { askers, reject } of new Set(updates)) {
    for (const { subject } of askers) if (subject.call) subject.call.until = 0;
    reject(error);
  }
}
