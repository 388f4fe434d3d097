// The cost of a request for each policy.
import type { Cost } from './types.js';

export const costOf = (cost: Cost, policy: string): number =>
  typeof cost === 'number' ? cost : (cost[policy] ?? 1);
