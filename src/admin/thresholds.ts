import { toMilliseconds, type Duration } from '../common/duration.js';
import { invalidOption } from '../common/errors.js';
import { checkInteger, checkShape } from '../common/validate.js';
import type { ThresholdEvent } from '../features/thresholds/contract/crossing.js';
import type { Context } from './context.js';
import { whoseOf, type Whose } from './owners.js';

/** Options of `thresholds`. */
export interface ThresholdReaderOptions {
  /** The name of the group: 1 to 64 characters. Each group gets every crossing; the readers of a group share them. */
  group: string;
  /** The time after which a crossing that was read and not acknowledged is read again: `'1s'` to `'366d'`. @default '1m' */
  redeliverAfter?: Duration | undefined;
}

/** A crossing of a threshold, as a reader gets it. */
export interface RecordedThreshold
  extends Whose, Pick<ThresholdEvent, 'policy' | 'threshold' | 'used' | 'limit' | 'resetAfterMs'> {
  /** Unique in the store, and the same at each delivery. Pass it to a service of mails or webhooks as the idempotency key. */
  readonly id: string;
  /** The time of the charge, by the store's clock. */
  readonly at: Date;
}

/** Reads the crossings of a store with `thresholds: 'stream'`. */
export interface ThresholdReader {
  /** The crossings to handle now, the oldest first: at most `count`, 1 to 1,000. @default { count: 100 } */
  read(options?: { count?: number }): Promise<RecordedThreshold[]>;
  /** Acknowledges crossings, so that this group does not get them again. */
  ack(...crossings: readonly Pick<RecordedThreshold, 'id'>[]): Promise<void>;
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION`, for example for an array of crossings, which would acknowledge nothing */
function idOf(crossing: unknown): string {
  const { id } = (crossing ?? {}) as { readonly id?: unknown };
  if (typeof id === 'string') return id;
  throw invalidOption(
    'ack',
    crossing,
    'Pass crossings from `read`, as separate arguments: ack(...crossings).',
  );
}

export function thresholds({ state }: Context, options: ThresholdReaderOptions): ThresholdReader {
  checkShape('thresholds', options, ['group', 'redeliverAfter']);
  const { group, redeliverAfter = '1m' } = options;
  if (typeof group !== 'string' || group.length < 1 || group.length > 64)
    throw invalidOption('group', group, "Pass a name of 1 to 64 characters, such as 'mail'.");
  const idle = toMilliseconds('redeliverAfter', redeliverAfter, { least: 1000 });
  return {
    async read(options = {}) {
      checkShape('read', options, ['count']);
      const count = options.count === undefined ? 100 : checkInteger('count', options.count, 1, 1000);
      const read = await state.crossings.read(group, count, idle);
      return read.map(({ who, level, at, ...rest }) => ({
        ...(whoseOf(who, undefined) ?? { name: who }),
        ...{ at: new Date(at), threshold: level / 1000, ...rest },
      }));
    },
    async ack(...crossings) {
      const ids = crossings.map(idOf);
      if (ids.length > 0) await state.crossings.ack(group, ids);
    },
  };
}
