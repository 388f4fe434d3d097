import { inspect, types } from 'node:util';
import { HeadgateError, show, type ErrorCode } from '../common/errors.js';

/** Codes of temporary errors that the client did not cause. */
const UNAVAILABLE = new Set<ErrorCode>([
  'HEADGATE_STORE_ERROR',
  'HEADGATE_STORE_TIMEOUT',
  'HEADGATE_STORE_AWAY',
  'HEADGATE_MALFORMED_REPLY',
  'HEADGATE_PROCESS_LATE',
  'HEADGATE_CLOSED',
]);

/** The error of a request for a framework, which may send the error to the client. The `cause` is the error with all details. */
class PublicError extends HeadgateError {
  /** The status that Express and Fastify answer with. */
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(cause: HeadgateError, message: string, statusCode: number, headers: Record<string, string>) {
    super(cause.code, message, { cause });
    this.message = message;
    this.statusCode = statusCode;
    this.headers = headers;
    // Express logs only the stack.
    this.stack = `${this.stack}\nCaused by: ${cause.stack}`;
  }
}

/**
 * The error of every request while the store is down. Frameworks log every error, so the text is short: the store's error and its location.
 * The `cause` has the rest.
 */
class UnavailableError extends PublicError {
  constructor(cause: HeadgateError) {
    super(cause, 'Rate limiting is temporarily unavailable.', 503, { 'Retry-After': '1' });
    const place = /^ +at .*$/m.exec(rootOf(cause).stack ?? '')?.[0];
    const lines = [`${this.name}: ${this.message}`, `Caused by: ${cause.name}: ${cause.message}`, place];
    this.stack = lines.filter((line) => line !== undefined).join('\n');
  }

  /** The response that Hono sends. Hono logs only errors without this method, and the store's failure is already a process warning. */
  getResponse(): Response {
    return new Response(this.message, { status: this.statusCode, headers: this.headers });
  }

  /** The text that `console.error` prints. */
  [inspect.custom](): string {
    return this.stack!;
  }
}

function rootOf(error: Error): Error {
  return error.cause instanceof Error ? rootOf(error.cause) : error;
}

/**
 * Wraps a thrown value that frameworks would take for "continue", such as undefined, and on Express also 0, '' and 'route', so that no
 * thrown value can skip a limiter.
 */
function noError(thrown: unknown): HeadgateError {
  return new HeadgateError(
    'HEADGATE_INVALID_ARGUMENT',
    `A function of the options threw ${show(thrown)}. Throw an instance of Error.`,
    { cause: thrown },
  );
}

/**
 * The same error with a message that is safe to show: without addresses, keys, options and server texts. The messages of most errors quote
 * a callback's result. Errors from outside Headgate are unchanged.
 */
export function publicError(thrown: unknown): unknown {
  const error = types.isNativeError(thrown) || thrown instanceof Error ? thrown : noError(thrown);
  if (!(error instanceof HeadgateError)) return error;
  if (UNAVAILABLE.has(error.code)) return new UnavailableError(error);
  return new PublicError(error, 'This request could not be rate limited.', 500, {});
}
