import type { Decision } from '../decision.js';
import type { HeaderTarget } from './headers.js';

/** What becomes of a request: it goes on, or it has its answer. */
export type Outcome = 'next' | 'answered';

/** Goes on with the request, or fails it. */
export type Next = (error?: unknown) => void;

/** Listens to the end of one response. */
export interface Ending {
  /** Whether the response has ended. It is asked from time to time, for ends that nothing tells of. */
  look(): boolean;
  /** Ends the listening. */
  stop(): void;
}

/** What a limiter needs of a response. `nodeResponse` has all of it for the responses of Node's servers. */
export interface ResponsePort<Res> extends HeaderTarget<Res> {
  /** Whether status and header fields are on their way, so that nothing can be changed any more. */
  headersSent(res: Res): boolean;
  /** The status that the response has now. */
  getStatus(res: Res): number;
  setStatus(res: Res, status: number): void;
  /** Answers with a body of the type `application/problem+json`; it is ASCII. */
  send(res: Res, status: number, body: string): void;
  /**
   * Calls `ended` once, when the response ends: with true if it was sent whole, whatever its status; with false if it was cut off, or its
   * client has left. It is called at once if the response has ended already.
   */
  onEnd(res: Res, ended: (completed: boolean) => void): Ending;
}

/** What a limiter needs of a framework. */
export interface Framework<Req extends object, Res> extends ResponsePort<Res> {
  /** The client's address, as far as the framework trusts what it was told of it. */
  ip(req: Req): string | undefined;
  /** What `keep` was last given for this request. */
  trail(req: Req): Trail | undefined;
  /** Keeps the trail with its request, and shows its decision to handlers, as `rateLimit` on the request. */
  keep(req: Req, trail: Trail): void;
}

/** The limiters that have decided on a request, the latest first. */
export interface Trail {
  /** Tells the limiters apart. */
  readonly flow: object;
  readonly decision: Decision;
  readonly before: Trail | undefined;
}
