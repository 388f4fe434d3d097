/** What a router knows of a route. */
export interface Route {
  readonly method: string | string[];
  readonly url: string;
  readonly constraints?: object | undefined;
}

/** A route's default name: its path, with what tells it from other routes of that path. HEAD is GET's. */
export function routeName({ method, url, constraints = {} }: Route): string {
  const methods = new Set([method].flat().map((name) => (name === 'HEAD' ? 'GET' : name)));
  const verbs = [...methods].sort().join(',');
  const differences = Object.entries(constraints).map(([name, value]) => ` ${name}=${String(value)}`);
  return (verbs === 'GET' ? '' : `${verbs} `) + (url || '/') + differences.join('');
}
