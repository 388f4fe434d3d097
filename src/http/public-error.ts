import { HeadgateError, type ErrorCode } from '../common/errors.js';

/** Codes that are not the client's doing, and over soon. */
const UNAVAILABLE = new Set<ErrorCode>([
  'HEADGATE_STORE_ERROR',
  'HEADGATE_STORE_TIMEOUT',
  'HEADGATE_STORE_AWAY',
  'HEADGATE_MALFORMED_REPLY',
  'HEADGATE_PROCESS_LATE',
  'HEADGATE_CLOSED',
]);

/** What a request fails with. Frameworks send its message to the client; the error that has all the details is its `cause`. */
class PublicError extends HeadgateError {
  /** What Express and Fastify answer with. */
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(cause: HeadgateError, message: string, statusCode: number, headers: Record<string, string>) {
    super(cause.code, message, { cause });
    this.message = message;
    this.statusCode = statusCode;
    this.headers = headers;
    // Express logs the stack alone.
    this.stack = `${this.stack}\nCaused by: ${cause.stack}`;
  }
}

/**
 * The same error, without addresses, keys, options and a server's words in its message: all others are mistakes whose messages quote what
 * a callback has made of the request. What is not Headgate's stays as it is.
 */
export function publicError(error: unknown): unknown {
  if (!(error instanceof HeadgateError)) return error;
  if (UNAVAILABLE.has(error.code))
    return new PublicError(error, 'Rate limiting is unavailable for a moment.', 503, { 'Retry-After': '1' });
  return new PublicError(error, 'This request could not be rate limited.', 500, {});
}
