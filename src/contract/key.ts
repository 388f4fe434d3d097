import { invalidOption } from '../common/errors.js';

/**
 * Who is limited: a key, any string; or a key of each dimension. `key` is that of policies without `by`, and a string stands for
 * `{ key }`. Policies by a dimension that is left out, or `undefined`, do not apply.
 */
export type Key = string | Readonly<Record<string, string | undefined>>;

/** The dimension of policies without `by`. */
export const DEFAULT_DIMENSION = 'key';

const NAME = /^[A-Za-z][\w-]{0,31}$/;

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` unless it can be a dimension's name */
export function checkDimension(option: string, name: unknown): string {
  if (typeof name === 'string' && NAME.test(name)) return name;
  const fix = "Write a dimension's name: a letter, then up to 31 letters, digits, _ and -.";
  throw invalidOption(option, name, fix);
}
