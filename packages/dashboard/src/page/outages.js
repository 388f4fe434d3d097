// Past outages of the store, apart from single late answers.

/**
 * Minutes in a row in which the store was down, and the late answers of the other minutes.
 *
 * @param {number[]} minutes their starts
 * @param {Record<'admitted' | 'denied' | 'degraded' | 'unreachable' | 'unanswered', number[]>} counts
 */
export function outagesIn(minutes, { admitted, denied, degraded, unreachable, unanswered }) {
  const length = (minutes[1] ?? 0) - (minutes[0] ?? 0);
  /** @type {{ from: number, to: number, sum: number, unreachable: number, unanswered: number }[]} */
  const outages = [];
  let late = 0;
  for (const [i, from] of minutes.entries()) {
    const sum = degraded[i] ?? 0;
    if (sum === 0) continue;
    const own = { unreachable: unreachable[i] ?? 0, unanswered: unanswered[i] ?? 0 };
    // Processes of earlier versions do not count the cause. In an outage, most decisions are without the store.
    const isOutage = own.unreachable + own.unanswered > 0 || 2 * sum >= (admitted[i] ?? 0) + (denied[i] ?? 0);
    const last = outages.at(-1);
    if (!isOutage) late += sum;
    else if (last?.to === from) {
      last.to = from + length;
      last.sum += sum;
      last.unreachable += own.unreachable;
      last.unanswered += own.unanswered;
    } else outages.push({ from, to: from + length, sum, ...own });
  }
  return { outages, late };
}

/** The cause of an outage, in words. @param {{ unreachable: number, unanswered: number }} outage */
export function outageCause(outage) {
  if (outage.unreachable + outage.unanswered === 0) return 'the cause was not recorded';
  return outage.unanswered > outage.unreachable
    ? 'it did not answer in time'
    : 'it could not be reached, or failed';
}

const OUTAGE_MINUTE_MS = 60_000;

/**
 * The time of an outage, in words. Counts are of whole minutes, so the end of an outage is known only by the minute.
 *
 * @param {{ from: number, to: number }} outage
 * @param {{ length: number, end: number, isDown: boolean }} span of the counts: the length of each, their end, and whether the store is down now
 * @param {(at: number) => string} atTime
 */
export function outageTime({ from, to }, { length, end, isDown }, atTime) {
  if (isDown && to >= end) return `Down since ${atTime(from)}`;
  if (length !== OUTAGE_MINUTE_MS) return `Was down between ${atTime(from)} and ${atTime(to)}`;
  const last = to - length;
  return last === from
    ? `Was down in the minute of ${atTime(from)}`
    : `Was down from the minute of ${atTime(from)} to that of ${atTime(last)}`;
}
