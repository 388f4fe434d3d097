/** What a line of a log says of a request; which parts there are depends on the format. */
export interface LoggedRequest {
  /** The client's, or a list as in X-Forwarded-For: the client's, then those of proxies. */
  readonly address: string | undefined;
  readonly user: string | undefined;
  readonly method: string | undefined;
  /** Without the query. */
  readonly path: string | undefined;
  readonly status: number | undefined;
  /** Whether its fields have names. */
  readonly named: boolean;
  /** Any field, by its name or, in JSON, its path (`req.id`); undefined if the format has no names. */
  field(name: string): unknown;
  /** When it came, ms since the epoch: of a field, or where the format has it; undefined if it cannot be read. */
  timeOf(field: string | undefined): number | undefined;
}

/** `GET /path?query HTTP/1.1`, taken apart. */
export function splitRequestLine(line: string): { method: string | undefined; path: string | undefined } {
  const space = line.indexOf(' ');
  if (space <= 0) return { method: undefined, path: undefined };
  const end = line.indexOf(' ', space + 1);
  return { method: line.slice(0, space), path: pathOf(line.slice(space + 1, end === -1 ? undefined : end)) };
}

/** The path of a URL, without its query and the server before it. */
export function pathOf(url: string): string {
  const query = url.indexOf('?');
  const whole = query === -1 ? url : url.slice(0, query);
  if (whole.startsWith('/')) return whole;
  const server = /^[a-z][a-z\d+.-]*:\/\/[^/]*/i.exec(whole);
  return server ? whole.slice(server[0].length) || '/' : whole;
}

/** A text; undefined for what logs write where there is nothing. */
export function present(text: string | undefined): string | undefined {
  return text === '-' || text === '' ? undefined : text;
}
