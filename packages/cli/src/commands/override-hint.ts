// A hint after the override of a key whose requests another limit denies.
import { type Admin, DEFAULT_DIMENSION, type OverrideResult } from 'headgate/admin';
import { complain, type Io } from '../io.js';
import { showKey } from '../keys.js';
import { optional } from '../optional.js';

/** The counts of the last minute, of the most keys that a view of them has. */
const COUNTED = { seconds: 60, keys: 20 } as const;

/** Warns if requests of the key were lately denied by a limit of another dimension, because the override does not change that one. */
export async function warnOfOtherLimit(
  admin: Admin,
  { name, key, dimension = DEFAULT_DIMENSION }: OverrideResult,
  io: Io,
): Promise<void> {
  const traffic = await optional(admin.traffic({ name, ...COUNTED }), 'the counts of denials', io);
  const denied = traffic?.limiters
    .flatMap(({ keys }) => keys)
    .find((each) => each.key === key && (each.dimension ?? DEFAULT_DIMENSION) === dimension);
  if (key === undefined || denied?.policy === undefined || denied.deniedFor === undefined) return;
  const { policy, deniedFor: by } = denied;
  const flag = by === DEFAULT_DIMENSION ? 'without --dimension' : `with --dimension ${by}`;
  const message = `Requests of ${showKey({ key, dimension })} were denied by "${policy}" in the last minute, a limit of another key (by ${by}), which this override does not change. Pass that key ${flag}.`;
  complain(io, { warning: true, code: 'OTHER_LIMIT', message }, `warning: ${message}`);
}
