import type { LoggedChange } from 'headgate/admin';
import type { Show, ShownKey } from './hidden.js';

/** A logged change as the page gets it. */
export interface ChangeRow extends Omit<LoggedChange, 'at' | 'key' | 'network' | 'within'> {
  /** ms since 1970. */
  readonly at: number;
  readonly key?: ShownKey;
  readonly network?: ShownKey;
  readonly within?: ShownKey;
}

export function changeRow(change: LoggedChange, show: Show): ChangeRow {
  const { at, key, network, within, ...rest } = change;
  return {
    ...rest,
    at: at.getTime(),
    ...(key !== undefined && { key: show(key) }),
    ...(network !== undefined && { network: show(network) }),
    ...(within !== undefined && { within: show(within) }),
  };
}
