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
  /** Undefined: it is a file. */
  readonly redis: Session | undefined;
  /** How keys are written. */
  readonly keyText: KeyText;
  readonly published: Published;
  readonly bans: Pick<Bans, 'head' | 'left' | 'stateOf' | 'set' | 'notes' | 'logOf'>;
  finder(wanted: Wanted): Pick<Finder, 'finds' | 'looked' | 'isOfIndex'>;
  /** Whether there is a ban or denials of a key; then for each policy, whether it has charged anything. */
  stored(
    name: string,
    policies: readonly CompiledPolicy[],
    key: string,
    dimension: string,
  ): Promise<boolean[]>;
  /** The records of overrides, and whose they are: the text between the braces of a key in Redis. */
  overrides(isWanted: (who: string) => boolean): AsyncIterable<readonly [who: string, record: unknown]>;
}

/** The set by which the state of a key is looked for: its policies, and the ban. */
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
