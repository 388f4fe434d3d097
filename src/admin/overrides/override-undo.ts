import { givenIn } from '../../contract/change-note.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import type { OverrideChange } from '../../limiter/overrides/override.js';
import { SAME_END_MS, type Context } from '../context.js';
import type { LoggedChange } from '../log.js';
import { changeOverride, overrides } from './overrides.js';
import { callable } from '../shared-limits.js';
import type { ListedChange } from '../state.js';
import { cannot, changed, type Way, type Ways } from '../undo-way.js';

export const waysFromOverrides: Ways = { override: overrideBack, remove: overrideBack };

/** The way back from an override or its removal. @param earlier the override before */
async function overrideBack(
  context: Context,
  listed: ListedChange,
  { name, key, dimension = DEFAULT_DIMENSION, within }: LoggedChange,
  earlier: ListedChange | undefined,
): Promise<Way> {
  if (typeof name !== 'string' || within !== undefined) throw cannot('the log does not have the whole key');
  const text = callable(context.state, key);
  if (text === undefined && key !== undefined) throw cannot('the log has only the hash of the key');
  const elapsed = (await context.state.now()) - listed.at;
  let current: OverrideChange | undefined;
  let since = 0;
  for await (const each of overrides(context, { name }))
    if (JSON.stringify([each.key, each.dimension ?? DEFAULT_DIMENSION]) === JSON.stringify([key, dimension]))
      [current, since] = [each.change, each.since.getTime()];
  if (listed.action === 'override') {
    if (current === undefined && listed.forMs > 0 && elapsed > listed.forMs)
      throw cannot('the override has ended by itself');
    const isSame = JSON.stringify(current) === JSON.stringify(listed.after);
    if (!isSame || Math.abs(since - listed.at) > SAME_END_MS)
      throw changed('there is another override, or none');
  } else if (current !== undefined) throw changed('there is another override');
  const before = listed.before as OverrideChange | undefined;
  const left = before === undefined ? 0 : leftOf(earlier, listed, elapsed);
  // An earlier override that would have ended by now is not restored.
  const change = left === 'ended' ? undefined : before;
  if (listed.action === 'remove' && change === undefined)
    throw cannot('the override would have ended by now');
  const end = typeof left === 'number' && left > 0 ? { for: `${left}ms` } : {};
  return {
    action: change === undefined ? 'remove' : 'override',
    async go(note) {
      const wish = { key: text, change, dimension, ...givenIn(note), ...(change !== undefined && end) };
      return (await changeOverride(context, wish, { name, raw: true }, listed.id)).warnings;
    },
  };
}

/** The rest of the earlier override, ms, 0 without an end, or `ended`. @throws HeadgateError `HEADGATE_CANNOT_UNDO` if the log does not have it */
function leftOf(
  earlier: ListedChange | undefined,
  { at, before }: ListedChange,
  elapsed: number,
): number | 'ended' {
  if (!earlier || JSON.stringify(earlier.after) !== JSON.stringify(before))
    throw cannot('the log does not have the end of the earlier override any more');
  if (earlier.forMs === 0) return 0;
  const left = Math.round(earlier.forMs - (at - earlier.at) - elapsed);
  return left > 0 ? left : 'ended';
}
