export interface Route {
  readonly method: string | string[];
  readonly url: string;
  readonly constraints?: object | undefined;
  /**
   * The prefix of the context that declares the route. The context's route `/` is served at `/prefix` and at `/prefix/`, unless configured
   * otherwise.
   */
  readonly prefix?: string | undefined;
  readonly prefixTrailingSlash?: string | undefined;
}

/**
 * A route's default name: the path, and a suffix that distinguishes the route from further routes of the path. GET and HEAD of a path are
 * one route, whose name is the path alone, whatever further methods the route has.
 */
export function routeName({ method, url, constraints = {}, prefix, prefixTrailingSlash }: Route): string {
  const methods = [method].flat();
  const gets = methods.includes('GET') || methods.includes('HEAD');
  const isRoot = url === `${prefix}/` && prefixTrailingSlash !== 'slash';
  const path = (isRoot ? prefix : url) || '/';
  const differences = Object.entries(constraints).map(([name, value]) => ` ${name}=${String(value)}`);
  return (gets ? '' : `${methods.sort().join(',')} `) + path + differences.join('');
}
