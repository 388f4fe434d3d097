// The limiter of threshold-child.ts.
export const THRESHOLDS = [0.25, 0.5, 0.8, 1];
/** The configured limit, and those of overrides. */
export const LIMITS = [120, 60, 180, 240] as const;
export const THRESHOLD_OPTIONS = {
  name: 'plan',
  algorithm: 'fixed-window',
  limit: LIMITS[0],
  window: '30d',
  thresholds: THRESHOLDS,
  overrides: true,
  onStoreError: 'throw',
  timeout: '30s',
} as const;
