import { checkShape } from '../common/validate.js';
import { checkNote, type ChangeNote, type ChangeNoteOptions } from '../contract/change-note.js';
import { checkLimiterName } from '../limiter/options.js';
import type { State } from './state.js';
import { wrongArgument, type KeyOptions } from './typed-keys.js';
import type { Origin } from './unlogged.js';

export interface Context {
  readonly state: State;
  readonly origin: Origin;
}

/** A function for operators, as the interface has it. */
export type Bound<Function> = Function extends (context: Context, ...args: infer Args) => infer Result
  ? (...args: Args) => Result
  : never;

/** The largest difference between two ends that count as the same, ms. */
export const SAME_END_MS = 1000;

/** A limiter. */
export interface NameOption {
  /** The limiter's name: 1 to 256 characters. A limiter without the option `name` is called `default`. */
  name: string;
}

/** A limiter, or all. */
export interface NameFilter {
  /** The limiter's name. @default all limiters */
  name?: string | undefined;
}

/** The operator of a change, and the reason. The log has both. */
export type ChangeOptions = ChangeNoteOptions;

/** A key of a limiter, and the operator of its change. */
export interface KeyChangeOptions extends NameOption, KeyOptions, ChangeOptions {}

const KEY_OPTIONS = ['name', 'dimension', 'raw', 'ipv6Subnet'];

/** Checks the options of a function. @throws HeadgateError `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_INVALID_OPTION` */
export function checkKeyOptions(what: string, options: object, ...more: readonly string[]): void {
  checkShape(what, options, [...KEY_OPTIONS, ...more]);
}

/** Like `checkKeyOptions`, for a change. @returns the operator and the reason */
export function checkChange(what: string, options: KeyChangeOptions, ...more: readonly string[]): ChangeNote {
  checkKeyOptions(what, options, 'by', 'reason', ...more);
  checkName(options.name);
  return noteOf(what, options);
}

/** The operator and the reason in options. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function noteOf(what: string, { by, reason }: ChangeOptions): ChangeNote {
  return checkNote(what, { by, reason });
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION`, or `HEADGATE_INVALID_ARGUMENT` without a name, because a guessed scope might be wrong */
export function checkName(name: string | undefined): string {
  if (name !== undefined) return checkLimiterName('name', name);
  throw wrongArgument(
    "name: missing. Pass the name of a limiter: { name: 'api' }. A limiter without a name is called default.",
  );
}
