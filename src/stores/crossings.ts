import { optional } from '../common/options.js';
import { invalidOption } from '../common/errors.js';

/** The most crossings that a store keeps for readers, and the time for which it keeps them, ms. */
export const MAX_CROSSINGS = 100_000;
export const CROSSINGS_LIFE_MS = 30 * 86_400_000;

/** The row of the option `thresholds` of a store. */
export const thresholdsOption = () =>
  optional<'stream' | false, 'stream' | false, false>(
    "`'stream'`, or `false`",
    (option, given) => {
      if (given === 'stream' || given === false) return given;
      throw invalidOption(option, given, "Pass 'stream', or false.");
    },
    false,
  );
