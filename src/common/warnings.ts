import { invalidOption, show, withPage } from './errors.js';
import { withoutSecrets } from './shown.js';

/** Every code of a process warning; `docs/errors.md` has a section for each. */
export const WARNING_CODES = [
  'HEADGATE_UNTRUSTED_PROXY',
  'HEADGATE_ANY_PROXY_TRUSTED',
  'HEADGATE_FORWARDED_UNREAD',
  'HEADGATE_LIMITER_IN_HANDLER',
  'HEADGATE_HANDLER_ARGUMENTS',
  'HEADGATE_WHOLE_IPV6_KEY',
  'HEADGATE_NEVER_A_KEY',
  'HEADGATE_LIMIT_PER_PROCESS',
  'HEADGATE_SHORT_WINDOW',
  'HEADGATE_LIKELY_SECONDS',
  'HEADGATE_SHARE_PER_KEY',
  'HEADGATE_COST_ABOVE_CAPACITY',
  'HEADGATE_PLUGIN_MISSING',
  'HEADGATE_GUARD_MISSING',
  'HEADGATE_MESSAGE_UNLIMITED',
  'HEADGATE_NOT_SLICED',
  'HEADGATE_STORE_DOWN',
  'HEADGATE_CLIENT_ERROR',
  'HEADGATE_SILENT_CONNECTION',
  'HEADGATE_BANS_UNKNOWN',
  'HEADGATE_STORE_FULL',
  'HEADGATE_TOO_MANY_POLICIES',
  'HEADGATE_OVERRIDE_UNREADABLE',
  'HEADGATE_OVERRIDES_UNLISTED',
  'HEADGATE_ACROSS_SLOTS',
  'HEADGATE_STORE_REPLACED',
  'HEADGATE_BACKGROUND',
] as const;

/** Codes of process warnings about a set-up that needs attention. */
export type WarningCode = (typeof WARNING_CODES)[number];

/** The warnings to silence: `false` for all, or a list of codes. */
export type Warnings = false | readonly WarningCode[];

/**
 * Emits a process warning, unless its code is silenced or was already emitted in this process.
 *
 * @param subject of several subjects of a code, such as keys, each is reported once
 */
export type Warn = (code: WarningCode, message: string, subject?: string) => void;

/** The codes emitted by this process, and the codes with their subjects. */
export const emittedCodes = new Set<string>();

/** The most remembered codes with subjects. Beyond this number, subjects are reported no more. */
const MAX_SUBJECTS = 1000;

/** Emits a warning for code that has no `warnings` option. */
export const warnOnce: Warn = (code, message, subject) => {
  const emitted = subject === undefined ? code : `${code} ${subject}`;
  if (emittedCodes.has(emitted) || (subject !== undefined && emittedCodes.size >= MAX_SUBJECTS)) return;
  emittedCodes.add(emitted);
  process.emitWarning(withPage(code, message), { type: 'HeadgateWarning', code });
};

let inForce: Warn = warnOnce;

/** Emits a warning by the option `warnings` of the options that are being read. */
export const warnHere: Warn = (code, message, subject) => inForce(code, message, subject);

/** Reads options, with a function that emits the warnings about the options. */
export function warningBy<T>(warn: Warn, read: () => T): T {
  const before = inForce;
  inForce = warn;
  try {
    return read();
  } finally {
    inForce = before;
  }
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function compileWarnings(unwanted: Warnings | undefined): Warn {
  if (unwanted === undefined) return warnOnce;
  if (unwanted === false) return () => {};
  if (!Array.isArray(unwanted) || !unwanted.every((code) => WARNING_CODES.includes(code as WarningCode))) {
    throw invalidOption('warnings', unwanted, `Pass false, or an array of: ${WARNING_CODES.join(', ')}.`);
  }
  const codes = new Set<WarningCode>(unwanted);
  return (code, message, subject) => {
    if (!codes.has(code)) warnOnce(code, message, subject);
  };
}

/**
 * Calls a function of the user that only observes. If the function throws or rejects, the process gets a warning and the request goes on.
 *
 * @param option the option or event that the user passed the function to
 */
export function notifyUser<Args extends unknown[]>(
  option: string,
  listener: (...args: Args) => unknown,
  ...args: Args
): void {
  try {
    const promise = listener(...args) as Partial<Promise<unknown>> | null | undefined;
    if (typeof promise?.then === 'function') promise.then(undefined, (error) => warnOfThrown(option, error));
  } catch (error) {
    warnOfThrown(option, error);
  }
}

/** Warns that a user's observing function threw, because the error must not fail the request. @param option the option with the function */
export function warnOfThrown(option: string, error: unknown): void {
  // Any value can be thrown, even one without a text.
  const text = error instanceof Error || Object(error) !== error ? String(error) : show(error);
  process.emitWarning(`${option} threw: ${withoutSecrets(text)}`, 'HeadgateWarning');
}
