import { invalidOption } from '../common/errors.js';

/**
 * The client to limit: any string, or an object with a key for each dimension. A string has the same meaning as `{ key: string }`, the
 * dimension of policies without `by`. Policies whose dimension is absent or `undefined` do not apply.
 */
export type Key = string | Readonly<Record<string, string | undefined>>;

/** The dimension of policies without `by`. */
export const DEFAULT_DIMENSION = 'key';

const NAME = /^[A-Za-z][\w-]{0,31}$/;

/** Checks the name of a dimension. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function checkDimension(option: string, name: unknown): string {
  if (typeof name === 'string' && NAME.test(name)) return name;
  const fix = "Use a dimension's name: a letter, then up to 31 letters, digits, _ and -.";
  throw invalidOption(option, name, fix);
}
