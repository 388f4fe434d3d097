/** The first whole number from `low` on for which a condition holds, or `high`. The condition must also hold for all greater numbers. */
export function firstWhere(low: number, high: number, holds: (number: number) => boolean): number {
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
