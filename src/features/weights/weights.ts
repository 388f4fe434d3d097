import { hasShares } from '../../algorithms/index.js';
import type { Query } from '../../contract/store.js';
import type { Feature } from '../feature.js';
import { number } from '../layout.js';

/** Sends the weight of the tenant with each request, if a limit is shared. */
export const weights: Feature = {
  name: 'weights',
  appliesTo: ({ policies }) => hasShares(policies.map(({ kernel }) => kernel)),
  isInLooks: true,
  // 0: the weight of the policy.
  requestArgs: { weight: number(({ weight = 0 }: Query) => weight) },
};
