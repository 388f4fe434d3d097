import { kernels } from '../../algorithms/index.js';
import type { Crossing, ThresholdEvent } from '../../contract/crossing.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { PolicySet, Subject } from '../../contract/store.js';

/** Whether a policy of a set has thresholds. */
export function hasThresholds({ policies }: Pick<PolicySet, 'policies'>): boolean {
  return policies.some(({ thresholds }) => thresholds !== undefined);
}

/** The units of an untouched key, by the limits in force, which may have another burst than the policy's traits. */
export function fullQuotaOf({ kernel, params }: CompiledPolicy, now: number): number {
  const column = kernels[kernel].createColumn(1, params);
  column.look(0, params, 0, now);
  return column.remaining;
}

/** The key that a policy of a set counts. */
export function countedKey({ set, key }: Subject, { by }: CompiledPolicy): string {
  return typeof key === 'string' ? key : key[set.dimensions!.names.indexOf(by)]!;
}

/** Takes the crossings of a question off a list, in the order of the policies. */
export function takeCrossings(list: Crossing[]): Crossing[] {
  return list.splice(0).sort((a, b) => a.at - b.at);
}

/** Passes crossings on to the limiter of a question. A store calls this for each answer, even if the caller no longer waits. */
export function reportCrossings(subject: Subject, crossings: readonly Crossing[]): void {
  for (const crossing of crossings) subject.set.onThreshold?.(eventOf(subject, crossing));
}

function eventOf(subject: Subject, { at, level, ...rest }: Crossing): ThresholdEvent {
  const policy = subject.set.policies[at]!;
  return {
    ...{ limiter: subject.set.name, policy: policy.name, key: countedKey(subject, policy) },
    ...{ threshold: level / 1000, ...rest },
  };
}
