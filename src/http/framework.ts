import type { Decision } from '../common/decision.js';
import type { HeaderTarget } from './headers.js';

/** What happens to a request: it goes on, or it was answered. */
export type Outcome = 'next' | 'answered';

/** Goes on with the request, or makes it fail. */
export type Next = (error?: unknown) => void;

/** The operations on a response that a limiter needs. `nodeResponse` and `webResponse` implement them all. */
export interface ResponsePort<Res> extends HeaderTarget<Res> {
  /** Whether status and header fields were sent, so that they can no longer be changed. */
  headersSent(res: Res): boolean;
  /** The status that the response has now. */
  getStatus(res: Res): number;
  /** Sets the status of the answer before it is sent. */
  setStatus(res: Res, status: number): void;
  /** Answers with this body, which is ASCII. Status and fields, including the body's type, are already set. */
  send(res: Res, body: string): void;
  /** Whether the response has ended. Long responses are checked from time to time, in case no event tells of the end. */
  hasEnded(res: Res): boolean;
  /**
   * Calls `ended` when the response ends: with true if it was sent completely, whatever its status; with false if it was cut off, or if its
   * client has left. Further calls have no effect.
   *
   * @returns a function that stops listening
   */
  onEnd(res: Res, ended: (completed: boolean) => void): () => void;
  /** Whether `onEnd` only ever tells false, at the end of a connection of many requests. Default: no. */
  neverCompletes?(res: Res): boolean;
}

/** The limiters that have decided on a request. The latest comes first. */
export interface Trail {
  /** Identifies the limiter. */
  readonly flow: object;
  /** The decision of the latest limiter. */
  readonly decision: Decision;
  /** The earlier limiters. */
  readonly before: Trail | undefined;
}

/** Where a request's trail is kept. */
export interface Trails<Req extends object> {
  /** The trail that was last given to `keep` for this request. */
  trail(req: Req): Trail | undefined;
  /** Keeps the trail with its request, and shows its decision to handlers, as `rateLimit` on the request. */
  keep(req: Req, trail: Trail): void;
}

/** What a framework knows about the proxies in front of it. */
export interface Proxies {
  /** Whose statements about the client's address the framework trusts. */
  readonly trusts: 'nobody' | 'some' | 'anybody';
  /** The request's header fields, in lower case. */
  readonly headers: Readonly<Record<string, unknown>>;
  /** The address that the connection comes from. */
  readonly peer: string | undefined;
}

/**
 * What a limiter needs of a framework. Without `trail` and `keep`, the trails are kept in a weak map, and `rateLimit` becomes a property.
 */
export interface Framework<Req extends object, Res> extends ResponsePort<Res>, Partial<Trails<Req>> {
  /** The client's address, by the framework's settings for proxies. */
  ip(req: Req): string | undefined;
  /**
   * What is known about proxies, for the warnings about the set-up, which check the first requests of a limiter. Without it there are no
   * such warnings.
   */
  proxy?(req: Req): Proxies | undefined;
  /** The signature of the option `handler`, for warnings. Default `handler(request, response, decision)`. */
  readonly handlerSignature?: string;
}

const kept = new WeakMap<object, Trail>();

/** For frameworks without a faster way. */
export const weakTrails: Trails<object> = {
  trail: (req) => kept.get(req),
  keep: (req: { rateLimit?: Decision }, trail) => {
    kept.set(req, trail);
    req.rateLimit = trail.decision;
  },
};
