import { parseStateKey, type StateKey } from '../../stores/keys.js';
import type { Session } from './session.js';

/** About how many keys the server looks at in one step. More would hold up the requests that it serves. */
const STEP = 500;

/** A key of ours. */
export interface FoundKey extends StateKey {
  readonly redisKey: string;
}

/**
 * Goes through the keys of all servers by SCAN, in steps that block nobody for long. A key that is there all the time is found,
 * maybe twice; others may be.
 */
export async function* scan(session: Session, pattern: string): AsyncGenerator<FoundKey[]> {
  for (const node of await session.connection.nodes()) {
    let cursor = '0';
    do {
      const step = node.send(['SCAN', cursor, 'MATCH', pattern, 'COUNT', String(STEP)]);
      const [next, keys] = (await session.ask(step)) as [string, string[]];
      cursor = String(next);
      yield keys.flatMap((redisKey) => {
        const state = parseStateKey(session.prefix, redisKey);
        return state ? [{ ...state, redisKey }] : [];
      });
    } while (cursor !== '0');
  }
}
