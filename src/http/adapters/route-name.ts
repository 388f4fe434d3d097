/** What a router knows of a route. */
export interface Route {
  readonly method: string | string[];
  readonly url: string;
  readonly constraints?: object | undefined;
  /** Of the context that it was declared in; the route `/` of it is served at `/prefix` and at `/prefix/`, unless told otherwise. */
  readonly prefix?: string | undefined;
  readonly prefixTrailingSlash?: string | undefined;
}

/**
 * A route's default name: its path, with what tells it from other routes of that path. There is one route of a path for GET,
 * and its HEAD is the same one: it goes by the path alone, whatever other methods it has.
 */
export function routeName({ method, url, constraints = {}, prefix, prefixTrailingSlash }: Route): string {
  const methods = [method].flat();
  const gets = methods.includes('GET') || methods.includes('HEAD');
  const isRoot = url === `${prefix}/` && prefixTrailingSlash !== 'slash';
  const path = (isRoot ? prefix : url) || '/';
  const differences = Object.entries(constraints).map(([name, value]) => ` ${name}=${String(value)}`);
  return (gets ? '' : `${methods.sort().join(',')} `) + path + differences.join('');
}
