/** What a line of a log says of a request; which parts there are depends on the format. */
export interface LoggedRequest {
  readonly address: string | undefined;
  readonly user: string | undefined;
  readonly method: string | undefined;
  /** Without the query. */
  readonly path: string | undefined;
  readonly status: number | undefined;
  /** Of a JSON line: any field, by its name or its path (`req.id`). */
  field(name: string): unknown;
}

/** `GET /path?query HTTP/1.1`, taken apart. */
export function splitRequestLine(line: string): { method: string | undefined; path: string | undefined } {
  const space = line.indexOf(' ');
  if (space <= 0) return { method: undefined, path: undefined };
  const end = line.indexOf(' ', space + 1);
  return { method: line.slice(0, space), path: pathOf(line.slice(space + 1, end === -1 ? undefined : end)) };
}

/** The path of a URL, without its query. */
export function pathOf(url: string): string {
  const query = url.indexOf('?');
  return query === -1 ? url : url.slice(0, query);
}
