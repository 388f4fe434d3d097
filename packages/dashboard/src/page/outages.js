// Past outages of the store, apart from single late answers.

/**
 * Minutes in a row in which the store was down by one cause, and the late answers of the other minutes.
 *
 * @param {number[]} minutes their starts
 * @param {Record<'admitted' | 'denied' | 'degraded' | 'unreachable' | 'unanswered', number[]>} counts
 */
export function outagesIn(minutes, { admitted, denied, degraded, unreachable, unanswered }) {
  const length = (minutes[1] ?? 0) - (minutes[0] ?? 0);
  /** @type {{ from: number, to: number, sum: number, cause: string, isOne: boolean, isWhole: boolean }[]} */
  const outages = [];
  let late = 0;
  for (const [i, from] of minutes.entries()) {
    const sum = degraded[i] ?? 0;
    if (sum === 0) continue;
    const cause = causeOf(unreachable[i] ?? 0, unanswered[i] ?? 0);
    const all = (admitted[i] ?? 0) + (denied[i] ?? 0);
    const isWhole = sum >= all;
    const last = outages.at(-1);
    // Processes of earlier versions do not count the cause. In an outage, most decisions are without the store.
    if (cause === UNKNOWN_CAUSE && 2 * sum < all) late += sum;
    else if (last?.to === from && last.cause === cause) {
      // Of two minutes in which it also answered, it may have been up in between.
      last.isOne &&= last.isWhole || isWhole;
      last.isWhole = isWhole;
      last.to = from + length;
      last.sum += sum;
    } else outages.push({ from, to: from + length, sum, cause, isOne: true, isWhole });
  }
  return { outages, late };
}

const UNKNOWN_CAUSE = 'the cause was not recorded';

/** The cause of decisions without the store, in words. @param {number} unreachable @param {number} unanswered */
function causeOf(unreachable, unanswered) {
  if (unreachable + unanswered === 0) return UNKNOWN_CAUSE;
  return unanswered > unreachable ? 'it did not answer in time' : 'it could not be reached, or failed';
}

const OUTAGE_MINUTE_MS = 60_000;

/**
 * The time of an outage, in words. Counts are of whole minutes, so the end of an outage is known only by the minute.
 *
 * @param {{ from: number, to: number, isOne: boolean }} outage `isOne`: it is not several ones in minutes in a row
 * @param {{ length: number, end: number, isDown: boolean }} span of the counts: the length of each, their end, and whether the store is down now
 * @param {(at: number) => string} atTime
 */
export function outageTime({ from, to, isOne }, { length, end, isDown }, atTime) {
  const last = to - length;
  const [first, final] = [atTime(from), atTime(last)];
  if (isDown && to >= end) return isOne ? `Down since ${first}` : `Down, and at times since ${first}`;
  if (length !== OUTAGE_MINUTE_MS)
    return `Was down ${isOne ? '' : 'at times '}between ${first} and ${atTime(to)}`;
  if (last === from) return `Was down in the minute of ${first}`;
  if (isOne) return `Was down from the minute of ${first} to that of ${final}`;
  return last === from + length
    ? `Was down in the minutes of ${first} and ${final}`
    : `Was down at times in the minutes of ${first} to ${final}`;
}
