import { createConnection, isIP } from 'node:net';
import { usageError } from '../errors.js';
import { withinLimit } from '../within-limit.js';

export interface Address {
  readonly host: string;
  readonly port: number;
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly database: number;
  readonly tls: boolean;
}

export interface Target {
  readonly address: Address;
  readonly cluster: boolean;
  /** The sentinels' name for the primary, in which case `address` is a sentinel's. */
  readonly sentinel: string | undefined;
  /** The time limit for an answer, ms. */
  readonly timeout: number;
  /** The end of the time limit for connecting, by `performance.now()`. Absent before connecting. */
  readonly deadline?: number;
  /** Whether a lost connection is opened again. By default it is not, because users repeat a failed command line themselves. */
  readonly reconnects?: boolean;
}

const EXAMPLE = 'redis://127.0.0.1:6379, or rediss://user:password@host:6380/0 for TLS';

/**
 * Parses `redis://[[user]:password@]host[:port][/database]`, or `rediss://` for TLS. Errors do not repeat the text, because it may contain
 * a password.
 *
 * @throws CliError `USAGE`
 */
export function parseAddress(text: string): Address {
  if (!URL.canParse(text)) throw usageError(`--redis: the value is not a URL. Pass ${EXAMPLE}.`);
  const { protocol, hostname, port, username, password, pathname, search, hash } = new URL(text);
  const [, tls] = /^(?:redis|valkey)(s?):$/.exec(protocol) ?? [];
  if (tls === undefined) {
    throw usageError(`--redis: a URL cannot begin with ${protocol}//. Pass ${EXAMPLE}.`);
  }
  if (hostname === '') throw usageError(`--redis: the URL has no host. Pass ${EXAMPLE}.`);
  if (search !== '' || hash !== '') {
    throw usageError(
      '--redis: the URL has a part after "?" or "#". Percent-encode such characters in a password (%3F, %23).',
    );
  }
  const database = /^\/?(\d{0,5})$/.exec(pathname)?.[1];
  if (database === undefined) {
    throw usageError(`--redis: the part after the host must be the number of a database. Pass ${EXAMPLE}.`);
  }
  return {
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? 6379 : Number(port),
    username: decode(username),
    password: decode(password),
    database: Number(database),
    tls: tls === 's',
  };
}

function decode(part: string): string | undefined {
  if (part === '') return undefined;
  try {
    return decodeURIComponent(part);
  } catch {
    throw usageError(
      '--redis: the user or the password has a "%" that does not encode a character. Write it as %25.',
    );
  }
}

/** The address for messages, without user and password. */
export function showAddress({ host, port, tls }: Address): string {
  return `${tls ? 'rediss' : 'redis'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** The server name for a TLS handshake, which must not be an IP address. */
export function serverName({ host }: Address): { servername?: string } {
  return isIP(host) === 0 ? { servername: host } : {};
}

const timeLeft = ({ timeout, deadline = Infinity }: Target): number =>
  Math.max(1, Math.min(timeout, deadline - performance.now()));

/** Waits for an answer, up to the user's timeout or the deadline. @throws CliError `UNREACHABLE`, or the rejection of `answer` */
export function within<T>(target: Target, answer: Promise<T>): Promise<T> {
  const message = `${showAddress(target.address)} has not answered within ${target.timeout} ms. --timeout sets the limit. A server that hangs or is overloaded, or a network that drops packets, does not answer: look at its CPU, disk and slow log.`;
  return withinLimit(timeLeft(target), answer, message);
}

/** The part of the time limit for the question whether a port speaks Redis without TLS. A running server answers at once. */
export const PROBE_SHARE = 0.2;

/** Whether a port speaks Redis without TLS. Such a server does not answer a TLS handshake at all. */
export function speaksPlainly({ address: { host, port }, timeout }: Target): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ host, port });
    const done = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(PROBE_SHARE * timeout, () => done(false));
    socket.once('connect', () => socket.write('PING\r\n'));
    // The answer is `+PONG`, or `-NOAUTH ...`.
    socket.once('data', (reply: Buffer) => done(/^[+-][A-Z]/.test(reply.toString('latin1'))));
    socket.once('error', () => done(false));
    socket.once('close', () => done(false));
  });
}
