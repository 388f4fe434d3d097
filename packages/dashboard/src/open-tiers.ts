import type { Admin, KeyView, LoggedChange } from 'headgate/admin';

const OF_LIMITS = ['override', 'remove'] as const;

/** The greatest age of a change for which a log can be asked, ms. */
const MAX_AGE_MS = 366 * 24 * 60 * 60 * 1000;

/** The log of changes, by the store's clock, which may differ from that of this process. */
type Log = Pick<Admin, 'log'>;

/**
 * Marks a tier as likely again if the key has no quota left in it, but the limits were changed within the window, or an override ended: the key
 * may have used that much under the earlier limits.
 *
 * @param changes those of the key, and of all keys, the newest first
 */
export function withOpenTiers(
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
  const own = changes.filter(
    (each) => each.name === name && (OF_LIMITS as readonly string[]).includes(each.action),
  );
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
async function isYounger({ id, name }: LoggedChange, ms: number, { log }: Log): Promise<boolean> {
  const ageMs = Math.max(1, Math.min(MAX_AGE_MS, Math.ceil(ms) - 1));
  const of = typeof name === 'string' ? { name } : {};
  for await (const change of log({ ...of, actions: OF_LIMITS, since: `${ageMs}ms` }))
    if (change.id === id) return true;
  return false;
}
