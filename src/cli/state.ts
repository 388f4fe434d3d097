import { compileBan } from '../contract/ban-options.js';
import { dimensionsOf } from '../contract/dimensions.js';
import type { CompiledPolicy } from '../contract/policy.js';
import type { PolicySet } from '../contract/store.js';
import type { KeyText } from '../stores/keys.js';
import type { Limiters } from './limiters.js';
import type { Bans } from './redis/bans.js';
import type { Finder, Wanted } from './redis/finds.js';
import type { Published } from './redis/published.js';
import type { Session } from './redis/session.js';

/** The state of limiters, in Redis or in a file. */
export interface State extends Limiters {
  /** The connection to Redis, or `undefined` for a file. */
  readonly redis: Session | undefined;
  /** The format of keys. */
  readonly keyText: KeyText;
  readonly published: Published;
  readonly bans: Pick<Bans, 'head' | 'left' | 'stateOf' | 'set' | 'notes' | 'logOf'>;
  finder(wanted: Wanted): Pick<Finder, 'finds' | 'looked' | 'isOfIndex'>;
  /** Whether a key has a ban or denials, followed by whether each policy has charged anything. */
  stored(
    name: string,
    policies: readonly CompiledPolicy[],
    key: string,
    dimension: string,
  ): Promise<boolean[]>;
  /** The records of overrides with their owners: the text between the braces of a key in Redis. */
  overrides(isWanted: (who: string) => boolean): AsyncIterable<readonly [who: string, record: unknown]>;
}

/** The set for finding a key's state: the policies, and the ban. */
export function setOf(
  name: string,
  policies: readonly CompiledPolicy[],
  dimension: string,
  timeout: number,
): PolicySet {
  const ban = compileBan({});
  const dimensions = dimensionsOf(policies, ban, { banBy: dimension, slotBy: undefined, acrossSlots: false });
  return { name, policies, ban, dimensions, timeout };
}
