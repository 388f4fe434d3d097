import { stringify, type ParsedUrlQueryInput } from 'node:querystring';
import type { Decision } from '../common/decision.js';
import type { OutboundRequest } from './outbound.js';

/** An interceptor of undici 7 or later: `new Agent().compose(call.interceptor)`. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- undici's own types depend on its version.
export type Interceptor = <D extends (options: any, handler: any) => boolean>(dispatch: D) => D;

interface Options {
  readonly origin?: string | URL;
  readonly path: string;
  readonly query?: ParsedUrlQueryInput | null;
  readonly method: string;
  readonly headers?: unknown;
}

/** Header fields by their lower-case names. */
export type Values = Readonly<Record<string, string | string[] | undefined>>;

/** What undici calls while a request is under way. */
interface Handler {
  onRequestStart?(...args: unknown[]): void;
  onRequestUpgrade?(...args: unknown[]): void;
  onResponseStart?(controller: unknown, status: number, headers: Values, message?: string): void;
  onResponseData?(...args: unknown[]): void;
  onResponseEnd?(controller: unknown, trailers: unknown): void;
  onResponseError?(controller: unknown, error: Error): void;
}

/** A request's turn. */
export interface Turn {
  readonly decision: Decision;
  learn(status: number, values: Values): unknown;
}

/** Waits for a request's turn. Undefined: it is not limited. */
type Admit = (request: OutboundRequest, signal: AbortSignal) => Promise<Turn> | undefined;

/** Sends each request of a dispatcher at its turn. Retries are left to others, such as undici's own interceptor. */
export function interceptorOf(admit: Admit): Interceptor {
  const limited =
    (dispatch: (options: Options, handler: Handler) => boolean) => (options: Options, handler: Handler) => {
      const request = {
        url: urlOf(options),
        method: options.method.toUpperCase(),
        headers: headersOf(options.headers),
      };
      const leaves = new AbortController();
      const turn = admit(request, leaves.signal);
      if (!turn) return dispatch(options, handler);
      const waiting = waitingController(leaves);
      const send = (its: Turn): void => {
        const learner = learning(handler, its);
        try {
          dispatch(options, learner);
        } catch (error) {
          // What throws instead of telling the handler must not keep the slot.
          learner.onResponseError(waiting, error as Error);
        }
      };
      void turn.then(send, (error: Error) => handler.onResponseError?.(waiting, error));
      // undici aborts by what it is given here, whatever kind of signal there is. When the request starts it is given another.
      handler.onRequestStart?.(waiting, {});
      return true;
    };
  return limited as unknown as Interceptor;
}

/** The whole address; the path alone if a pool or a client is asked, which knows its origin itself. A path `//host` is no other host. */
function urlOf({ origin, path: asked, query }: Options): string {
  const path = query ? `${asked}?${stringify(query)}` : asked;
  if (!origin) return path;
  const { origin: server } = new URL(origin);
  return new URL(path.startsWith('/') ? server + path : path, server).href;
}

/** What undici takes a request that waits for: nothing can be held, and who aborts it leaves the line. */
function waitingController(leaves: AbortController): object {
  return {
    ...{ paused: false, pause() {}, resume() {} },
    get aborted() {
      return leaves.signal.aborted;
    },
    get reason() {
      return leaves.signal.reason as unknown;
    },
    abort: (reason?: unknown) => leaves.abort(reason),
  };
}

/** The same handler, which also learns from the answer, and gives back the slot at its end. */
function learning(handler: Handler, { decision, learn }: Turn): Required<Handler> {
  // If a slot cannot be given back now, it is free at the end of its lease.
  const release = (): void => void decision.release().catch(() => {});
  return {
    onRequestStart: (...args) => handler.onRequestStart?.(...args),
    onRequestUpgrade(...args) {
      release();
      handler.onRequestUpgrade?.(...args);
    },
    onResponseStart(controller, status, headers, message) {
      // An informational answer, such as 103, comes before the answer.
      if (status >= 200) learn(status, headers);
      handler.onResponseStart?.(controller, status, headers, message);
    },
    onResponseData: (...args) => handler.onResponseData?.(...args),
    onResponseEnd(controller, trailers) {
      release();
      handler.onResponseEnd?.(controller, trailers);
    },
    onResponseError(controller, error) {
      release();
      handler.onResponseError?.(controller, error);
    },
  };
}

/** An answer without its body, which is on its way to the handler. @throws for fields that `Headers` refuses */
export function responseOf(status: number, values: Values): Response {
  const headers = new Headers();
  for (const [name, value] of Object.entries(values))
    for (const each of [value ?? []].flat()) headers.append(name, each);
  return new Response(null, { status, headers });
}

/** undici takes header fields as an object, as a flat list, or as pairs. */
function headersOf(given: unknown): Headers {
  if (!Array.isArray(given)) return new Headers((given ?? {}) as Record<string, string>);
  const flat = given.flat() as string[];
  const headers = new Headers();
  for (let i = 0; i + 1 < flat.length; i += 2) headers.append(flat[i]!, flat[i + 1]!);
  return headers;
}
