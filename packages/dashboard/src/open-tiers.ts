import type { Admin, KeyView, LoggedChange, PastDenials } from 'headgate/admin';

const OF_LIMITS: readonly string[] = ['override', 'remove'];

/** The time after which every process applies a change of limits, ms. */
const CHANGE_MS = 2000;

type Denials = Pick<PastDenials, 'name' | 'dimension' | 'within' | 'last' | 'minutes'>;

/** The time of the last change of a limiter's limits. @param changes those of the key, and of all keys */
function changedAt(changes: readonly LoggedChange[], name: string): number {
  const own = changes.filter((each) => each.name === name && OF_LIMITS.includes(each.action));
  return Math.max(-Infinity, ...own.map(({ at }) => at.getTime()));
}

/**
 * Marks a tier as likely again if the key has no quota left in it, but the limits were changed within the window: the key may have used
 * that much under the earlier limits.
 *
 * @param changes those of the key, and of all keys
 */
export function withOpenTiers(
  views: readonly KeyView[],
  changes: readonly LoggedChange[],
  now = Date.now(),
): KeyView[] {
  return views.map((view) => {
    const ageMs = now - changedAt(changes, view.name);
    const isOpen = view.policies.some((each) => !each.allowed && !each.shadow && ageMs < each.windowMs);
    return isOpen ? { ...view, likely: true } : view;
  });
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
    const last = denial.last.getTime();
    if (last < changedAt(changes, denial.name) + CHANGE_MS) continue;
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
 */
export async function settledTiers(
  views: readonly KeyView[],
  changes: readonly LoggedChange[],
  denialsIn: (place: Pick<KeyView, 'name' | 'dimension'>) => ReturnType<Admin['denials']>,
): Promise<KeyView[]> {
  const open = withOpenTiers(views, changes);
  const opened = open.filter(({ likely }, i) => likely && !views[i]!.likely);
  const places = new Map(
    opened.map(({ name, dimension }) => [JSON.stringify([name, dimension]), { name, dimension }]),
  );
  const denials = await Promise.all([...places.values()].map(denialsIn));
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
