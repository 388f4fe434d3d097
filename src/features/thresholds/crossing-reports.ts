import { kernels } from '../../algorithms/index.js';
import { HeadgateError } from '../../common/errors.js';
import { notifyUser } from '../../common/warnings.js';
import type { Crossing, ThresholdEvent } from './contract/crossing.js';
import { thresholdChannel } from '../../contract/diagnostics.js';
import { setsByDimension } from '../../contract/dimension-sets.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { Reply } from '../../contract/reply.js';
import type { PolicySet, Subject } from '../../contract/store.js';
import { hasThresholds, storedCrossing, type CrossingList, type StoredCrossing } from './crossings.js';

/** The units of an untouched key, by the limits in force, which may have another burst than the policy's traits. */
export function fullQuotaOf({ kernel, params }: CompiledPolicy, now: number): number {
  const column = kernels[kernel].createColumn(1, params);
  column.look(0, params, 0, now);
  return column.remaining;
}

export function countedKey({ set, key }: Subject, { by }: CompiledPolicy): string {
  return typeof key === 'string' ? key : key[set.dimensions!.names.indexOf(by)]!;
}

/** Takes the crossings of a question off a list, in the order of the policies. */
function takeCrossings(list: Crossing[]): Crossing[] {
  return list.splice(0).sort((a, b) => a.at - b.at);
}

/** The crossings by the questions about states, for the callers and for a stream. */
export class StateCrossings {
  readonly current: Crossing[] = [];
  /** Those for a stream, by the index of their state. */
  #stored: StoredCrossing[][] | undefined;

  /** The reply to the current question, with its crossings. */
  addedTo<T extends Reply>(reply: T, subject: Subject, now: number): T {
    if (this.current.length === 0) return reply;
    const crossings = takeCrossings(this.current);
    for (const crossing of crossings) {
      const i = setsByDimension(subject.set).findIndex(({ at }) => at.includes(crossing.at));
      ((this.#stored ??= [])[i] ??= []).push(storedCrossing(subject, crossing, now));
    }
    return { ...reply, crossings };
  }

  /** The change of the i-th state, with its crossings. */
  addedToChange<T extends object>(change: T, i: number): T & { crossings?: readonly StoredCrossing[] } {
    const crossings = this.#stored?.[i];
    return crossings ? { ...change, crossings } : change;
  }
}

/** Reports the crossings of a question, and adds them to `stream`. `list` is emptied before, because a listener may ask the store. */
export function passOn(
  list: Crossing[],
  subject: Subject,
  stream: CrossingList | undefined,
  now: number,
): void {
  const crossings = takeCrossings(list);
  if (stream) for (const crossing of crossings) stream.add(storedCrossing(subject, crossing, now));
  reportCrossings(subject, crossings);
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

type OnThreshold = (event: ThresholdEvent) => void;

/** Reports crossings of thresholds to the subscribers and to `onThreshold`. */
export function thresholdReporter(onThreshold: OnThreshold | undefined): OnThreshold {
  return (event) => {
    thresholdChannel.publish(event);
    if (onThreshold) notifyUser('onThreshold', onThreshold, event);
  };
}

/** Refuses `onThreshold` if no policy can cross a threshold. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function checkOnThreshold(sets: readonly PolicySet[]): void {
  if (sets.some(hasThresholds)) return;
  throw new HeadgateError(
    'HEADGATE_INVALID_OPTION',
    'onThreshold: no policy has thresholds, so the function would never be called. Set thresholds: [0.8, 1] on a policy, or omit this option.',
  );
}
