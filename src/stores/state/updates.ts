// The updates of a database that runs many of them in one transaction: see `StateBackend.updateAll`.
import { HeadgateError } from '../../common/errors.js';
import { performance } from '../../common/real-time.js';
import type { TextChange } from './key-record.js';
import type { StoredState } from './saved-state.js';
import type { Askers, StateBackend, StatesChange } from './state-store.js';

export interface Update {
  readonly keys: readonly string[];
  readonly change: Parameters<NonNullable<StateBackend['updateAll']>>[1];
  /** Whether `change` also takes and returns texts: it is a {@link StatesChange}. */
  readonly takesTexts: boolean;
  readonly askers: Askers;
  /** The time of the question, by `performance.now()`. */
  readonly asked: number;
  /** The turn of the event loop of its request, if the database counts turns. */
  turn: number;
  resolve(): void;
  reject(error: unknown): void;
}

/** The longest time for which an update waits for its transaction, ms. Callers never wait longer. */
export const MAX_UPDATE_WAIT_MS = 60_000;

export type AskedUpdate = Pick<Update, 'keys' | 'change' | 'takesTexts' | 'askers'>;

/**
 * Makes an update that waits for its transaction. Resolves when the transaction has ended.
 *
 * @param add receives the update
 * @throws HeadgateError `HEADGATE_CLOSED`
 */
export function ask(
  { keys, change, takesTexts, askers }: AskedUpdate,
  isClosed: boolean,
  add: (update: Update) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (isClosed) reject(new HeadgateError('HEADGATE_CLOSED', 'The store is closed.'));
    else add({ keys, change, takesTexts, askers, asked: performance.now(), turn: 0, resolve, reject });
  });
}

export interface States {
  /** @param asText whether the state may be a text */
  read(key: string, asText: boolean): StoredState;
  write(key: string, change: TextChange): void;
}

/**
 * Runs the change of an update. @returns false if the question itself failed, so that nothing was written @throws the error of a failed database
 */
export function runUpdate(states: States, update: Update, now: number): boolean {
  const { keys, change, takesTexts, reject } = update;
  const before: StoredState[] = [];
  for (const key of keys) before.push(states.read(key, takesTexts));
  let changes: readonly TextChange[];
  try {
    changes = (change as StatesChange)(before, now);
  } catch (error) {
    reject(error);
    return false;
  }
  for (let i = 0; i < keys.length; i++) states.write(keys[i]!, changes[i]!);
  return true;
}

/** Rejects updates. The updates' questions count as sent, because something may have changed: otherwise the charges would not be returned. */
export function rejectAll(updates: Iterable<Update>, error: unknown): void {
  for (const { askers, reject } of new Set(updates)) {
    for (const { subject } of askers) if (subject.call) subject.call.until = 0;
    reject(error);
  }
}

/** Rejects queued updates for which no caller waits: a store that closes does not wait for a database that is away. @returns the others */
export function dropBackground<U extends Update>(queue: readonly U[]): U[] {
  const dropped = queue.filter(({ askers }) => askers.length === 0);
  rejectAll(dropped, new HeadgateError('HEADGATE_CLOSED', 'The store is closed.'));
  return queue.filter(({ askers }) => askers.length > 0);
}

/** If the process was busy for longer than this (ms), waiting calls get more time. */
export const MIN_BUSY_MS = 5;

/** Extends the time of waiting calls, because this process was too busy to read answers. @param busy ms */
export function extendWaits(updates: Iterable<Update>, busy: number): void {
  const now = performance.now();
  for (const { askers, asked } of updates) {
    for (const { subject } of askers) {
      const { call, set } = subject;
      if (call) call.until = Math.min((call.until || asked + set.timeout) + busy, now + set.timeout);
    }
  }
}
