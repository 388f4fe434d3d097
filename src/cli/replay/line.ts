import { isIP } from 'node:net';
import type { Key } from '../../contract/key.js';
import { parseAddress } from '../../http/address.js';
import { clientKeys } from '../../http/client-key.js';
import type { LoggedKey } from './dimensions.js';
import {
  KNOWN_TIMES,
  parseJsonLine,
  parseTextLine,
  textOf,
  w3cReader,
  type LoggedRequest,
} from './formats.js';
import { usageError } from '../errors.js';

/** One request of a log. */
export interface Entry {
  /** ms since the epoch. */
  time: number;
  /** Who is limited: a text; or, if `--key` names several dimensions, the keys that the line has. */
  readonly key: Key;
  /** Present if it was asked for, and the log has it. */
  readonly path?: string | undefined;
  readonly status?: number | undefined;
}

/** The meaning of a line: a request; nothing to replay (another kind of line, filtered out, no key); or unreadable, and why. */
export type Parsed = Entry | 'skipped' | { readonly problem: string };

interface ClientOptions {
  /** Prefix length of IPv6 keys: 1 to 128. */
  readonly subnet: number;
  /** The number of proxies that are the user's own. Undefined: all those with private addresses. */
  readonly trustedHops: number | undefined;
}

export interface LineOptions extends ClientOptions {
  /** The fields that make the key, or the key of each dimension. */
  readonly keys: readonly LoggedKey[];
  /** The fields of the time and of the client, in formats with named fields. Default: where loggers usually write them. */
  readonly timeField: string | undefined;
  readonly keyField: string | undefined;
  /** Selects the requests that count. */
  readonly match: Match | undefined;
  /** Whether to read paths and statuses, too. */
  readonly details?: boolean;
}

export type ParseLine = (line: string) => Parsed;

/** The formats, for messages. */
export const FORMATS =
  'the Common or the Combined Log Format (nginx, Apache), lines of JSON, the lines of AWS load balancers, W3C logs (CloudFront, IIS)';

/** Makes a reader of one log's lines. Each line may have its own format. */
export function lineParser(options: LineOptions): ParseLine {
  const { keys, timeField, keyField, match, details = false } = options;
  const clientOf = clients(options);
  const w3c = w3cReader();

  function client(request: LoggedRequest): string | undefined {
    if (keyField !== undefined && request.named) {
      const text = textOf(request.field(keyField));
      return text === undefined ? undefined : (clientOf(text) ?? text);
    }
    const address = request.part('address');
    return address === undefined ? undefined : (clientOf(address) ?? hostName(address));
  }

  function part(word: string, request: LoggedRequest): string | undefined {
    if (word === 'ip') return client(request);
    if (word === 'user' || word === 'path' || word === 'method') return request.part(word);
    return textOf(request.field(word));
  }

  function textOfKey({ parts }: LoggedKey, request: LoggedRequest): string | undefined {
    if (parts.length === 1) return part(parts[0]!, request);
    const texts = parts.map((word) => part(word, request));
    return texts.includes(undefined) ? undefined : texts.join(' ');
  }

  function keyOf(request: LoggedRequest): Key | undefined {
    if (keys.length === 1) return textOfKey(keys[0]!, request);
    const found: Record<string, string> = {};
    let isAny = false;
    for (const key of keys) {
      const text = textOfKey(key, request);
      if (text === undefined) continue;
      found[key.dimension] = text;
      isAny = true;
    }
    return isAny ? found : undefined;
  }

  return (line) => {
    const request = line.startsWith('{') ? parseJsonLine(line) : (w3c(line) ?? parseTextLine(line));
    if (request === undefined) return { problem: 'it is in none of the formats that are read' };
    if (request === 'skipped') return request;
    if (typeof request === 'string') return { problem: request };
    if (match && !match(request)) return 'skipped';
    const name = keyOf(request);
    if (name === undefined) {
      const address = request.part('address');
      const isByClient = keys.some(({ parts }) => parts.includes('ip'));
      if (address !== undefined && keyField === undefined && isByClient && !client(request)) {
        return {
          problem: `its client ${JSON.stringify(address.slice(0, 50))} is neither an address nor a host's name`,
        };
      }
      // Programs also write other lines, and some requests have no user.
      return 'skipped';
    }
    const time = request.timeOf(timeField);
    if (time === undefined) {
      const tried = timeField === undefined ? `${KNOWN_TIMES} and others were tried` : `of ${timeField}`;
      return { problem: `it has no time that can be read (${tried}; see --time-field)` };
    }
    return details
      ? { time, key: name, path: request.part('path'), status: statusOf(request) }
      : { time, key: name };
  };
}

