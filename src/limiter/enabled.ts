import { invalidOption } from '../common/errors.js';

/** The option `enabled`, after it was checked. */
export type Enabled = boolean | (() => boolean);

const FIX = 'Pass true, false, or a function that returns one of them at once.';

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function checkEnabled(enabled: unknown): Enabled {
  if (typeof enabled !== 'boolean' && typeof enabled !== 'function') {
    throw invalidOption('enabled', enabled, FIX);
  }
  return enabled as Enabled;
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` if the function does not return a boolean, because a promise would always count as on */
export function isOn(enabled: Enabled): boolean {
  const on: unknown = typeof enabled === 'function' ? enabled() : enabled;
  if (typeof on !== 'boolean') throw invalidOption('enabled', on, FIX);
  return on;
}
