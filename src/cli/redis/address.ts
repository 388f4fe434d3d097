import { isIP } from 'node:net';
import { usageError } from '../errors.js';

/** The parts of a server's URL. */
export interface Address {
  readonly host: string;
  readonly port: number;
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly database: number;
  readonly tls: boolean;
}

const EXAMPLE = 'redis://127.0.0.1:6379, or rediss://user:password@host:6380/0 for TLS';

/**
 * Reads `redis://[[user]:password@]host[:port][/database]`, or `rediss://` for TLS. Errors do not repeat the text, because it may contain a
 * password.
 *
 * @throws CliError `USAGE`
 */
export function parseAddress(text: string): Address {
  if (!URL.canParse(text)) throw usageError(`--redis: that is not a URL. Write ${EXAMPLE}.`);
  const { protocol, hostname, port, username, password, pathname, search, hash } = new URL(text);
  const [, tls] = /^(?:redis|valkey)(s?):$/.exec(protocol) ?? [];
  if (tls === undefined) {
    throw usageError(`--redis: a URL that begins with ${protocol}// is not understood. Write ${EXAMPLE}.`);
  }
  if (hostname === '') throw usageError(`--redis: the URL names no host. Write ${EXAMPLE}.`);
  if (search !== '' || hash !== '') {
    throw usageError(
      '--redis: the URL has a part after "?" or "#". Percent-encode such characters in a password (%3F, %23).',
    );
  }
  const [, database = '0'] = /^\/?(\d{0,5})$/.exec(pathname) ?? [undefined, undefined];
  if (database === undefined || !/^\/?\d{0,5}$/.test(pathname)) {
    throw usageError(
      `--redis: what stands after the host must be the number of a database. Write ${EXAMPLE}.`,
    );
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
    throw usageError('--redis: the user or the password has a "%" that encodes nothing. Write %25 for it.');
  }
}

/** The address for messages: without user and password. */
export function showAddress({ host, port, tls }: Address): string {
  return `${tls ? 'rediss' : 'redis'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** The server name for a TLS handshake. IP addresses are not allowed there. */
export function serverName({ host }: Address): { servername?: string } {
  return isIP(host) === 0 ? { servername: host } : {};
}
