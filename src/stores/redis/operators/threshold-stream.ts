import type { CompiledPolicy } from '../../../contract/policy.js';
import { CROSSINGS_LIFE_MS, MAX_CROSSINGS } from '../../crossings.js';

/** The key of the stream of crossings. It has no colon between the braces, so it is never a limiter's. */
export function streamKey(prefix: string): string {
  return `${prefix}:{thresholds}`;
}

/** The arguments of `thresholds.lua`. */
export function thresholdArgs(policies: readonly CompiledPolicy[], stream: boolean): string[] {
  const watched = policies.flatMap(({ thresholds, traits: { capacity } }) => {
    if (!thresholds) return ['-1'];
    const near = capacity - Math.ceil((thresholds[0]! * capacity) / 1000);
    return [String(near), String(capacity), thresholds.join(' ')];
  });
  return [...watched, ...(stream ? [MAX_CROSSINGS, CROSSINGS_LIFE_MS] : ['', 0]).map(String)];
}
