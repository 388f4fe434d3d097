import { checkInteger } from '../common/validate.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import { HOUR_MS, MINUTE_MS } from '../stores/counts/times.js';
import { checkKeyOptions, type Context, type NameFilter } from './context.js';
import type { KeyDenials } from '../stores/counts/denials.js';
import { key } from './key.js';
import type { KeyView } from './key-view.js';
import { countedOwner, identityOf } from './owners.js';
import type { KeyOptions } from './typed-keys.js';

/** Options of `denials`. */
export interface DenialOptions extends KeyOptions, NameFilter {
  /** The number of hours until now: 1 to 24. @default 24 */
  hours?: number | undefined;
  /** Ends the search for the shared limits of a tenant after its current step. Their denials may then be missing. */
  signal?: AbortSignal | undefined;
}

/** The denials of a key by one cause in one minute. */
export interface MinuteDenials {
  /** The start of the minute by the store's clock, ms since 1970. */
  readonly minute: number;
  /** The number of denials in the minute. */
  readonly count: number;
  /** The policy that denied. Absent for denials by anything else. */
  readonly policy?: string;
  /** The reason of denials by no policy: `decision.reason`. */
  readonly reason?: string;
}

/** The denials of a key in a limiter in the last 24 hours. */
export interface PastDenials extends Pick<KeyView, 'name' | 'key' | 'dimension' | 'within'> {
  /** The first denial, to a second, by the store's clock. */
  readonly first: Date;
  /** The last denial, to a second, by the store's clock. */
  readonly last: Date;
  /** The number of denials. */
  readonly count: number;
  /** By minute, the oldest first, then by the number of denials. */
  readonly minutes: readonly MinuteDenials[];
}

export async function denials(
  context: Context,
  given: string,
  options: DenialOptions = {},
): Promise<PastDenials[]> {
  checkKeyOptions('denials', options, 'hours', 'signal');
  const { hours = 24, ...others } = options;
  const span = HOUR_MS * checkInteger('hours', hours, 1, 24);
  const { state } = context;
  const { counts } = state;
  const views = await key(context, given, others);
  if (!counts) return [];
  const since = (await state.now()) - span;
  const places = new Map(views.map((view) => [identityOf(view), view]));
  const whose = [...places.values()];
  const records = await counts.denials(whose.map((view) => countedOwner(view, counts.text)));
  return whose
    .flatMap((view, i) => pastOf(view, records[i]!, since - (since % MINUTE_MS)))
    .sort((a, b) => b.last.getTime() - a.last.getTime());
}

function pastOf(
  { name, key, dimension, within }: KeyView,
  records: readonly KeyDenials[],
  since: number,
): PastDenials[] {
  const minutes = records
    .flatMap(({ causes }) =>
      [...causes].flatMap(([cause, counts]) =>
        [...counts].map(([minute, count]): MinuteDenials => ({ minute, count, ...causeIn(cause) })),
      ),
    )
    .filter(({ minute }) => minute >= since)
    .sort((a, b) => a.minute - b.minute || b.count - a.count);
  if (minutes.length === 0) return [];
  const first = Math.max(since, Math.min(...records.map((record) => record.first)));
  return [
    {
      ...{ name, key, dimension: dimension || DEFAULT_DIMENSION },
      ...(within !== undefined && { within }),
      first: new Date(first),
      last: new Date(Math.max(...records.map(({ last }) => last))),
      count: minutes.reduce((sum, { count }) => sum + count, 0),
      minutes,
    },
  ];
}

function causeIn(cause: string): Pick<MinuteDenials, 'policy' | 'reason'> {
  const text = (encoded: string): string => {
    try {
      return decodeURIComponent(encoded);
    } catch {
      return encoded;
    }
  };
  return cause.startsWith('!') ? { reason: text(cause.slice(1)) } : { policy: text(cause) };
}
