// The use of a policy by keys, from the recorded levels.

/** The number of windows of keys with a use above a part of the capacity, between the recorded levels by interpolation. Above all of it are those that were denied. @param {number[]} levels @param {number[]} counts @param {number} part */
export function above(levels, counts, part) {
  const numberAt = (/** @type {number} */ i) => counts[i] ?? 0;
  if (part >= 1) return numberAt(levels.length);
  const at = levels.findLastIndex((level) => level <= part);
  const [low, high] = [levels[at] ?? 0, levels[at + 1] ?? 1];
  const more = numberAt(at);
  const found = Math.round(more + ((numberAt(at + 1) - more) * (part - low)) / (high - low || 1));
  return Math.min(found, numberAt(0));
}

/**
 * The units that keys used above a part of the capacity, as a multiple of the capacity: each window counts for every part below its use, so they
 * are the area under the numbers of windows.
 *
 * @param {number[]} levels @param {number[]} counts @param {number} part
 */
export function unitsAbove(levels, counts, part) {
  let [sum, from] = [0, part];
  for (const to of [...levels.filter((level) => level > part), 1]) {
    sum += ((to - from) * (above(levels, counts, from) + above(levels, counts, to))) / 2;
    from = to;
  }
  return sum;
}

/** The part of all units that lies above a part of the capacity. @param {number[]} levels @param {number[]} counts @param {number} part */
export function partAbove(levels, counts, part) {
  const all = unitsAbove(levels, counts, 0);
  return all === 0 ? 0 : unitsAbove(levels, counts, part) / all;
}

/**
 * The sampled keys that use a part of their own limit, or more, with their use. An override may give a key another limit than the policy has, so
 * the part is compared, as in the counts by levels.
 *
 * @param {readonly any[]} keys @param {{ capacity: number, limit: number }} policy @param {number} limit the moved limit
 */
export function usersAbove(keys, policy, limit) {
  const factor = policy.capacity / policy.limit;
  return keys
    .map((each) => ({ ...each, quota: each.limit * factor }))
    .map((each) => ({ ...each, used: Math.max(0, each.quota - each.remaining) }))
    .filter(({ used, quota }) => used * policy.limit >= limit * quota);
}

/** Whether a limit is for more than a window, so that counts of windows are rough: a sliding window frees units only after its oldest segment. @param {string} text a policy without its name */
export const isSliding = (text) => /^(sliding-window )?\d+\s*\/\s*\d*(ms|s|m|h|d)\b/.test(text);
