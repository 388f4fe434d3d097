import type { Decision } from '../common/decision.js';
import type { HeaderTarget } from './headers.js';

/** What becomes of a request: it goes on, or it has its answer. */
export type Outcome = 'next' | 'answered';

/** Goes on with the request, or fails it. */
export type Next = (error?: unknown) => void;

/** What a limiter needs of a response. `nodeResponse` and `webResponse` have all of it. */
export interface ResponsePort<Res> extends HeaderTarget<Res> {
  /** Whether status and header fields are on their way, so that nothing can be changed any more. */
  headersSent(res: Res): boolean;
  /** The status that the response has now. */
  getStatus(res: Res): number;
  /** Sets the status of an answer to come. */
  setStatus(res: Res, status: number): void;
  /** Answers with this body, which is ASCII. Status and fields, with the body's type, are set. */
  send(res: Res, body: string): void;
  /** Whether the response has ended. While a response takes long it is asked from time to time, for ends that nothing tells of. */
  hasEnded(res: Res): boolean;
  /**
   * Calls `ended` when the response ends: with true if it was sent whole, whatever its status; with false if it was cut off, or its client
   * has left. Further calls change nothing.
   *
   * @returns what ends the listening
   */
  onEnd(res: Res, ended: (completed: boolean) => void): () => void;
}

/** The limiters that have decided on a request, the latest first. */
export interface Trail {
  /** Tells the limiters apart. */
  readonly flow: object;
  /** What the latest has decided. */
  readonly decision: Decision;
  /** Those before it. */
  readonly before: Trail | undefined;
}

/** Where a request's trail is kept. */
export interface Trails<Req extends object> {
  /** What `keep` was last given for this request. */
  trail(req: Req): Trail | undefined;
  /** Keeps the trail with its request, and shows its decision to handlers, as `rateLimit` on the request. */
  keep(req: Req, trail: Trail): void;
}

/** What a framework knows of the proxies before it. */
export interface Proxies {
  /** Whose word on the client's address it takes. */
  readonly trusts: 'nobody' | 'some' | 'anybody';
  /** The request's fields, in lower case. */
  readonly headers: Readonly<Record<string, unknown>>;
  /** The address that the connection comes from. */
  readonly peer: string | undefined;
}

/** What a limiter needs of a framework. Without `trail` and `keep`, a weak map keeps the trails, and `rateLimit` is a property. */
export interface Framework<Req extends object, Res> extends ResponsePort<Res>, Partial<Trails<Req>> {
  /** The client's address, as far as the framework trusts what it was told of it. */
  ip(req: Req): string | undefined;
  /** What is known of proxies, for the warnings about the set-up: the first requests of a limiter are looked at. Without it, there are none. */
  proxy?(req: Req): Proxies | undefined;
}

const kept = new WeakMap<object, Trail>();

/** For frameworks that have no faster way. */
export const weakTrails: Trails<object> = {
  trail: (req) => kept.get(req),
  keep: (req: { rateLimit?: Decision }, trail) => {
    kept.set(req, trail);
    req.rateLimit = trail.decision;
  },
};
