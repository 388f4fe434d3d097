import type { Decision } from './decision.js';
import { showOption, withoutSecretFields, withoutSecrets } from './shown.js';

export { show, showOption } from './shown.js';

/** Every code that an error of Headgate can carry; `docs/errors.md` has a section for each. */
export type ErrorCode =
  | 'HEADGATE_INVALID_OPTION'
  | 'HEADGATE_UNKNOWN_OPTION'
  | 'HEADGATE_INVALID_KEY'
  | 'HEADGATE_UNKNOWN_DIMENSION'
  | 'HEADGATE_DIMENSIONS'
  | 'HEADGATE_OVERRIDES'
  | 'HEADGATE_INVALID_COST'
  | 'HEADGATE_UNKNOWN_TIER'
  | 'HEADGATE_UNKNOWN_POLICY'
  | 'HEADGATE_INVALID_ARGUMENT'
  | 'HEADGATE_UNKNOWN_LIMITER'
  | 'HEADGATE_NO_BANS'
  | 'HEADGATE_UNKNOWN_CHANGE'
  | 'HEADGATE_CHANGED_SINCE'
  | 'HEADGATE_CANNOT_UNDO'
  | 'HEADGATE_NAME_REQUIRED'
  | 'HEADGATE_POLICY_MISMATCH'
  | 'HEADGATE_NO_CLIENT_IP'
  | 'HEADGATE_STORE_ERROR'
  | 'HEADGATE_STORE_TIMEOUT'
  | 'HEADGATE_STORE_AWAY'
  | 'HEADGATE_PROCESS_LATE'
  | 'HEADGATE_MALFORMED_REPLY'
  | 'HEADGATE_DENIED'
  | 'HEADGATE_WAIT_TIMEOUT'
  | 'HEADGATE_QUEUE_FULL'
  | 'HEADGATE_ABORTED'
  | 'HEADGATE_CLOSED';

/** The folder of the other pages that messages name. The package does not contain these pages. */
export const DOCS = 'https://github.com/headgate/headgate/blob/main/docs';

/** The page about every code, in the package. */
const PAGE = 'node_modules/headgate/docs/errors.md';

/** Appends a pointer to the section that explains the code. Every error and warning passes here, so this removes secrets of other texts, too. */
export function withPage(code: string, message: string): string {
  const end = /[.!?]$/.test(message) ? '' : '.';
  return `${withoutSecrets(message)}${end} See ${PAGE}#${code.toLowerCase()}`;
}

/** Removes the pointer to the page, for messages inside other messages and for readers without the package. */
export function withoutPage(message: string): string {
  return message.replace(/ See node_modules\/headgate\/docs\/errors\.md#\w+/g, '');
}

/** An error as data: `code` is stable across versions, `message` is for people. */
export class HeadgateError extends Error {
  /** The class: `'HeadgateError'`. */
  override readonly name = 'HeadgateError';
  /** The kind of error. Each code has a section in docs/errors.md. */
  readonly code: ErrorCode;
  /** The decision behind the error, if there is a decision (`HEADGATE_DENIED`, `HEADGATE_WAIT_TIMEOUT`). */
  readonly decision?: Decision;

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; decision?: Decision } = {}) {
    super(
      withPage(code, message),
      options.cause === undefined ? undefined : { cause: withoutSecretFields(options.cause) },
    );
    this.code = code;
    if (options.decision) this.decision = options.decision;
  }
}

/** The error for an option: the option's name, the passed value (`undefined` if missing), and a value to pass instead. */
export function invalidOption(option: string, value: unknown, fix: string): HeadgateError {
  const wrong = value === undefined ? 'missing' : `${showOption(option, value)} is not valid`;
  return new HeadgateError('HEADGATE_INVALID_OPTION', `${option}: ${wrong}. ${fix}`);
}
