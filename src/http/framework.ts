import type { Decision } from '../common/decision.js';
import type { HeaderTarget } from './quota-fields.js';

/** The outcome of a request: `'next'` if the request goes on, `'answered'` if the limiter answered. */
export type Outcome = 'next' | 'answered';

/** Continues with the next handler, or fails the request with an error. */
export type Next = (error?: unknown) => void;

/** The operations on a response that a limiter needs. `nodeResponse` and `webResponse` implement the required ones. */
export interface ResponsePort<Res> extends HeaderTarget<Res> {
  /** Whether status and header fields were sent and can no longer be changed. */
  headersSent(res: Res): boolean;
  /** The current status of the response. */
  getStatus(res: Res): number;
  /** Sets the status of the answer before the answer is sent. */
  setStatus(res: Res, status: number): void;
  /** Sends an ASCII body. Status and fields, including the body's type, are already set. */
  send(res: Res, body: string): void;
  /** Whether the rest of a response whose header fields were sent is still to come. @default false */
  isOpen?(res: Res): boolean;
  /** Breaks off an open response, so that its client does not take it for complete. */
  cut?(res: Res): void;
  /** Whether the response has ended. Long responses are polled, in case no event reports the end. */
  hasEnded(res: Res): boolean;
  /**
   * Whether the client left before the response was complete. Limiters drop such a request before they decide.
   *
   * @default whether the response has ended, and nothing was sent
   */
  hasLeft?(res: Res): boolean;
  /**
   * Calls `ended` at the end of the response: with true if the response was sent completely, whatever its status; with false if the
   * response was cut off or the client left. Only the first call counts.
   *
   * @returns a function that stops listening
   */
  onEnd(res: Res, ended: (completed: boolean) => void): () => void;
  /** Whether `onEnd` always passes false, at the end of a connection that carries many requests. @default false */
  neverCompletes?(res: Res): boolean;
}

/** A port that can report a client's leaving. */
export type Leaving<Res> = Required<Pick<ResponsePort<Res>, 'hasLeft'>>;

/** The limiters that have decided on a request, newest first. */
export interface Trail {
  /** Identifies the limiter. */
  readonly flow: object;
  /** The decision of the latest limiter. */
  readonly decision: Decision;
  /** The earlier limiters. */
  readonly before: Trail | undefined;
}

/** Storage for the trails of requests. */
export interface Trails<Req extends object> {
  /** The trail last passed to `keep` for the request. */
  trail(req: Req): Trail | undefined;
  /** Stores a request's trail, and shows the decision to handlers, as `rateLimit` on the request. */
  keep(req: Req, trail: Trail): void;
}

/** A framework's settings for the proxies in front, and a request's evidence of proxies. */
export interface Proxies {
  /** The proxies whose statements about the client's address the framework trusts. */
  readonly trusts: 'nobody' | 'some' | 'anybody';
  /** The request's header fields, in lower case. */
  readonly headers: Readonly<Record<string, unknown>>;
  /** The remote address of the connection. */
  readonly peer: string | undefined;
}

/** A framework's implementation for the limiter. By default, trails are in a weak map, and `rateLimit` is a property. */
export interface Framework<Req extends object, Res> extends ResponsePort<Res>, Partial<Trails<Req>> {
  /** The client's address, by the framework's settings for proxies. */
  ip(req: Req): string | undefined;
  /**
   * Facts about proxies, for the warnings about the configuration, which check a limiter's first requests. Without this method the warnings
   * are off.
   */
  proxy?(req: Req): Proxies | undefined;
  /**
   * The kind of a message that has no client with an address, such as `'rpc'`, or `undefined` for a request. Policies by the default key do not
   * apply to such a message.
   */
  messageKind?(req: Req): string | undefined;
  /** The signature of the option `handler`, for warnings. Default `handler(request, response, decision)`. */
  readonly handlerSignature?: string;
}

/** The trails of requests, in a map, so that requests get no property. */
export const trails = new WeakMap<object, Trail>();

/** The default storage, for frameworks without a faster one. */
export const weakTrails: Trails<object> = {
  trail: (req) => trails.get(req),
  keep: (req: { rateLimit?: Decision }, trail) => {
    trails.set(req, trail);
    req.rateLimit = trail.decision;
  },
};
