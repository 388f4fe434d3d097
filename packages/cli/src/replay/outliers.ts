import { excludable, type Measured, type Peaks } from './measure.js';

/** An outlier uses at least this many times as much as each client that is not an outlier. */
export const OUTLIER_FACTOR = 5;

/** At most this share of the clients are outliers, and always one may be. A larger group has a need of its own. */
const MAX_SHARE = 0.05;

/** Fewer clients do not show the usual use. */
const MIN_CLIENTS = 10;

/** A client that stays within this many units is not an outlier, however little the others use. */
const USUAL_UNITS = 2;

/**
 * Finds the outliers of a log that has too few clients for `keep`: the share then keeps all of them, and a single scraper decides the limits.
 *
 * @returns the numbers of the clients. Empty if `keep` leaves clients out, or asks for all
 */
export function outliersOf(all: readonly Measured[], clients: number, keep: number): ReadonlySet<number> {
  const outliers = new Set<number>();
  if (keep === 100 || clients < MIN_CLIENTS || excludable(clients, keep) > 0) return outliers;
  const most = Math.max(1, Math.floor(MAX_SHARE * clients));
  for (const { peaks } of all) {
    const usual = usualLimit(peaks, most);
    peaks.values.forEach((units, client) => {
      if (units > usual) outliers.add(client);
    });
  }
  // Different windows can have different outliers. Many of them together are not an exception.
  return outliers.size > most ? new Set() : outliers;
}

/** The peak use among the clients that are not outliers. Infinity if there is no gap among the `most` busiest clients. */
function usualLimit(peaks: Peaks, most: number): number {
  for (let excluded = most; excluded > 0; excluded--) {
    const usual = peaks.limitFor(excluded);
    if (peaks.limitFor(excluded - 1) >= OUTLIER_FACTOR * Math.max(usual, USUAL_UNITS)) return usual;
  }
  return Infinity;
}
