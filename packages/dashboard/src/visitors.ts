/** The connections of requests that came through Node's server, whose web requests have no signal of their own. */
const sockets = new WeakMap<Request, { readonly destroyed?: boolean }>();

/** Returns whether a visitor has left, so that its question needs no answer. */
export type HasLeft = () => boolean;

/** Notes the connection of a request. */
export function connected(request: Request, socket: { readonly destroyed?: boolean }): Request {
  sockets.set(request, socket);
  return request;
}

export const visitorOf =
  (request: Request): HasLeft =>
  () =>
    request.signal.aborted || sockets.get(request)?.destroyed === true;
