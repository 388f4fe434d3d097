/** What a line of a log tells about a request. The format decides which parts exist. */
export interface LoggedRequest {
  /** The client's address; or a list as in X-Forwarded-For: the client's address, then those of proxies. */
  readonly address: string | undefined;
  readonly user: string | undefined;
  readonly method: string | undefined;
  /** The path without the query. */
  readonly path: string | undefined;
  readonly status: number | undefined;
  /** Whether the format has named fields. */
  readonly named: boolean;
  /** Any field by its name, or in JSON by its path (`req.id`). Undefined if the format has no names. */
  field(name: string): unknown;
  /** When the request came, ms since the epoch, from the given field or from where the format has it. Undefined if it cannot be read. */
  timeOf(field: string | undefined): number | undefined;
}

/** Splits `GET /path?query HTTP/1.1`. */
export function splitRequestLine(line: string): { method: string | undefined; path: string | undefined } {
  const space = line.indexOf(' ');
  if (space <= 0) return { method: undefined, path: undefined };
  const end = line.indexOf(' ', space + 1);
  return { method: line.slice(0, space), path: pathOf(line.slice(space + 1, end === -1 ? undefined : end)) };
}

/** The path of a URL, without the query and the server. */
export function pathOf(url: string): string {
  const query = url.indexOf('?');
  const whole = query === -1 ? url : url.slice(0, query);
  if (whole.startsWith('/')) return whole;
  const server = /^[a-z][a-z\d+.-]*:\/\/[^/]*/i.exec(whole);
  return server ? whole.slice(server[0].length) || '/' : whole;
}

/** A text. Undefined for the placeholders of missing values. */
export function present(text: string | undefined): string | undefined {
  return text === '-' || text === '' ? undefined : text;
}
