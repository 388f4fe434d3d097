import { HeadgateError } from '../../../common/errors.js';
import { clearTimeout, setTimeout } from '../../../common/real-time.js';
import type { ClientErrors } from '../../client-errors.js';

interface Emitter {
  once(event: string, listener: () => void): unknown;
  removeListener(event: string, listener: () => void): unknown;
}

/** The time to wait for a client that emits no event, ms: the longest `timeout`. A caller waits no longer than the caller's own time. */
const MAX_CONNECT_WAIT_MS = 60_000;

/** @param cause the error of the connection, if known */
export function away(why: string, cause?: unknown): HeadgateError {
  const { message = '', code = '' } = (cause ?? {}) as { message?: string; code?: string };
  const detail = message || code;
  const text = `The store's client is not connected: ${why}${detail && ` (${detail})`}.`;
  return new HeadgateError('HEADGATE_STORE_AWAY', text, { cause });
}

/** The state of a client that is neither connected nor has failed. */
export function connecting(tls: boolean): string {
  const what = 'Its client is still connecting';
  if (!tls) return `${what}.`;
  return `${what}, by TLS (rediss://): a server that does not speak TLS on this port never answers.`;
}

/**
 * Resolves with the first event of `up`.
 *
 * @param isOne whether an error means that the client could not connect. Some clients emit no other event before the next attempt. A
 * cluster's client may still reach another server.
 * @throws HeadgateError `HEADGATE_STORE_AWAY` with the first event of `down`
 */
export function connection(
  client: Emitter,
  { up, down }: { readonly up: readonly string[]; readonly down: readonly string[] },
  errors: ClientErrors,
  isOne: boolean,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = () => {
      clearTimeout(timer);
      for (const event of up) client.removeListener(event, succeed);
      for (const event of down) client.removeListener(event, fail);
      errors.next.delete(fail);
    };
    const succeed = () => {
      done();
      resolve();
    };
    const fail = () => {
      done();
      reject(away('it could not connect', errors.last));
    };
    const timer = setTimeout(fail, MAX_CONNECT_WAIT_MS).unref();
    for (const event of up) client.once(event, succeed);
    for (const event of down) client.once(event, fail);
    if (isOne) errors.next.add(fail);
  });
}
