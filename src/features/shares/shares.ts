import { createHash } from 'node:crypto';
import { checkWeight } from './contract/shares.js';
import { SHARES_KERNEL, SLOT_SHARES_KERNEL, type AnyKernel } from '../../algorithms/index.js';
import type { Query, Subject } from '../../contract/store.js';
import type { Feature } from '../feature.js';
import { number } from '../layout.js';

/** A feature of the sets that have a policy with one of these kernels. Usage depends on it. */
function ofKernels(name: string, ...kernels: readonly AnyKernel[]): Feature {
  const appliesTo: Feature['appliesTo'] = ({ policies }) =>
    policies.some(({ kernel }) => kernels.includes(kernel));
  return { name, kernels, appliesTo, isInLooks: true };
}

/** The feature that shares of units and of slots have in common: each request has a weight. */
const weights: Feature = {
  ...ofKernels('weights', SHARES_KERNEL, SLOT_SHARES_KERNEL),
  option: { name: 'weight', isForAll: true, check: (weight) => void checkWeight('weight', weight) },
  // 0: the weight of the policy.
  requestArgs: { weight: number(({ weight = 0 }: Query) => weight) },
  // The store counts each request of a tenant as demand, and its share changes with the demand of other tenants.
  remembered: () => 0,
};

/** Shares the units of windows, and slots, among tenants. The sections of `weights` use those of the other two. */
export const shares: readonly Feature[] = [
  ofKernels('slot-sharing', SLOT_SHARES_KERNEL),
  ofKernels('sharing', SHARES_KERNEL),
  weights,
];

/** The end of the names of a tenant's leases, by which stores count the slots of each tenant. Empty unless slots are shared. */
export function leaseTag({ set, key }: Subject): string {
  if (typeof key === 'string') return '';
  const tenants = set.policies.find(({ kernel, by }) => kernel === SLOT_SHARES_KERNEL && by.includes('/'));
  if (!tenants) return '';
  const tenant = key[set.dimensions!.names.indexOf(tenants.by)]!;
  return `.${createHash('sha256').update(tenant).digest('hex').slice(0, 16)}`;
}
