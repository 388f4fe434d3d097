import { parseStateKey, type StateKey } from '../../stores/keys.js';
import type { Session } from './session.js';

/** The approximate number of keys that the server checks in one step. More keys would delay the server's other requests. */
export const KEYS_PER_STEP = 500;

/** A key of Headgate. */
export interface FoundKey extends StateKey {
  readonly redisKey: string;
}

export interface ScanOptions {
  /** About how many keys the server checks in one step. */
  readonly count?: number;
  /** Receives, after each step, the share of all keys that was checked. */
  readonly progress?: (share: number) => void;
  /** Stops after the current step. */
  readonly signal?: AbortSignal | undefined;
}

/** Scans the keys of all servers with SCAN, in short steps. A key that exists throughout is found, possibly twice. Other keys may be found. */
export async function* scan(
  session: Session,
  pattern: string,
  { count = KEYS_PER_STEP, progress, signal }: ScanOptions = {},
): AsyncGenerator<FoundKey[]> {
  const servers = session.commands.servers();
  for (const [i, server] of servers.entries()) {
    let cursor = '0';
    do {
      const step = server.send(['SCAN', cursor, 'MATCH', pattern, 'COUNT', String(count)]);
      const [next, keys] = (await session.ask(step)) as [string, string[]];
      cursor = String(next);
      yield keys.flatMap((redisKey) => {
        const state = parseStateKey(session.prefix, redisKey);
        return state ? [{ ...state, redisKey }] : [];
      });
      // In a cluster, a cursor is only the position within one slot.
      const share = cursor === '0' ? 1 : session.target.cluster ? 0 : shareOf(cursor);
      progress?.((i + share) / servers.length);
    } while (cursor !== '0' && !signal?.aborted);
    if (signal?.aborted) return;
  }
}

/** The share of the keys before a cursor. SCAN counts cursors from their highest bit to their lowest, whatever the table's size. */
function shareOf(cursor: string): number {
  const bits = BigInt(cursor).toString(2).padStart(64, '0');
  return parseInt([...bits].reverse().join('').slice(0, 32), 2) / 2 ** 32;
}
