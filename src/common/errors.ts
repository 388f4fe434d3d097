import type { Decision } from './decision.js';
import { printableJson } from './printable.js';

/** Every code that an error of Headgate can carry; `docs/errors.md` has a section for each. */
export type ErrorCode =
  | 'HEADGATE_INVALID_OPTION'
  | 'HEADGATE_UNKNOWN_OPTION'
  | 'HEADGATE_INVALID_KEY'
  | 'HEADGATE_UNKNOWN_DIMENSION'
  | 'HEADGATE_DIMENSIONS'
  | 'HEADGATE_INVALID_COST'
  | 'HEADGATE_UNKNOWN_TIER'
  | 'HEADGATE_INVALID_ARGUMENT'
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

/** The page that explains every code. It is in the package, as installed. */
const PAGE = 'node_modules/headgate/docs/errors.md';

/** A message that ends with where its code is explained. */
export function withPage(code: string, message: string): string {
  const end = /[.!?]$/.test(message) ? '' : '.';
  return `${message}${end} See ${PAGE}#${code.toLowerCase()}`;
}

/** The message without it, as part of another one, or for somebody who need not have the package installed. */
export function withoutPage(message: string): string {
  return message.replace(/ See node_modules\/headgate\/docs\/errors\.md#\w+/g, '');
}

/** What went wrong, as data: `code` is stable across versions, `message` is for people. */
export class HeadgateError extends Error {
  /** The class: `'HeadgateError'`. */
  override readonly name = 'HeadgateError';
  /** What went wrong. Each code has a section in docs/errors.md. */
  readonly code: ErrorCode;
  /** The decision that led to the error, where there is one (`HEADGATE_DENIED`, `HEADGATE_WAIT_TIMEOUT`). */
  readonly decision?: Decision;

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; decision?: Decision } = {}) {
    super(withPage(code, message), options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    if (options.decision) this.decision = options.decision;
  }
}

/** As JSON, safe to write to a terminal. */
function quoted(value: unknown): string {
  return printableJson(JSON.stringify(value));
}

/** Renders any value in a message: short, and never throwing on odd input. */
export function show(value: unknown): string {
  if (typeof value === 'string') return quoted(value.length > 80 ? `${value.slice(0, 80)}…` : value);
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value !== 'object' || value === null) return String(value);
  try {
    const text = quoted(value);
    return text.length > 80 ? `${text.slice(0, 80)}…` : text;
  } catch {
    return 'an object';
  }
}

/** The error for an option: which, what was given, what to write instead. `undefined` is how one is left out. */
export function invalidOption(option: string, value: unknown, fix: string): HeadgateError {
  const wrong = value === undefined ? 'it is missing' : `${show(value)} is not valid`;
  return new HeadgateError('HEADGATE_INVALID_OPTION', `${option}: ${wrong}. ${fix}`);
}
