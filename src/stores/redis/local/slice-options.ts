import type { Duration } from '../../../common/duration.js';
import { duration, integer, type OptionTable, type OptionValues } from '../../../common/options.js';

/** The part of a hot key's quota that a process charges in advance. See https://github.com/headgate/headgate/blob/main/docs/hot-keys.md. */
export interface SliceOptions {
  /**
   * The most units of a key in this process at a time: 2 to 1,000,000. A slice never exceeds a tenth of the lowest limit of the key, or an
   * eighth of the remaining units.
   *
   * @default 10000
   */
  size?: number | undefined;
  /** The time for which units are kept before they are returned: `'1ms'` to `'1s'`. @default '100ms' */
  hold?: Duration | undefined;
}

export const SLICE_TABLE = {
  size: integer(2, 1e6, 10_000),
  hold: duration('100ms', { most: 1000, usual: 'brief' }),
} satisfies OptionTable<SliceOptions>;

export type Slicing = OptionValues<typeof SLICE_TABLE>;
