import { isIP } from 'node:net';
import { clientKeys, DEFAULT_SUBNET } from '../../http/client-key.js';
import type { Parsed } from './entry.js';
import { JsonLine, knownFields, parseJsonLine, textOf } from './json-line.js';
import type { Match } from './match.js';
import type { LoggedRequest } from './request.js';
import { parseTextLine } from './text-line.js';

export interface LineOptions {
  /** What makes the key: `ip`, `user`, `path`, `method`, or fields of JSON lines. */
  readonly key: readonly string[];
  /** JSON: where the time is, and the client. Default: where loggers usually put them. */
  readonly timeField: string | undefined;
  readonly keyField: string | undefined;
  /** Which requests count. */
  readonly match: Match | undefined;
}

export type ParseLine = (line: string) => Parsed;

/** Makes a reader of lines, each in the format that it is in. */
export function lineParser({ key, timeField, keyField, match }: LineOptions): ParseLine {
  const clientKey = clientKeys(DEFAULT_SUBNET);

  /** The client as Headgate's own default key: an address's network; a host's name as it is. */
  function keyOfAddress(text: string): string | undefined {
    const address = isIP(text) === 0 ? withoutPort(text) : text;
    if (isIP(address) !== 0) return clientKey(address);
    return /^[\w.-]+$/.test(text) ? text.toLowerCase() : undefined;
  }

  function client(request: LoggedRequest): string | undefined {
    if (keyField !== undefined && request instanceof JsonLine) {
      const text = textOf(request.field(keyField));
      return text === undefined ? undefined : (keyOfAddress(text) ?? text);
    }
    return request.address === undefined ? undefined : keyOfAddress(request.address);
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

  function keyOf(request: LoggedRequest): string | undefined {
    if (key.length === 1) return part(key[0]!, request);
    const parts = key.map((word) => part(word, request));
    return parts.includes(undefined) ? undefined : parts.join(' ');
  }

  return (line) => {
    const request = line.startsWith('{') ? parseJsonLine(line) : parseTextLine(line);
    if (typeof request === 'string') return { problem: request };
    if (match && !match(request)) return 'skipped';
    const name = keyOf(request);
    if (name === undefined) {
      const { address } = request;
      if (address !== undefined && keyField === undefined && key.includes('ip') && !client(request)) {
        return {
          problem: `its client ${JSON.stringify(address.slice(0, 50))} is neither an address nor a host's name`,
        };
      }
      // Programs write other lines too, and not every request has a user.
      return 'skipped';
    }
    const time = request instanceof JsonLine ? request.timeOf(timeField) : request.time;
    if (time === undefined) {
      const tried =
        timeField === undefined ? `${knownFields('time')} and others were tried` : `of ${timeField}`;
      return { problem: `it has no time that can be read (${tried}; see --time-field)` };
    }
    return { time, key: name };
  };
}

/** `192.0.2.1:5678` or `[2001:db8::1]:5678`. */
function withoutPort(text: string): string {
  return /^\[?(.*?)\]?(?::\d+)?$/.exec(text)?.[1] ?? text;
}
