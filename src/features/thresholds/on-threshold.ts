import { HeadgateError } from '../../common/errors.js';
import { notifyUser } from '../../common/warnings.js';
import type { ThresholdEvent } from '../../contract/crossing.js';
import { thresholdChannel } from '../../contract/diagnostics.js';
import type { PolicySet } from '../../contract/store.js';
import { hasThresholds } from './crossings.js';

type OnThreshold = (event: ThresholdEvent) => void;

/** Reports crossings of thresholds to the subscribers and to `onThreshold`. */
export function thresholdReporter(onThreshold: OnThreshold | undefined): OnThreshold {
  return (event) => {
    thresholdChannel.publish(event);
    if (onThreshold) notifyUser('onThreshold', onThreshold, event);
  };
}

/** Refuses `onThreshold` if no policy can cross a threshold. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function checkThresholds(sets: readonly PolicySet[]): void {
  if (sets.some(hasThresholds)) return;
  throw new HeadgateError(
    'HEADGATE_INVALID_OPTION',
    'onThreshold: no policy has thresholds, so the function would never be called. Set thresholds: [0.8, 1] on a policy, or omit this option.',
  );
}
