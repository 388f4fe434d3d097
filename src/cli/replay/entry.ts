import type { Key } from '../../contract/key.js';

/** One request of a log. */
export interface Entry {
  /** ms since the epoch. */
  time: number;
  /** Who is limited: a text; or, if `--key` names several dimensions, the keys that the line has. */
  readonly key: Key;
  /** Present if it was asked for, and the log has it. */
  readonly path?: string | undefined;
  readonly status?: number | undefined;
}

/** The meaning of a line: a request; nothing to replay (another kind of line, filtered out, no key); or unreadable, and why. */
export type Parsed = Entry | 'skipped' | { readonly problem: string };
