/** The parts of a request, and the names under which the formats of logs have them. */

export type Part = 'address' | 'user' | 'method' | 'path' | 'status';
type Field = Part | 'time' | 'id';

export type Fields = Readonly<Record<string, unknown>>;

/**
 * The names of each part, the likeliest first. Dots lead into nested objects. Two names with a space between them are one value. A `~` marks a
 * request line, `GET /path HTTP/1.1`.
 */
export type Names = Readonly<Record<Field, readonly string[]>>;

const wordsOf = (text: string): string[] => text.trim().split(/\s+/);

/** The names in JSON and logfmt, by loggers and proxies. */
export const JSON_NAMES: Names = {
  time: [
    // Traefik's `time` is the end of the request, in whole seconds.
    ...wordsOf(`StartUTC time timestamp ts @timestamp msec time_iso8601 time_local start_time
      datetime date EdgeStartTimestamp requestTimeEpoch requestTime
      started_at timeStamp TimeGenerated timestampInMs reqTimeSec @t proxy.timestamp`),
    ...['date time', 'Date Time', 'date timestamp', 'log_date log_time', 'request_date request_time'],
  ],
  address: wordsOf(`client_ip clientIp clientIP ClientIP ClientHost remote_addr remoteAddr remote_ip remoteIp
    remoteAddress ip ip_address sourceIp client remote_host remoteHost host_ip ClientAddr
    x-forwarded-for x_forwarded_for downstream_remote_address fwd
    srcIp ClientIp CIp cliIP RemoteIpAddress c-ip proxy.clientIp properties.clientIP properties.clientIp properties.CIp
    request.client_ip request.remote_ip request.remote_addr req.ip req.remoteAddress req.remote_ip meta.req.ip
    httpRequest.remoteIp httpRequest.clientIp client.ip client.address source.ip source.address identity.sourceIp
    network.client.ip`),
  user: wordsOf(`user remote_user remoteUser user_id userId username RemoteUser ClientUsername
    user.id user.name req.user req.user.id cs-username CsUsername properties.CsUsername consumer.username`),
  // `$request` of nginx, `$context.routeKey` of API Gateway.
  method: wordsOf(`method request_method requestMethod RequestMethod ClientRequestMethod httpMethod
    HttpMethod CsMethod reqMethod clientRequestHTTPMethodName cs-method
    proxy.method properties.httpMethod properties.CsMethod req.method request.method meta.req.method
    httpRequest.requestMethod httpRequest.httpMethod http.request.method http.method ~request ~routeKey`),
  path: wordsOf(`path uri url request_uri requestUri requestURI requested_uri RequestPath ClientRequestPath ClientRequestURI
    x-envoy-origin-path x_envoy_origin_path resourcePath
    RequestUri CsUriStem reqPath clientRequestPath cs-uri-stem cs-uri
    proxy.path properties.requestUri properties.CsUriStem req.url request.uri request.url meta.req.url
    httpRequest.requestUrl httpRequest.uri url.path http.url_details.path http.url ~request ~routeKey`),
  status:
    wordsOf(`status status_code statusCode DownstreamStatus EdgeResponseStatus response_code response_status
    responseStatus httpStatus HttpStatus HttpStatusCode ScStatus StatusCode edgeResponseStatus sc-status
    proxy.statusCode properties.httpStatus properties.httpStatusCode properties.ScStatus res.statusCode
    response.status meta.res.statusCode httpRequest.status http.response.status_code http.status_code`),
  // Ids of traces and sessions span several requests.
  id: wordsOf(
    'reqId req.id request_id requestId req_id x-request-id x_request_id request.id http.request.id',
  ),
};

export const W3C_NAMES: Names = {
  time: ['date time'],
  address: ['c-ip'],
  user: ['cs-username'],
  method: ['cs-method'],
  path: ['cs-uri-stem', 'cs-uri'],
  status: ['sc-status'],
  id: [],
};

export const TEXT_NAMES: Names = {
  time: ['time', 'date clock'],
  address: ['client', 'peer'],
  user: ['user'],
  method: ['~request', 'method'],
  path: ['~request', 'path'],
  status: ['status'],
  id: [],
};

/** The first names that are tried for the time, for messages. */
export const KNOWN_TIMES = JSON_NAMES.time.slice(1, 7).join(', ');

type Read = (fields: Fields) => unknown;

/** The readers of the parts in lines with the same names. */
export type Plan = Readonly<Record<Field, readonly Read[]>> & { readonly names: readonly string[] };

/** The number of plans to keep. Few logs have lines of more kinds. */
const MAX_PLANS = 64;

/** Makes a function that finds the plan of a line. Most lines have the same names as the line before. */
export function planner(names: Names): (fields: Fields) => Plan {
  const plans: Plan[] = [];
  let last: Plan | undefined;
  return (fields) => {
    if (last && hasNames(fields, last.names)) return last;
    last = plans.find((plan) => hasNames(fields, plan.names));
    if (last) return last;
    const parts = (Object.keys(names) as Field[]).map((field) => {
      return [field, names[field].flatMap((name) => readerOf(name, fields, field) ?? [])];
    });
    last = { ...(Object.fromEntries(parts) as Plan), names: Object.keys(fields) };
    if (plans.push(last) > MAX_PLANS) plans.shift();
    return last;
  };
}

function hasNames(fields: Fields, names: readonly string[]): boolean {
  let i = 0;
  for (const name in fields) if (name !== names[i++]) return false;
  return i === names.length;
}

/** The reader of a name, as in {@link Names}, for lines with the same names as `fields`. Undefined if none of them has the value. */
export function readerOf(name: string, fields: Fields, part?: Field): Read | undefined {
  if (Object.hasOwn(fields, name)) return (line) => line[name];
  if (name.includes(' ')) {
    const readers = wordsOf(name).map((word) => readerOf(word, fields));
    return (line) => {
      const texts = readers.map((read) => textOf(read?.(line)));
      return texts.includes(undefined) ? undefined : texts.join(' ');
    };
  }
  const [first, ...rest] = name.replace('~', '').split('.');
  if (!Object.hasOwn(fields, first!)) return undefined;
  if (rest.length > 0) return (line) => inside(line[first!], rest);
  return (line) => partOfLine(line[first!], part);
}

function inside(value: unknown, path: readonly string[]): unknown {
  let found = value;
  for (const name of path) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return undefined;
    found = (found as Fields)[name];
  }
  return found;
}

/** The method or the path in `GET /path?query HTTP/1.1`. */
function partOfLine(line: unknown, part: Field | undefined): string | undefined {
  if (typeof line !== 'string') return undefined;
  const space = line.indexOf(' ');
  if (space <= 0) return undefined;
  if (part === 'method') return line.slice(0, space);
  const end = line.indexOf(' ', space + 1);
  return line.slice(space + 1, end === -1 ? undefined : end);
}

/** Converts a text, a number, or several as a list. Undefined for values without information. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value === '-' || value === '' ? undefined : value;
  if (typeof value === 'number') return String(value);
  if (!Array.isArray(value)) return undefined;
  return value.flatMap((each: unknown) => textOf(each) ?? []).join(', ') || undefined;
}
