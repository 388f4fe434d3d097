import { isIP } from 'node:net';
import { parseTime } from './time.js';

export type Part = 'address' | 'user' | 'method' | 'path' | 'status';

/** What a line of a log tells about a request. Only the requested parts are read. The format decides which of them exist. */
export interface LoggedRequest {
  /** Whether the format has named fields. */
  readonly named: boolean;
  /** The address may be a list as in X-Forwarded-For: the client's address, then those of proxies. The path is without the query. */
  part(name: Part): string | undefined;
  /** Any field by its name, or in JSON by its path (`req.id`). Undefined if the format has no names. */
  field(name: string): unknown;
  /** When the request came, ms since the epoch, from the given field or from where the format has it. Undefined if it cannot be read. */
  timeOf(field: string | undefined): number | undefined;
}

/** Splits `GET /path?query HTTP/1.1`. */
function splitRequestLine(line: string): { method?: string; path?: string } {
  const space = line.indexOf(' ');
  if (space <= 0) return {};
  const end = line.indexOf(' ', space + 1);
  return { method: line.slice(0, space), path: pathOf(line.slice(space + 1, end === -1 ? undefined : end)) };
}

/** The path of a URL, without the query and the server. */
function pathOf(url: string): string {
  const query = url.indexOf('?');
  const whole = query === -1 ? url : url.slice(0, query);
  if (whole.startsWith('/')) return whole;
  const server = /^[a-z][a-z\d+.-]*:\/\/[^/]*/i.exec(whole);
  return server ? whole.slice(server[0].length) || '/' : whole;
}

/** A text. Undefined for the placeholders of missing values. */
const present = (text: string | undefined): string | undefined =>
  text === '-' || text === '' ? undefined : text;

/**
 * The Common Log Format, and formats that begin like it (Combined, nginx's `main`, Apache's with the virtual host first): `host ident user
 * [time] "request" status ...`. The host may also be a list of addresses. There is one way to read its commas, and names are short, so that a long line of
 * another format is soon told.
 */
