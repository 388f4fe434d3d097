import { invalidOption } from '../../../common/errors.js';
import { optional } from '../../../common/options.js';

/** The option of a store that can keep crossings of thresholds. */
export interface StreamOptions {
  /**
   * `'stream'`: crossings are kept until they are read. Each is written together with the charge, so that no crash of a process loses it.
   * `admin.thresholds` reads them. Not for a cluster of Redis. See https://github.com/headgate/headgate/blob/main/docs/thresholds.md.
   * @default false
   */
  thresholds?: 'stream' | false | undefined;
}

export const STREAM_TABLE = {
  thresholds: optional<'stream' | false, 'stream' | false, false>(
    "`'stream'`, or `false`",
    (option, given) => {
      if (given === 'stream' || given === false) return given;
      throw invalidOption(option, given, "Pass 'stream', or false.");
    },
    false,
  ),
};
