// The use of a policy by keys, from the recorded levels.

/** The number of windows of keys with a use above a part of the capacity, between the recorded levels by interpolation. Above all of it are those that were denied. @param {number[]} levels @param {number[]} counts @param {number} part */
export function above(levels, counts, part) {
  if (part >= 1) return counts[levels.length] ?? 0;
  const at = levels.findLastIndex((level) => level <= part);
  const [low, high] = [levels[at], levels[at + 1] ?? 1];
  const [more, fewer] = [counts[at], counts[at + 1] ?? 0];
  const found = Math.round(more + ((fewer - more) * (part - low)) / (high - low || 1));
  return Math.min(found, counts[0]);
}

/**
 * The units that keys used above a part of the capacity, as a multiple of the capacity: each window counts for every part below its use, so they
 * are the area under the numbers of windows.
 *
 * @param {number[]} levels @param {number[]} counts @param {number} part
 */
export function unitsAbove(levels, counts, part) {
  const marks = [part, ...levels.filter((level) => level > part), 1];
  return marks.slice(1).reduce((sum, to, i) => {
    const from = marks[i];
    return sum + ((to - from) * (above(levels, counts, from) + above(levels, counts, to))) / 2;
  }, 0);
}
