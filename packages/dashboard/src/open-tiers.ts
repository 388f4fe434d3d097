import type { KeyView, LoggedChange } from 'headgate/admin';

const OF_LIMITS: readonly string[] = ['override', 'remove'];

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
  const changedAt = (name: string): number =>
    Math.max(
      -Infinity,
      ...changes
        .filter((each) => each.name === name && OF_LIMITS.includes(each.action))
        .map(({ at }) => at.getTime()),
    );
  return views.map((view) => {
    const ageMs = now - changedAt(view.name);
    const isOpen = view.policies.some((each) => !each.allowed && !each.shadow && ageMs < each.windowMs);
    return isOpen ? { ...view, likely: true } : view;
  });
}
