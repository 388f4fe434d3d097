import { checkInteger, checkShape } from '../../common/validate.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import type { Context } from '../context.js';
import { loggedText } from '../logged-keys.js';
import type { WhoseKey } from '../owners.js';
import { NewestOrigins, type BanOrigin } from './ban-origin-search.js';

/** Options of `banOrigins`. */
export interface BanOriginsOptions {
  /** The most changes of the log to read, the newest first. @default all */
  changes?: number | undefined;
}

export async function banOrigins(
  { state }: Context,
  bans: readonly WhoseKey[],
  options: BanOriginsOptions = {},
): Promise<(BanOrigin | null)[]> {
  checkShape('banOrigins', options, ['changes']);
  const most = options.changes === undefined ? Infinity : checkInteger('changes', options.changes, 1, 1e9);
  const wanted = bans.map(({ name, key, dimension, within }) => ({
    ...{ name, key, text: loggedText(state, { name, key, dimension: dimension ?? DEFAULT_DIMENSION }) },
    ...(dimension !== undefined && dimension !== DEFAULT_DIMENSION && { dimension }),
    ...(within !== undefined && { within }),
  }));
  const newest = new NewestOrigins(wanted, true);
  await newest.read(state.log.since(0), most);
  return wanted.map((ban) => newest.of(ban));
}
