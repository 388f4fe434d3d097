import type { Admin, KeyView, LoggedChange, PastDenials } from 'headgate/admin';
import { firstOf } from './first.js';

const OF_LIMITS: readonly string[] = ['override', 'remove'];

/** The greatest age of a change for which a log can be asked, ms. */
const MAX_AGE_MS = 366 * 24 * 60 * 60 * 1000;

/** The time after which every process applies a change of limits, ms. */
const CHANGE_MS = 2000;

/** The log of changes, by the store's clock, which may differ from that of this process. */
type Log = Pick<Admin, 'log'>;

type Denials = Pick<PastDenials, 'name' | 'dimension' | 'within' | 'last' | 'minutes'>;

const isOfLimits = ({ action }: LoggedChange): boolean => OF_LIMITS.includes(action);

/**
 * Marks a tier as likely again if the key has no quota left in it, but the limits were changed within the window, or an override ended: the key
 * may have used that much under the earlier limits.
 *
 * @param changes those of the key, and of all keys, the newest first
 */
function withOpenTiers(
  views: readonly KeyView[],
  changes: readonly LoggedChange[],
  log: Log,
): Promise<KeyView[]> {
  return Promise.all(
    views.map(async (view) => {
      if (view.likely) return view;
      const denying = view.policies.filter((each) => !each.allowed && !each.shadow);
      const windowMs = Math.max(0, ...denying.map((each) => each.windowMs));
      const newest = windowMs === 0 ? [] : newestOf(view, changes);
      const isOpen = await Promise.all(newest.map((change) => isRecent(change, windowMs, log)));
      return isOpen.includes(true) ? { ...view, likely: true } : view;
    }),
  );
}

/** The newest change of the limits of a key, and that of the limits of all keys. */
function newestOf({ name, dimension }: KeyView, changes: readonly LoggedChange[]): LoggedChange[] {
  const own = changes.filter((each) => each.name === name && isOfLimits(each));
  const ofAll = own.find(({ key }) => key === undefined);
  const ofKey = own.find((each) => each.key !== undefined && (each.dimension ?? 'key') === dimension);
  return [ofAll, ofKey].filter((each) => each !== undefined);
}

/** Whether a change, or the end of an override, is younger than a time. */
async function isRecent(change: LoggedChange, ms: number, log: Log): Promise<boolean> {
  const { forMs } = change;
  if (await isYounger(change, ms, log)) return true;
  return forMs > 0 && !(await isYounger(change, forMs, log)) && isYounger(change, forMs + ms, log);
}

/** Only the store knows the age of a change. The log has an age in whole milliseconds, and includes changes of this age. */
async function isYounger({ id }: LoggedChange, ms: number, { log }: Log): Promise<boolean> {
  const ageMs = Math.max(1, Math.min(MAX_AGE_MS, Math.ceil(ms) - 1));
  return (await firstOf(log({ id, since: `${ageMs}ms` }), 1)).length > 0;
}

/** The time of the last change of a limiter's limits before a denial: an override, its removal, or its end. */
function changedBefore(changes: readonly LoggedChange[], { name, last }: Denials): number {
  const times = changes
    .filter((each) => each.name === name && isOfLimits(each))
    .flatMap(({ at, forMs = 0 }) => {
      const end = at.getTime() + forMs;
      return forMs > 0 && end <= last.getTime() ? [at.getTime(), end] : [at.getTime()];
    });
  return Math.max(-Infinity, ...times);
}

/**
 * Marks the tiers that admit a key as unlikely if a policy denied it since the limits were changed, which another tier of the same limits
 * denies now.
 *
 * @param views of `withOpenTiers`
 * @param denials the past denials of the key
 */
export function withoutAdmitting(
  views: readonly KeyView[],
  changes: readonly LoggedChange[],
  denials: readonly Denials[],
): KeyView[] {
  const settled = new Set<string>();
  for (const denial of denials) {
    if (denial.last.getTime() < changedBefore(changes, denial) + CHANGE_MS) continue;
    const newest = Math.max(...denial.minutes.map(({ minute }) => minute));
    const causes = denial.minutes.filter(({ minute }) => minute === newest).map(({ policy }) => policy);
    const isOf = ({ policies, likely, ...view }: KeyView): boolean =>
      likely &&
      placeOf(view) === placeOf(denial) &&
      policies.some((each) => !each.allowed && !each.shadow && causes.includes(each.name));
    if (views.some(isOf)) settled.add(placeOf(denial));
  }
  return views.map((view) =>
    settled.has(placeOf(view)) && view.allowed === true ? { ...view, likely: false } : view,
  );
}

/**
 * The answers to a key, with the tiers that it may have after a change of its limits.
 *
 * @param changes those of the key, and of all keys
 * @param admin the log, and the past denials of the key
 */
export async function settledTiers(
  views: readonly KeyView[],
  changes: readonly LoggedChange[],
  admin: Log & {
    readonly denialsIn: (place: Pick<KeyView, 'name' | 'dimension'>) => ReturnType<Admin['denials']>;
  },
): Promise<KeyView[]> {
  const open = await withOpenTiers(views, changes, admin);
  const opened = open.filter(({ likely }, i) => likely && !views[i]!.likely);
  const places = new Map(
    opened.map(({ name, dimension }) => [JSON.stringify([name, dimension]), { name, dimension }]),
  );
  const denials = await Promise.all([...places.values()].map(admin.denialsIn));
  return withoutAdmitting(open, changes, denials.flat());
}

/** The time for which the tier of a key is remembered, ms. */
const SEEN_MS = 3_600_000;

/** The most keys whose tiers are remembered. */
const MAX_SEEN = 1000;

type Judged = Pick<KeyView, 'name' | 'key' | 'dimension' | 'within' | 'tier' | 'likely'>;

/** The tiers that keys had when only one was likely, so that the answers after a change of limits can name it. */
export class SeenTiers {
  readonly #seen = new Map<string, { readonly tier: string | undefined; readonly at: number }>();

  /** Remembers the tiers that are certain. */
  note(views: readonly Judged[], now = Date.now()): void {
    for (const [place, own] of grouped(views)) {
      const [first, ...others] = own.filter(({ likely }) => likely);
      if (own.length === 1 || !first || others.length > 0) continue;
      this.#seen.delete(place);
      this.#seen.set(place, { tier: first.tier, at: now });
    }
    for (const place of this.#seen.keys()) {
      if (this.#seen.size <= MAX_SEEN) break;
      this.#seen.delete(place);
    }
  }

  /** The answers, with a mark on the tier that the key had lately. */
  marked<T extends Judged>(views: readonly T[], now = Date.now()): (T & { readonly hadTier?: true })[] {
    return views.map((view) => {
      const seen = this.#seen.get(idOf(view));
      const hadTier = seen && seen.tier === view.tier && now - seen.at < SEEN_MS;
      return hadTier ? { ...view, hadTier } : view;
    });
  }
}

function grouped(views: readonly Judged[]): Map<string, Judged[]> {
  const groups = new Map<string, Judged[]>();
  for (const view of views) groups.set(idOf(view), [...(groups.get(idOf(view)) ?? []), view]);
  return groups;
}

const placeOf = ({ name, dimension, within }: Pick<KeyView, 'name' | 'dimension' | 'within'>): string =>
  JSON.stringify([name, dimension, within]);

const idOf = (view: Judged): string => JSON.stringify([placeOf(view), view.key]);
