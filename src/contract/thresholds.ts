import { kernels } from '../algorithms/index.js';
import type { CompiledPolicy } from './policy.js';
import type { PolicySet, Subject } from './store.js';

/** The first crossing of a threshold in a window. Exactly one process gets it. */
export interface ThresholdEvent {
  /** The limiter's name. */
  readonly limiter: string;
  /** The policy's name. */
  readonly policy: string;
  /** The key whose quota the policy counts: the request's key, or its key of the policy's dimension (`by`). */
  readonly key: string;
  /** The fraction that was reached: 0.8. */
  readonly threshold: number;
  /** The charged units after the charge that reached it. At most `limit`. */
  readonly used: number;
  /** The limit in force, or a bucket's burst. */
  readonly limit: number;
  /** The time until the policy is back at its full quota, ms. The threshold is not reported again before, unless the limit is raised. */
  readonly resetAfterMs: number;
}

/** A crossing as a store reports it: the position of the policy in the set, and the threshold in thousandths. */
export interface Crossing extends Pick<ThresholdEvent, 'used' | 'limit' | 'resetAfterMs'> {
  readonly at: number;
  readonly level: number;
}

/** Whether a policy of a set has thresholds. */
export function hasThresholds({ policies }: Pick<PolicySet, 'policies'>): boolean {
  return policies.some(({ thresholds }) => thresholds !== undefined);
}

/** The units of an untouched key, by the limits in force, which may have another burst than the policy's traits. */
export function fullQuotaOf({ kernel, params }: CompiledPolicy, now: number): number {
  const column = kernels[kernel].createColumn(1, params);
  column.look(0, params, 0, now, false);
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

export function eventOf(subject: Subject, { at, level, ...rest }: Crossing): ThresholdEvent {
  const policy = subject.set.policies[at]!;
  return {
    ...{ limiter: subject.set.name, policy: policy.name, key: countedKey(subject, policy) },
    ...{ threshold: level / 1000, ...rest },
  };
}
