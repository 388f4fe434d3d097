import {
  fieldsOf,
  normal,
  splitRequestLine,
  textOf,
  type LoggedRequest,
  type Part,
  type Reading,
  type RequestLine,
} from './logged-request.js';
import { isTimeOfDay, parseTime } from './time.js';

/** The names under which loggers and proxies write fields in JSON, the likeliest first. Dots lead into nested objects. */
const FIELDS: Readonly<Record<Part | 'time', string>> = {
  // Traefik's `time` is the end of the request, in whole seconds.
  time: `StartUTC time timestamp ts @timestamp msec time_iso8601 time_local start_time
    datetime date EdgeStartTimestamp requestTimeEpoch requestTime`,
  address: `client_ip clientIp clientIP ClientIP ClientHost remote_addr remoteAddr remote_ip remoteIp
    remoteAddress ip ip_address sourceIp client remote_host remoteHost host_ip ClientAddr
    x-forwarded-for x_forwarded_for downstream_remote_address fwd
    request.client_ip request.remote_ip request.remote_addr req.ip req.remoteAddress req.remote_ip meta.req.ip
    httpRequest.remoteIp client.ip client.address source.ip source.address identity.sourceIp`,
  user: `user remote_user remoteUser user_id userId username RemoteUser ClientUsername
    user.id user.name req.user req.user.id`,
  method: `method request_method requestMethod RequestMethod ClientRequestMethod httpMethod
    req.method request.method meta.req.method httpRequest.requestMethod http.request.method`,
  path: `path uri url request_uri requestUri requestURI requested_uri RequestPath ClientRequestPath ClientRequestURI
    x-envoy-origin-path x_envoy_origin_path resourcePath
    req.url request.uri request.url meta.req.url httpRequest.requestUrl url.path`,
  status: `status status_code statusCode DownstreamStatus EdgeResponseStatus response_code response_status
    responseStatus res.statusCode response.status meta.res.statusCode httpRequest.status http.response.status_code`,
};

/** The ids of requests, which all lines about one request share. Ids of traces and sessions span several requests. */
const IDS = 'reqId req.id request_id requestId req_id x-request-id x_request_id request.id http.request.id';

/** A time of day beside a date of its own. */
const DATE_PAIRS = [
  'date time',
  'Date Time',
  'date timestamp',
  'log_date log_time',
  'request_date request_time',
];

/** Fields with a text that may be a line of another format: morgan in winston, collectors of containers, journald. */
const WRAPPERS = ['message', 'msg', 'log', 'line', 'MESSAGE', 'textPayload'];

const wordsOf = (text: string): string[] => text.trim().split(/\s+/);

/** The first names that are tried for the time, for messages. */
export const KNOWN_TIMES = wordsOf(FIELDS.time).slice(1, 7).join(', ');

type Known = keyof typeof FIELDS | 'id';

/** A place where a part of a request may be: behind a name of the object, the names that lead to it. */
interface Place {
  readonly known: Known;
  /** The likeliest places of a part have the lowest ranks. */
  readonly rank: number;
  readonly rest: readonly string[];
}

/** The places by the first name, so that a line is gone through once. */
const PLACES = placesByName();

function placesByName(): ReadonlyMap<string, readonly Place[]> {
  const places = new Map<string, Place[]>();
  const add = (name: string, place: Place): void =>
    void places.set(name, [...(places.get(name) ?? []), place]);
  for (const [known, names] of Object.entries({ ...FIELDS, id: IDS }) as [Known, string][]) {
    wordsOf(names).forEach((name, rank) => {
      add(name, { known, rank, rest: [] });
      const [first, ...rest] = name.split('.');
      if (rest.length > 0) add(first!, { known, rank, rest });
    });
  }
  return places;
}

type Json = Readonly<Record<string, unknown>>;

/** Reads a line. @param text reads a line of another format, which a field may hold */
export function parseJsonLine(line: string, text: (line: string) => Reading | undefined): Reading {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return fromObject(value as Json, text);
  } catch {
    // The problem is returned below.
  }
  return { problem: 'it begins like JSON but is not an object of JSON' };
}

function fromObject(value: Json, text: (line: string) => Reading | undefined): Reading {
  const { logger } = value;
  // Caddy also logs the requests of its errors and of its handlers.
  if (typeof logger === 'string' && /^http\.(?!log\.access)/.test(logger)) return 'skipped';
  const request = jsonRequest(value);
  return request.part('address') === undefined ? (wrapped(value, text) ?? request) : request;
}

