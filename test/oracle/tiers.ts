// The tiers that a key may have, judging by its use, as docs/admin.md says it, and what lists of denied keys say then.
import type { JudgedKey, KeyView } from 'headgate/admin';
import type { Algorithm } from './model/types.js';
import { isBucket } from './model/overrides.js';

/** The use of a policy's count by a key. */
export interface Use {
  readonly count: string;
  /** The policy. */
  readonly name: string;
  /** Whether the policy admits nothing more. A shadow always admits. */
  readonly isSpent: boolean;
  readonly used: number;
  readonly limit: number;
  readonly algorithm: Algorithm;
}

/** A tier in which a key is judged. */
export interface Judged {
  readonly tier: string | undefined;
  readonly uses: readonly Use[];
  readonly isDenied: boolean;
}

const isOver = (tiers: readonly Judged[], { uses }: Judged): boolean => {
  const all = tiers.flatMap((each) => each.uses);
  return uses.some(
    ({ count, limit, algorithm }) =>
      !isBucket({ algorithm }) && all.some((use) => use.count === count && use.used > limit),
  );
};

/** The tiers whose policies have all counts that the key used, none above its limit. If there is none: those that have one of the counts. */
function likelyByUse(tiers: readonly Judged[]): Judged[] {
  const used = tiers.flatMap(({ uses }) => uses).filter((use) => use.used > 0);
  const hasCount = ({ uses }: Judged, count: string) => uses.some((use) => use.count === count);
  const fitting = tiers.filter(
    (each) => used.every(({ count }) => hasCount(each, count)) && !isOver(tiers, each),
  );
  return fitting.length > 0
    ? fitting
    : tiers.filter((each) => used.some(({ count }) => hasCount(each, count)));
}

/**
 * The tiers that are likely, judging by the use of a key. If the key was denied, the tiers that the denying policy still denies are likely in
 * their place as soon as the process has written its counts, once a second of real time: each of these sets may be the present one.
 *
 * @param lately whether a policy denied the key
 */
export function likelySets(
  tiers: readonly Judged[],
  lately: (policy: string) => boolean,
): (readonly Judged[])[] {
  const isOpen = tiers.length > 1 && tiers.some(({ isDenied }) => isDenied);
  const policies = new Set(tiers.flatMap(({ uses }) => uses.map(({ name }) => name)));
  const denying = (isOpen ? [...policies] : []).filter(lately).flatMap((policy) => {
    const all = tiers.filter(({ uses }) => uses.some(({ name, isSpent }) => name === policy && isSpent));
    const fitting = all.filter((each) => !isOver(tiers, each));
    // Only if no tier is full by charges that it admits, the tier may be one whose limit was exceeded in another.
    return [fitting.length > 0 ? fitting : all];
  });
  return [likelyByUse(tiers), ...denying.filter((some) => some.length > 0)];
}

/** Whether a policy denies a key that may have used its quota before its limits changed. @param ms the time since the change */
export const isDeniedSince = ({ policies }: KeyView, ms: number): boolean =>
  policies.some(({ allowed, shadow, windowMs }) => !allowed && !shadow && ms < windowMs);

/** What a list may show. */
interface Seen {
  /** Whether the list leaves out denials in other tiers than the likely ones. */
  readonly isOfLikely: boolean;
  /** Whether a policy denied the key. */
  readonly lately: (policy: string) => boolean;
}

/**
 * Compares a row of `limited` with the tiers of its key.
 *
 * @param find the row, or undefined if there is none
 */
export function rowDiffers(
  find: JudgedKey | undefined,
  tiers: readonly Judged[],
  { isOfLikely, lately }: Seen,
): string | undefined {
  const differences = likelySets(tiers, lately).map((likely) =>
    rowDiffersFrom(find, tiers, likely, isOfLikely),
  );
  return differences.includes(undefined) ? undefined : differences[0];
}

function rowDiffersFrom(
  find: JudgedKey | undefined,
  tiers: readonly Judged[],
  likely: readonly Judged[],
  isOfLikely: boolean,
): string | undefined {
  const denying = likely.filter(({ isDenied }) => isDenied);
  const others = tiers.filter((each) => each.isDenied && !likely.includes(each));
  if (!find)
    return denying.length > 0 || (others.length > 0 && !isOfLikely) ? 'is denied, but not listed' : undefined;
  const said = `is listed in tier ${find.tier ?? '-'}, certain ${find.certain}, likely ${find.likely ?? '-'}`;
  const isRow = (tier: string | undefined, certain: boolean, isLikely: boolean) =>
    find.tier === tier && find.certain === certain && (find.likely ?? true) === isLikely;
  if (denying.length === 0) {
    const isRight = !isOfLikely && others.some(({ tier }) => isRow(tier, false, false));
    return isRight ? undefined : `${said}, but no likely tier denies it`;
  }
  const certain = denying.length === likely.length;
  const isRight =
    certain && denying.length > 1
      ? isRow(undefined, true, true)
      : denying.some(({ tier }) => isRow(tier, certain, true));
  return isRight ? undefined : `${said}, but is denied in ${denying.map(({ tier }) => tier ?? '-').join()}`;
}