/** A client given by its host name, which some servers look up. */
const hostName = (text: string): string | undefined =>
  /^[\w.-]+$/.test(text) ? text.toLowerCase() : undefined;

function statusOf(request: LoggedRequest): number | undefined {
  const status = Number(request.part('status'));
  return Number.isInteger(status) ? status : undefined;
}

/** Whether a request counts. */
export type Match = (request: LoggedRequest) => boolean;

/**
 * Reads a filter: any number of paths by prefix (`/api`), methods (`POST`) and statuses (`404`, `5xx`), separated by spaces or commas. A
 * `!` before a word excludes it. Of each kind, one word must match.
 *
 * @throws CliError `USAGE`
 */
export function parseMatch(texts: readonly string[]): Match | undefined {
  const words = texts.flatMap((text) => text.split(/[\s,]+/)).filter((word) => word !== '');
  if (words.length === 0) return undefined;
  const wanted: Match[] = [];
  const kinds = new Map<string, Match[]>();
  for (const word of words) {
    const not = word.startsWith('!');
    const { kind, matches } = parseWord(not ? word.slice(1) : word);
    if (not) wanted.push((request) => !matches(request));
    else kinds.set(kind, [...(kinds.get(kind) ?? []), matches]);
  }
  for (const any of kinds.values()) wanted.push((request) => any.some((matches) => matches(request)));
  return (request) => wanted.every((matches) => matches(request));
}

function parseWord(word: string): { kind: string; matches: Match } {
  if (word.startsWith('/'))
    return { kind: 'path', matches: (request) => request.part('path')?.startsWith(word) ?? false };
  if (/^[a-z]+$/i.test(word)) {
    const method = word.toUpperCase();
    return { kind: 'method', matches: (request) => request.part('method') === method };
  }
  if (/^\d\d\d$/.test(word))
    return { kind: 'status', matches: (request) => statusOf(request) === Number(word) };
  if (/^\dxx$/i.test(word)) {
    const first = Number(word[0]);
    return { kind: 'status', matches: (request) => Math.floor((statusOf(request) ?? NaN) / 100) === first };
  }
  throw usageError(
    `--match: ${JSON.stringify(word)} is not a path, a method or a status. Write for example '/api', 'POST', '5xx', or '!/health'.`,
  );
}

/** The client's key, from an address or from a list as in X-Forwarded-For. Undefined if the text is neither. */
type ClientOf = (text: string) => string | undefined;

/** How many lists are remembered, because the same ones occur often. */
const REMEMBERED = 10_000;

const PRIVATE = new Set(['private', 'loopback', 'linkLocal', 'uniqueLocal', 'carrierGradeNat']);

/** Makes a function that finds the client's key: Headgate's default key. */
export function clients({ subnet, trustedHops }: ClientOptions): ClientOf {
  const keyOf = clientKeys(subnet);
  const known = new Map<string, string | undefined>();

  const single: ClientOf = (text) => {
    const address = addressIn(text);
    return address === undefined ? undefined : keyOf(address);
  };

  return (text) => {
    if (!text.includes(',')) return single(text);
    if (!known.has(text)) {
      if (known.size === REMEMBERED) known.clear();
      const chosen = fromList(text.split(','), trustedHops);
      known.set(text, chosen === undefined ? undefined : single(chosen));
    }
    return known.get(text);
  };
}

/**
 * The client in a list. Each proxy has appended the sender that it saw. Everything before the entry of the first trusted proxy is only the
 * client's claim.
 */
function fromList(list: readonly string[], trustedHops: number | undefined): string | undefined {
  // In W3C logs values have no spaces: IIS writes `+` behind the commas, and CloudFront `%20`.
  const entries = list.map((entry) => entry.replace(/^(?:\+|%20)/, '').trim());
  // The text contains a comma, but no addresses.
  if (addressIn(entries.at(-1)!) === undefined) return undefined;
  if (trustedHops !== undefined) return entries[Math.max(0, entries.length - trustedHops)];
  const addresses = entries.filter((entry) => addressIn(entry) !== undefined);
  return addresses.findLast((entry) => !isPrivate(addressIn(entry)!)) ?? addresses[0];
}

const isPrivate = (address: string): boolean => PRIVATE.has(parseAddress(address)?.range() ?? '');

/** The address in a text, which may also be `192.0.2.1:5678` or `[2001:db8::1]:5678`. */
function addressIn(text: string): string | undefined {
  if (isIP(text) !== 0) return text;
  const address = /^\[?(.*?)\]?(?::\d+)?$/.exec(text)?.[1] ?? '';
  return isIP(address) === 0 ? undefined : address;
}
