// The times by which counts are kept, ms.
export const MINUTE_MS = 60_000;
/** The step of the counts of the last day, ms. */
export const STEP_MS = 10 * MINUTE_MS;
export const HOUR_MS = 60 * MINUTE_MS;
