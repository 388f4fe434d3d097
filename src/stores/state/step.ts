/** The next step after `last`, at a time in ms. Steps of one millisecond differ by their order, as far as microseconds allow. */
export function stepAfter(last: number, now: number): number {
  const first = now * 1000;
  return last >= first && last < first + 1000 ? Math.min(last + 1, first + 999) : first;
}