const COMMON =
  /^(?=\S)((?:[^\s,]*, ?)*[^\s,]*) (\S+ .{0,4000}?) \[(\d\d\/[A-Za-z]{3}\/\d{4}:\d\d:\d\d:\d\d(?:\.\d+)? [+-]\d{4})\] "([^"\\]*(?:\\.[^"\\]*)*)" (\d{3}|-)(?: |$)/;

/** The time in such a line. A long line without one is told from the others at once. */
const COMMON_TIME = /\[\d\d\/[A-Za-z]{3}\/\d{4}:/;

const LIST = /^(?:[^\s,]+, ?)*\S+/;

/**
 * The format of AWS' Application and Classic Load Balancers: `[type] time name client:port target:port 3 times, 2 statuses, 2 sizes
 * "request" ...`
 */
const BALANCER =
  /^(?:\w+ )?(\d{4}-\d\d-\d\dT[\d:.]+Z) \S+ (\S+):\d+ \S+ (?:-?[\d.]+ ){3}(\d{3}|-) \S+ \S+ \S+ "([^"\\]*(?:\\.[^"\\]*)*)"/;

/** When the request came. An Application Load Balancer writes this after the rule's number. */
const CREATED = /" (?:\d+|-) (\d{4}-\d\d-\d\dT[\d:.]+Z) "/;

/** Reads a line. Undefined if it has none of these formats. */
export function parseTextLine(line: string): LoggedRequest | undefined {
  const common = COMMON_TIME.test(line) ? COMMON.exec(line) : null;
  if (common) return textRequest(common[1]!, common[2]!, common[3]!, common[4]!, common[5]!);
  const balancer = BALANCER.exec(line);
  if (!balancer) return undefined;
  const [, done, client, status, request] = balancer;
  return textRequest(client!, '- -', CREATED.exec(line)?.[1] ?? done!, request!, status!);
}

/** @param names ident and user; if a virtual host comes first, the client before them */
function textRequest(
  host: string,
  names: string,
  time: string,
  request: string,
  status: string,
): LoggedRequest {
  return {
    named: false,
    field: () => undefined,
    timeOf: () => parseTime(time),
    part(name) {
      if (name === 'status') return present(status);
      if (name === 'user') return present(names.slice(names.lastIndexOf(' ') + 1));
      if (name !== 'address') return splitRequestLine(request)[name];
      if (isAddresses(host)) return host;
      // A virtual host stands before the client: `www.example.com:443 192.0.2.1 - - [...`
      const [second] = LIST.exec(names)!;
      return isAddresses(second) ? second : present(host);
    },
  };
}

/** Whether a text is an address, or a list that begins with one. */
function isAddresses(text: string): boolean {
  const comma = text.indexOf(',');
  return isIP(comma === -1 ? text : text.slice(0, comma)) !== 0;
}

const DIRECTIVE = '#Fields:';

/** The position of each field in a line. */
type Columns = ReadonlyMap<string, number>;

const columnsOf = (names: string): Columns => new Map(wordsOf(names).map((name, i) => [name, i]));

const wordsOf = (text: string): string[] => text.trim().split(/\s+/);

/** CloudFront's columns, for a part of a log without `#Fields`. */
const CLOUDFRONT = columnsOf(
  'date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status',
);
const CLOUDFRONT_LINE = /^\d{4}-\d\d-\d\d\t\d\d:\d\d:\d\d\t/;

/**
 * Makes a reader of W3C logs, as CloudFront (with tabs) and IIS write them: of a request; `'skipped'` for lines about the log itself, which
 * tell the fields of the next lines; undefined for a line of another format.
 */
export function w3cReader(): (line: string) => LoggedRequest | 'skipped' | undefined {
  let columns: Columns | undefined;
  return (line) => {
    if (line.startsWith('#')) {
      if (line.startsWith(DIRECTIVE)) columns = columnsOf(line.slice(DIRECTIVE.length));
      return /^#[A-Z][\w-]*:/.test(line) ? 'skipped' : undefined;
    }
    const isCloudFront = CLOUDFRONT_LINE.test(line);
    if (!columns && !isCloudFront) return undefined;
    const values = line.split(line.includes('\t') ? '\t' : ' ');
    if (columns?.size === values.length) return w3cRequest(columns, values);
    return isCloudFront ? w3cRequest(CLOUDFRONT, values) : undefined;
  };
}

const W3C_FIELDS = {
  address: 'c-ip',
  user: 'cs-username',
  method: 'cs-method',
  status: 'sc-status',
} as const;

function w3cRequest(columns: Columns, values: readonly string[]): LoggedRequest {
  const field = (name: string): string | undefined => {
    const column = columns.get(name);
    return column === undefined ? undefined : present(values[column]);
  };
  return {
    named: true,
    field,
    // The date and the time have their own columns, in UTC.
    timeOf: (name) =>
      parseTime(name === undefined ? `${field('date') ?? ''} ${field('time') ?? ''}` : field(name)),
    part(name) {
      if (name !== 'path') return field(W3C_FIELDS[name]);
      const path = field('cs-uri-stem') ?? field('cs-uri');
      return path === undefined ? undefined : pathOf(path);
    },
  };
}

/** Where loggers and proxies write things in JSON, the likeliest first. Dots lead into nested objects. */
const FIELDS: Readonly<Record<Part | 'time', string>> = {
  time: `time timestamp ts @timestamp msec time_iso8601 time_local StartUTC start_time
    datetime date EdgeStartTimestamp requestTimeEpoch requestTime`,
  address: `client_ip clientIp clientIP ClientIP ClientHost remote_addr remoteAddr remote_ip remoteIp
    remoteAddress ip ip_address client remote_host host_ip ClientAddr downstream_remote_address
    request.client_ip request.remote_ip request.remote_addr req.ip req.remoteAddress req.remote_ip
    httpRequest.remoteIp client.ip client.address source.ip source.address`,
  user: `user remote_user user_id userId username RemoteUser ClientUsername
    user.id user.name req.user req.user.id`,
  method: `method request_method RequestMethod ClientRequestMethod httpMethod
    req.method request.method httpRequest.requestMethod http.request.method`,
  path: `path uri url request_uri RequestPath ClientRequestPath req.url request.uri request.url
    httpRequest.requestUrl url.path`,
  status: `status status_code statusCode DownstreamStatus EdgeResponseStatus response_code
    res.statusCode response.status httpRequest.status http.response.status_code`,
};

type Path = readonly string[];

const PATHS = Object.fromEntries(
  Object.entries(FIELDS).map(([what, names]) => [what, wordsOf(names).map((name) => name.split('.'))]),
) as unknown as Readonly<Record<keyof typeof FIELDS, readonly Path[]>>;

/** The first names that are tried for the time, for messages. */
export const KNOWN_TIMES = wordsOf(FIELDS.time).slice(0, 6).join(', ');

type Json = Readonly<Record<string, unknown>>;

/** Reads a line. A string as the result says what is wrong with it. */
export function parseJsonLine(line: string): LoggedRequest | string {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return jsonRequest(value as Json);
  } catch {
    // The error is returned below.
  }
  return 'it begins like JSON but is not an object of JSON';
}

function jsonRequest(value: Json): LoggedRequest {
  const field = (name: string): unknown =>
    Object.hasOwn(value, name) ? value[name] : get(value, name.split('.'));
  return {
    named: true,
    field,
    /** The time in the given field, or in the first known field that can be read. */
    timeOf(name) {
      if (name !== undefined) return parseTime(field(name));
      for (const path of PATHS.time) {
        const time = parseTime(get(value, path));
        if (time !== undefined) return time;
      }
      return undefined;
    },
    part(name) {
      for (const path of PATHS[name]) {
        const text = textOf(get(value, path));
        if (text !== undefined) return name === 'path' ? pathOf(text) : text;
      }
      // nginx's `$request`.
      const { request } = value;
      const isIn = typeof request === 'string' && (name === 'method' || name === 'path');
      return isIn ? splitRequestLine(request)[name] : undefined;
    },
  };
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
