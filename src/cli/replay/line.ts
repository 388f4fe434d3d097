import type { Key } from '../../contract/key.js';
import { clients, type ClientOptions } from './client.js';
import type { LoggedKey } from './dimensions.js';
import type { Parsed } from './entry.js';
import { KNOWN_TIMES, parseJsonLine, textOf } from './json-line.js';
import type { Match } from './match.js';
import type { LoggedRequest } from './request.js';
import { parseTextLine } from './text-line.js';
import { W3cReader } from './w3c-line.js';

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
  const w3c = new W3cReader();

  function client(request: LoggedRequest): string | undefined {
    if (keyField !== undefined && request.named) {
      const text = textOf(request.field(keyField));
      return text === undefined ? undefined : (clientOf(text) ?? text);
    }
    const { address } = request;
    return address === undefined ? undefined : (clientOf(address) ?? hostName(address));
  }

  function part(word: string, request: LoggedRequest): string | undefined {
    switch (word) {
      case 'ip':
        return client(request);
      case 'user':
        return request.user;
      case 'path':
        return request.path;
      case 'method':
        return request.method;
      default:
        return textOf(request.field(word));
    }
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
    const request = line.startsWith('{') ? parseJsonLine(line) : (w3c.read(line) ?? parseTextLine(line));
    if (request === undefined) return { problem: 'it is in none of the formats that are read' };
    if (request === 'skipped') return request;
    if (typeof request === 'string') return { problem: request };
    if (match && !match(request)) return 'skipped';
    const name = keyOf(request);
    if (name === undefined) {
      const { address } = request;
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
    return details ? { time, key: name, path: request.path, status: request.status } : { time, key: name };
  };
}

/** A client given by its host name, which some servers look up. */
const hostName = (text: string): string | undefined =>
  /^[\w.-]+$/.test(text) ? text.toLowerCase() : undefined;
