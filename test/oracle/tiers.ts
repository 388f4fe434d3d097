// The tiers that a key may have, judging by its use, as docs/admin.md says it, and what lists of denied keys say then.
import type { JudgedKey, KeyView } from 'headgate/admin';
import type { Algorithm } from './model/types.js';
import { isBucket } from './model/overrides.js';

/** The use of a policy's count by a key. */
export interface Use {
  readonly count: string;
  readonly used: number;
  readonly limit: number;
  readonly algorithm: Algorithm;
}

/** A tier in which a key is judged. */
export interface Judged {
  readonly tier: string | undefined;
  readonly uses: readonly Use[];
  readonly isDenied: boolean;
  readonly policy: string | undefined;
}

/** The tiers whose policies have all counts that the key used, none above its limit. If there is none: those that have one of the counts. */
export function likelyOf(tiers: readonly Judged[]): Judged[] {
  const used = tiers.flatMap(({ uses }) => uses).filter((use) => use.used > 0);
  const hasCount = ({ uses }: Judged, count: string) => uses.some((use) => use.count === count);
  const isOver = ({ count, limit, algorithm }: Use) =>
    !isBucket({ algorithm }) && used.some((use) => use.count === count && use.used > limit);
  const fitting = tiers.filter(
    (each) => used.every(({ count }) => hasCount(each, count)) && !each.uses.some(isOver),
  );
  return fitting.length > 0
    ? fitting
    : tiers.filter((each) => used.some(({ count }) => hasCount(each, count)));
}

/** Whether a policy denies a key that may have used its quota before its limits changed. @param ms the time since the change */
export const isDeniedSince = ({ policies }: KeyView, ms: number): boolean =>
  policies.some(({ allowed, shadow, windowMs }) => !allowed && !shadow && ms < windowMs);

/**
 * Compares a row of `limited` with the tiers of its key.
 *
 * @param find the row, or undefined if there is none
 * @param sees `likely`: whether the list leaves out denials in other tiers; `lately`: whether a policy denied the key in the last seconds
 */
export function rowDiffers(
  find: JudgedKey | undefined,
  tiers: readonly Judged[],
  sees: { readonly likely: boolean; readonly lately: (policy: string | undefined) => boolean },
): string | undefined {
  const likely = likelyOf(tiers);
  const denying = likely.filter(({ isDenied }) => isDenied);
  const others = tiers.filter((each) => each.isDenied && !likely.includes(each));
  if (!find)
    return denying.length > 0 || (others.length > 0 && !sees.likely)
      ? 'is denied, but not listed'
      : undefined;
  const said = `is listed in tier ${find.tier ?? '-'}, certain ${find.certain}, likely ${find.likely ?? '-'}`;
  const isRow = (tier: string | undefined, certain: boolean, isLikely: boolean) =>
    find.tier === tier && find.certain === certain && (find.likely ?? true) === isLikely;
  if (denying.length === 0) {
    const isRight = others.some(
      ({ tier, policy }) =>
        (!sees.likely && isRow(tier, false, false)) || (sees.lately(policy) && isRow(tier, true, true)),
    );
    return isRight ? undefined : `${said}, but no likely tier denies it`;
  }
  const certain = denying.length === likely.length;
  const isRight =
    certain && denying.length > 1
      ? isRow(undefined, true, true)
      : denying.some(({ tier }) => isRow(tier, certain, true));
  return isRight ? undefined : `${said}, but is denied in ${denying.map(({ tier }) => tier ?? '-').join()}`;
}
