import { pathOf, present, splitRequestLine, type LoggedRequest } from './request.js';
import { parseTime } from './time.js';

/** Where loggers and proxies write things, the likeliest first. Dots lead into nested objects. */
const FIELDS = {
  time: [
    ...[
      'time',
      'timestamp',
      'ts',
      '@timestamp',
      'msec',
      'time_iso8601',
      'time_local',
      'StartUTC',
      'start_time',
    ],
    ...['datetime', 'date', 'EdgeStartTimestamp', 'requestTimeEpoch', 'requestTime'],
  ],
  address: [
    ...[
      'client_ip',
      'clientIp',
      'clientIP',
      'ClientIP',
      'ClientHost',
      'remote_addr',
      'remoteAddr',
      'remote_ip',
      'remoteIp',
    ],
    ...[
      'remoteAddress',
      'ip',
      'ip_address',
      'client',
      'remote_host',
      'host_ip',
      'ClientAddr',
      'downstream_remote_address',
    ],
    ...[
      'request.client_ip',
      'request.remote_ip',
      'request.remote_addr',
      'req.ip',
      'req.remoteAddress',
      'req.remote_ip',
    ],
    ...['httpRequest.remoteIp', 'client.ip', 'client.address', 'source.ip', 'source.address'],
  ],
  user: [
    ...['user', 'remote_user', 'user_id', 'userId', 'username', 'RemoteUser', 'ClientUsername'],
    ...['user.id', 'user.name', 'req.user', 'req.user.id'],
  ],
  method: [
    ...['method', 'request_method', 'RequestMethod', 'ClientRequestMethod', 'httpMethod'],
    ...['req.method', 'request.method', 'httpRequest.requestMethod', 'http.request.method'],
  ],
  url: [
    ...[
      'path',
      'uri',
      'url',
      'request_uri',
      'RequestPath',
      'ClientRequestPath',
      'req.url',
      'request.uri',
      'request.url',
    ],
    ...['httpRequest.requestUrl', 'url.path'],
  ],
  status: [
    ...['status', 'status_code', 'statusCode', 'DownstreamStatus', 'EdgeResponseStatus', 'response_code'],
    ...['res.statusCode', 'response.status', 'httpRequest.status', 'http.response.status_code'],
  ],
} as const;

type Path = readonly string[];

const PATHS = Object.fromEntries(
  Object.entries(FIELDS).map(([what, names]) => [what, names.map((name) => name.split('.'))]),
) as unknown as Readonly<Record<keyof typeof FIELDS, readonly Path[]>>;

/** The first names that are tried for the time, for messages. */
export const KNOWN_TIMES = FIELDS.time.slice(0, 6).join(', ');

type Json = Readonly<Record<string, unknown>>;

/** Reads a line. A string as the result says what is wrong with it. */
export function parseJsonLine(line: string): JsonLine | string {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return new JsonLine(value as Json);
  } catch {
    // The error is returned below.
  }
  return 'it begins like JSON but is not an object of JSON';
}

/** A line of JSON. Only the requested parts are read. */
export class JsonLine implements LoggedRequest {
  readonly named = true;
  readonly #value: Json;

  constructor(value: Json) {
    this.#value = value;
  }

  /** The time in the given field, or in the first known field that can be read. */
  timeOf(field: string | undefined): number | undefined {
    if (field !== undefined) return parseTime(this.field(field));
    for (const path of PATHS.time) {
      const time = parseTime(get(this.#value, path));
      if (time !== undefined) return time;
    }
    return undefined;
  }

  get address(): string | undefined {
    return this.#text('address');
  }

  get user(): string | undefined {
    return this.#text('user');
  }

  get method(): string | undefined {
    return this.#text('method') ?? splitRequestLine(this.#request).method;
  }

  get path(): string | undefined {
    const url = this.#text('url');
    return url === undefined ? splitRequestLine(this.#request).path : pathOf(url);
  }

  get status(): number | undefined {
    const status = Number(this.#text('status'));
    return Number.isInteger(status) ? status : undefined;
  }

  field(name: string): unknown {
    return Object.hasOwn(this.#value, name) ? this.#value[name] : get(this.#value, name.split('.'));
  }

  /** nginx's `$request`. */
  get #request(): string {
    const { request } = this.#value;
    return typeof request === 'string' ? request : '';
  }

  #text(what: keyof typeof FIELDS): string | undefined {
    for (const path of PATHS[what]) {
      const text = textOf(get(this.#value, path));
      if (text !== undefined) return text;
    }
    return undefined;
  }
}

function get(value: Json, path: Path): unknown {
  let found: unknown = value;
  for (const name of path) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return undefined;
    found = (found as Json)[name];
  }
  return found;
}

/** A text, a number as text, or several as a list. Undefined for values without information. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value);
  if (Array.isArray(value))
    return value.flatMap((each: unknown) => textOf(each) ?? []).join(', ') || undefined;
  return typeof value === 'string' ? present(value) : undefined;
}
