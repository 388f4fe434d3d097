/** The step after `last` at a time in ms: those of one millisecond are told apart by their order, as far as microseconds reach. */
export function stepAfter(last: number, now: number): number {
  const first = now * 1000;
  return last >= first && last < first + 1000 ? Math.min(last + 1, first + 999) : first;
}
