// The facts about a key from several lists: its ban, its override, and the end of its denial.

/** The identity of a key in a list. @param {any} key */
export const sameKey = ({ key, dimension, within }) => JSON.stringify([key, dimension, within]);

/** A counted key with its ban, or with the end of its denial from the search. @param {any} key @param {any[]} rows @param {any[]} bans */
export function withEnd(key, rows, bans) {
  const ban = bans.find((each) => sameKey(each) === sameKey(key));
  // A ban outlasts the limits, and its list is younger than the search.
  if (ban) {
    const { bannedForMs } = ban;
    return { ...key, bannedForMs, retryAfterMs: bannedForMs, lacksSlots: false };
  }
  if (key.retryAfterMs || key.reason === 'banned') return key;
  const own = rows.filter((each) => sameKey(each) === sameKey(key));
  const [first] = own;
  if (!first || own.some((each) => each.retryAfterMs !== first.retryAfterMs)) return key;
  return { ...key, retryAfterMs: first.retryAfterMs, lacksSlots: first.lacksSlots };
}

/** The override of a key, or that of all keys. @param {any} key @param {any[]} overrides */
export const overrideOf = (key, overrides) =>
  overrides.find((each) => sameKey(each) === sameKey(key)) ??
  overrides.find((each) => each.key === undefined);

/** Tenants with the rates of the counted keys, which are some seconds younger. A rate of several policies is divided as before. @param {any[]} tenants @param {any[]} keys */
export function withRates(tenants, keys) {
  const rates = new Map(keys.map((each) => [sameKey(each), each.denied]));
  return tenants.map((each) => {
    const denied = rates.get(sameKey(each)) ?? each.denied;
    const part = each.denied > 0 ? denied / each.denied : 0;
    const deniedBy = each.deniedBy.map((/** @type {any} */ by) => ({ ...by, denied: by.denied * part }));
    return { ...each, denied, deniedBy };
  });
}

/** The counted keys with the reason of a denial that only the tenant's row has: its share is used up. @param {any[]} keys @param {any[]} tenants */
export function withShares(keys, tenants) {
  const spent = new Map(
    tenants.filter(({ reason }) => reason === 'fair-share').map((each) => [sameKey(each), each.policy]),
  );
  return keys.map((each) => ({
    ...each,
    ...(each.policy !== undefined && spent.get(sameKey(each)) === each.policy && { isOfShare: true }),
  }));
}

/** The slots of a key by its processes, which report each second, because the search of some seconds ago has other figures. @param {any} found @param {any[]} processes */
export function currentSlots(found, processes) {
  const counted = processes.reduce((sum, { slots }) => sum + slots, 0);
  if (found.uncounted === null) return { ...found, used: Math.max(found.used, counted) };
  const uncounted = Math.min(found.uncounted, Math.max(0, found.used - counted));
  return { ...found, used: counted + uncounted, uncounted };
}
