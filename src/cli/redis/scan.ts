import { parseStateKey, type StateKey } from '../../stores/keys.js';
import type { Session } from './session.js';

/** About how many keys the server looks at in one step. More would hold up the requests that it serves. */
export const STEP = 500;

/** A key of ours. */
export interface FoundKey extends StateKey {
  readonly redisKey: string;
}

export interface ScanOptions {
  /** About how many keys the server looks at in one step. */
  readonly count?: number;
  /** Is told after each step which share of all keys was looked at. */
  readonly progress?: (share: number) => void;
  /** Ends it after the step that is under way. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Goes through the keys of all servers by SCAN, in steps that block nobody for long. A key that is there all the time is found,
 * maybe twice; others may be.
 */
export async function* scan(
  session: Session,
  pattern: string,
  { count = STEP, progress, signal }: ScanOptions = {},
): AsyncGenerator<FoundKey[]> {
  const nodes = await session.connection.nodes();
  for (const [i, node] of nodes.entries()) {
    let cursor = '0';
    do {
      const step = node.send(['SCAN', cursor, 'MATCH', pattern, 'COUNT', String(count)]);
      const [next, keys] = (await session.ask(step)) as [string, string[]];
      cursor = String(next);
      yield keys.flatMap((redisKey) => {
        const state = parseStateKey(session.prefix, redisKey);
        return state ? [{ ...state, redisKey }] : [];
      });
      // The cursors of a cluster's node are of one slot at a time.
      const share = cursor === '0' ? 1 : session.target.cluster ? 0 : shareOf(cursor);
      progress?.((i + share) / nodes.length);
    } while (cursor !== '0' && !signal?.aborted);
    if (signal?.aborted) return;
  }
}

/** How far a cursor is: SCAN counts it up from its highest bit to its lowest, whatever the size of the table. */
function shareOf(cursor: string): number {
  const bits = BigInt(cursor).toString(2).padStart(64, '0');
  return parseInt([...bits].reverse().join('').slice(0, 32), 2) / 2 ** 32;
}
