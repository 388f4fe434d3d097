import type { CompiledPolicy } from '../../contract/policy.js';

/** The tag of the marks of reported thresholds, by the policy's id. */
export const THRESHOLD_TAG = 'T1:';

/** The tags of the marks of a policy. */
export function marksOf({ id, thresholds }: CompiledPolicy): readonly string[] {
  return thresholds ? [THRESHOLD_TAG + id] : [];
}

/** The thresholds that were reported: the end of their window, then each in thousandths with the highest limit at which it was reported. */
export type Mark = readonly [until: number, ...levels: number[]];