/** The request in a text of the object. */
function wrapped(value: Json, text: (line: string) => Reading | undefined): LoggedRequest | undefined {
  for (const name of WRAPPERS) {
    const inner = value[name];
    const reading = typeof inner === 'string' ? text(inner.trimEnd()) : undefined;
    if (reading !== undefined && typeof reading === 'object' && 'part' in reading) return reading;
  }
  return undefined;
}

/** A pair of logfmt: `status=200` or `path="/a b"`. */
const PAIR = /([\w.@:-]+)=(?:"((?:[^"\\]|\\.)*)"|(\S*))(?: |$)/y;

/** Reads a line of logfmt, as Heroku's router and many programs in Go write it. Undefined if the line has another format. */
export function parseLogfmt(line: string): LoggedRequest | undefined {
  const pairs: [string, string][] = [];
  PAIR.lastIndex = 0;
  for (let pair = PAIR.exec(line); pair; pair = PAIR.exec(line)) {
    pairs.push([pair[1]!, pair[2] ?? pair[3]!]);
    if (PAIR.lastIndex >= line.length) break;
  }
  const isWhole = pairs.length > 1 && PAIR.lastIndex >= line.length;
  PAIR.lastIndex = 0;
  return isWhole ? jsonRequest(Object.fromEntries(pairs)) : undefined;
}

interface FoundPlace {
  readonly known: Known;
  readonly rank: number;
  readonly value: unknown;
}

/** The values at the known places, the likeliest first. */
function placesIn(value: Json): readonly FoundPlace[] {
  const found: FoundPlace[] = [];
  for (const name in value) {
    const places = PLACES.get(name);
    if (places === undefined) continue;
    for (const { known, rank, rest } of places) {
      const inner = rest.length === 0 ? value[name] : inside(value[name], rest);
      if (inner !== undefined) found.push({ known, rank, value: inner });
    }
  }
  return found.sort(byRank);
}

const byRank = (a: FoundPlace, b: FoundPlace): number => a.rank - b.rank;

function textAt(found: readonly FoundPlace[], known: Known): string | undefined {
  for (const place of found) {
    const text = place.known === known ? textOf(place.value) : undefined;
    if (text !== undefined) return text;
  }
  return undefined;
}

function jsonRequest(value: Json): LoggedRequest {
  const found = placesIn(value);
  /** A value by its whole name, which may contain dots, or inside nested objects. */
  const field = (name: string): unknown =>
    Object.hasOwn(value, name) ? value[name] : inside(value, name.split('.'));
  return {
    named: true,
    field,
    timeOf: (names) => (names === undefined ? timeIn(found, field) : parseTime(fieldsOf(field, names))),
    part(name) {
      const text = textAt(found, name);
      if (text !== undefined) return normal(name, text);
      if (name !== 'method' && name !== 'path') return undefined;
      // `$request` of nginx, `$context.routeKey` of API Gateway.
      const { request = value.routeKey } = value;
      return typeof request === 'string' ? splitRequestLine(request)[name] : undefined;
    },
    line: () => lineOf(value, found),
  };
}

/** The time in the first known field that can be read. */
function timeIn(found: readonly FoundPlace[], field: (name: string) => unknown): number | undefined {
  for (const { known, value } of found) {
    const time = known === 'time' ? parseTime(value) : undefined;
    if (time !== undefined) return time;
  }
  for (const names of DATE_PAIRS) {
    const time = isTimeOfDay(field(names.split(' ')[1]!)) ? parseTime(fieldsOf(field, names)) : undefined;
    if (time !== undefined) return time;
  }
  return undefined;
}

/** The first line of a request in Fastify's log. */
const BEGINNING = 'incoming request';

const DURATIONS = ['duration', 'duration_ms', 'durationMs', 'elapsed', 'elapsed_time', 'latency'];

/** The place of the line among those of its request. Ids of requests alone are not unique, as loggers count requests from 1. */
function lineOf(value: Json, found: readonly FoundPlace[]): RequestLine | undefined {
  const id = textAt(found, 'id');
  if (id === undefined) return undefined;
  const writer = `${textOf(value.hostname) ?? ''} ${textOf(value.pid ?? value['process.pid']) ?? ''}`;
  const hasDuration = DURATIONS.some((name) => value[name] !== undefined);
  return {
    id: `${writer} ${id}`,
    begins: value.msg === BEGINNING || value.message === BEGINNING,
    // Other lines may have the duration of a part of the work.
    ends: value.responseTime !== undefined || (hasDuration && textAt(found, 'status') !== undefined),
  };
}

function inside(value: unknown, names: readonly string[]): unknown {
  let found = value;
  for (const name of names) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return undefined;
    found = (found as Json)[name];
  }
  return found;
}
