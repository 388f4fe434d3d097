export type Part = 'address' | 'user' | 'method' | 'path' | 'status';

/** The facts in a log about one request. Only the requested parts are read. The format decides which of them exist. */
export interface LoggedRequest {
  /** Whether the format has named fields. */
  readonly named: boolean;
  /** The address may be a list as in X-Forwarded-For: the client's address, then those of proxies. The path has no query. */
  part(name: Part): string | undefined;
  /** Any field by its name, or in JSON by its path (`req.id`). Undefined if the format has no names. */
  field(name: string): unknown;
  /** The time at which the request came, ms since the epoch, from the given field or from the format's own. Undefined if unreadable. */
  timeOf(field: string | undefined): number | undefined;
  /** The relation to other lines about the same request. Undefined if the line has no id of a request. */
  line?(): RequestLine | undefined;
}

/** One of several lines that a logger may write about one request. */
export interface RequestLine {
  /** The id of the request, with the process that wrote the line. */
  readonly id: string;
  /** Whether the line is the first one of its request. */
  readonly begins: boolean;
  /** Whether the line is the last one: the response is done. */
  readonly ends: boolean;
}

/** The reading of a line. `'skipped'` is a line about the log itself; a `problem` describes a line that cannot be read. */
export type Reading = LoggedRequest | 'skipped' | { readonly problem: string };

/** Splits `GET /path?query HTTP/1.1`. */
export function splitRequestLine(line: string): { method?: string; path?: string } {
  const space = line.indexOf(' ');
  if (space <= 0) return {};
  const end = line.indexOf(' ', space + 1);
  return {
    method: line.slice(0, space).toUpperCase(),
    path: pathOf(line.slice(space + 1, end === -1 ? undefined : end)),
  };
}

/** The path of a URL, without the query and the server. */
function pathOf(url: string): string {
  const query = url.indexOf('?');
  const whole = query === -1 ? url : url.slice(0, query);
  if (whole.startsWith('/')) return whole;
  const server = /^[a-z][a-z\d+.-]*:\/\/[^/]*/i.exec(whole);
  return server ? whole.slice(server[0].length) || '/' : whole;
}

/** Gives a part of a request its usual form. */
export function normal(name: Part, text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  if (name === 'path') return pathOf(text);
  return name === 'method' ? text.toUpperCase() : text;
}

/** The text, or `undefined` for the placeholders of missing values. */
export const present = (text: string | undefined): string | undefined =>
  text === '-' || text === '' ? undefined : text;

/** Converts a text, a number, or several as a list. Undefined for values without information. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value);
  if (Array.isArray(value))
    return value.flatMap((each: unknown) => textOf(each) ?? []).join(', ') || undefined;
  return typeof value === 'string' ? present(value) : undefined;
}

/** The value of a field; or of several, with spaces between them, as in `date time`. */
export function fieldsOf(field: (name: string) => unknown, names: string): unknown {
  if (!names.includes(' ')) return field(names);
  const texts = names.split(/\s+/).map((name) => textOf(field(name)));
  return texts.includes(undefined) ? undefined : texts.join(' ');
}
