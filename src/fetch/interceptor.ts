import { inBackground } from '../common/background.js';
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

interface Handler {
  onRequestStart?(...args: unknown[]): void;
  onRequestUpgrade?(...args: unknown[]): void;
  onResponseStart?(controller: unknown, status: number, headers: Values, message?: string): void;
  onResponseData?(...args: unknown[]): void;
  onResponseEnd?(controller: unknown, trailers: unknown): void;
  onResponseError?(controller: unknown, error: Error): void;
}

export interface Turn {
  readonly decision: Decision;
  learn(status: number, values: Values): unknown;
}

/** Waits for a request's turn, or returns `undefined` if the request is not limited. */
type Admit = (request: OutboundRequest, signal: AbortSignal) => Promise<Turn> | undefined;

/** Sends each request of a dispatcher at its turn. Retries are left to further interceptors, such as undici's own. */
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
          // An interceptor that throws instead of calling the handler must not keep the slot.
          learner.onResponseError(waiting, error as Error);
        }
      };
      void turn.then(send, (error: Error) => handler.onResponseError?.(waiting, error));
      // Until the request starts, undici aborts it with this object, whatever kind of signal the caller passed. The started request gets
      // another controller.
      handler.onRequestStart?.(waiting, {});
      return true;
    };
  return limited as unknown as Interceptor;
}

/** The complete address, or the path alone for a Pool or Client, which has a fixed origin. A path such as `//host` is not another host. */
function urlOf({ origin, path: asked, query }: Options): string {
  const path = query ? `${asked}?${stringify(query)}` : asked;
  if (!origin) return path;
  const { origin: server } = new URL(origin);
  return new URL(path.startsWith('/') ? server + path : path, server).href;
}

/** The controller that undici uses for a waiting request. Pausing has no effect, and aborting leaves the line. */
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

/** Wraps a handler to learn from the answer, and to release the slot at the answer's end. */
function learning(handler: Handler, { decision, learn }: Turn): Required<Handler> {
  // If the store cannot release a slot now, the slot expires by itself.
  const release = (): void => void inBackground('A slot was not given back', decision.release());
  return {
    onRequestStart: (...args) => handler.onRequestStart?.(...args),
    onRequestUpgrade(...args) {
      release();
      handler.onRequestUpgrade?.(...args);
    },
    onResponseStart(controller, status, headers, message) {
      // An informational answer, such as 103, precedes the actual answer.
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

/** Creates an answer without the body, which is on its way to the handler. @throws for fields that `Headers` refuses */
export function responseOf(status: number, values: Values): Response {
  const headers = new Headers();
  for (const [name, value] of Object.entries(values))
    for (const each of [value ?? []].flat()) headers.append(name, each);
  return new Response(null, { status, headers });
}

/** undici accepts header fields as an object, as a flat list, or as pairs. */
function headersOf(given: unknown): Headers {
  if (!Array.isArray(given)) return new Headers((given ?? {}) as Record<string, string>);
  const flat = given.flat() as string[];
  const headers = new Headers();
  for (let i = 0; i + 1 < flat.length; i += 2) headers.append(flat[i]!, flat[i + 1]!);
  return headers;
}
