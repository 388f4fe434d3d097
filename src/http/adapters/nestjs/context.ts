// The differences between HTTP, GraphQL, gateways and microservices.
import type { ServerResponse } from 'node:http';
import type { ExecutionContext } from '@nestjs/common';
import type { Decision } from '../../../common/decision.js';
import type { Flow } from '../../flow.js';
import { expressProxy, fastifyProxy, type ExpressRequest, type FastifyRequest } from '../proxies.js';
import { onClosed } from '../../closed-connections.js';
import { trails, type Framework } from '../../framework.js';
import { nodeResponse } from '../../node-response.js';
import { problemOf as problemText } from '../../problem.js';
import { ofLimiter } from '../../../limiter/decision.js';

/**
 * The context of GraphQL servers on Express or Fastify. In Nest's Apollo the context has only `req`, and Express' `req` has `res`. For
 * graphql-ws, `req` is the context of the connection. Subscriptions have other values in place of a response.
 */
interface GraphqlContext {
  readonly req?: GraphqlRequest & { readonly res?: object };
  readonly request?: GraphqlRequest;
  readonly res?: unknown;
  readonly reply?: { readonly request?: GraphqlRequest };
}

interface GraphqlRequest {
  readonly extra?: { readonly request?: object };
}

const graphqlContext = (context: ExecutionContext): GraphqlContext =>
  context.getArgByIndex<GraphqlContext | undefined>(2) ?? {};

/**
 * Returns the request of a context: of Express or Fastify, also under GraphQL. For a subscription, the request that opened the connection;
 * for a gateway, the client's socket; for a microservice, the message's context; for a bot, the first argument of its handlers.
 */
export function requestOf<T = Record<string, unknown>>(context: ExecutionContext): T {
  switch (context.getType<string>()) {
    case 'http':
      return context.switchToHttp().getRequest<T>();
    case 'graphql': {
      const { req, request, reply } = graphqlContext(context);
      const found = req ?? request ?? reply?.request ?? {};
      return (found.extra?.request ?? found) as T;
    }
    case 'ws':
      return context.switchToWs().getClient<T>();
    case 'rpc':
      return context.switchToRpc().getContext<T>();
    default:
      return context.getArgByIndex<T>(0);
  }
}

/** A request of Express, Fastify or Node, or a socket of socket.io or ws. */
interface Client {
  readonly ip?: string;
  readonly handshake?: { readonly address?: string };
  readonly _socket?: { readonly remoteAddress?: string };
  readonly socket?: { readonly remoteAddress?: string };
  rateLimit?: Decision;
}

/** The address by the framework. Node's requests, which open connections for subscriptions, have only the address of the connection. */
function addressOf(context: ExecutionContext): string | undefined {
  const client = Object(requestOf(context)) as Client;
  if ('ip' in client) return client.ip;
  const { handshake, _socket, socket } = client;
  return handshake?.address ?? (_socket ?? socket)?.remoteAddress;
}

/** A response of Express, a reply of Fastify, or a substitute. */
export interface Response {
  readonly raw?: ServerResponse;
  getHeader(name: string): unknown;
  setHeader?(name: string, value: string): unknown;
  removeHeader?(name: string): unknown;
  header(name: string, value: string): unknown;
  status(status: number): unknown;
}

/**
 * Replaces a response that is shared by several handlers, or that does not exist. Writing has no effect. The end of the work is reported as
 * usual.
 */
class NoResponse implements Response {
  readonly ending: Pick<typeof nodeResponse, 'hasEnded' | 'hasLeft' | 'onEnd'>;
  readonly raw: ServerResponse;
  denied = 429;
  /** Whether the handler must not run although the response has begun, as a GraphQL response with other fields. */
  isDenied = false;

  constructor(context: ExecutionContext) {
    const connection = connectionOf(context);
    const response = graphqlResponse(context);
    this.raw = (connection ?? response ?? {}) as ServerResponse;
    this.ending = connection ? socketEnding : response ? nodeResponse : overAtOnce;
  }

  getHeader(): undefined {}

  header(): void {}

  status(status: number): void {
    this.denied = status;
  }
}

/** The connection that a context's work ends with: the socket of a gateway's client, or of a subscription. */
function connectionOf(context: ExecutionContext): object | undefined {
  const type = context.getType<string>();
  if (type === 'ws') return requestOf<object>(context);
  if (type !== 'graphql') return undefined;
  const info = context.getArgByIndex<{ operation?: { operation?: string } } | undefined>(3);
  if (info?.operation?.operation !== 'subscription') return undefined;
  const request = requestOf<Upgrade & { readonly raw?: Upgrade }>(context);
  const { upgrade, socket } = request.raw ?? request;
  return upgrade === true ? socket : undefined;
}

interface Upgrade {
  readonly upgrade?: boolean;
  readonly socket?: object;
}

/** Node's response in the context of a GraphQL server. */
function graphqlResponse(context: ExecutionContext): ServerResponse | undefined {
  if (context.getType<string>() !== 'graphql') return undefined;
  const { req, res, reply } = graphqlContext(context);
  const response = (res ?? reply ?? req?.res) as
    (Partial<ServerResponse> & { raw?: ServerResponse }) | undefined;
  const raw = response?.raw ?? response;
  return typeof raw?.once === 'function' ? (raw as ServerResponse) : undefined;
}

/** A socket of socket.io, ws or Node. */
interface Socket {
  readonly disconnected?: boolean;
  readonly readyState?: number | string;
  readonly destroyed?: boolean;
}

/** The handler's work ends when the connection closes, and then counts as not completed. */
const socketEnding: NoResponse['ending'] = {
  hasEnded: isClosed,
  hasLeft: isClosed,
  onEnd: (res, ended) => onClosed(res, ['disconnect', 'close'], () => ended(false)),
};

function isClosed(socket: object): boolean {
  const { disconnected, readyState, destroyed } = socket as Socket;
  return disconnected === true || destroyed === true || (typeof readyState === 'number' && readyState > 1);
}

/** Nest does not report the end of a message's handler, so the work counts as ended at once. */
const overAtOnce: NoResponse['ending'] = {
  hasEnded: () => true,
  hasLeft: () => false,
  onEnd: () => () => {},
};

const rawOf = (res: Response): ServerResponse => res.raw ?? (res as unknown as ServerResponse);
const endingOf = (res: Response): NoResponse['ending'] =>
  res instanceof NoResponse ? res.ending : nodeResponse;

/** The problem details of a denial, for Nest to send. */
const problems = new WeakMap<Response, string>();

/** The body of a denial, or `undefined` if a `handler` has answered (impossible in GraphQL and in microservices), or if the client has left. */
export function problemOf(res: Response, context: ExecutionContext): string | undefined {
  const problem = problems.get(res);
  const decision = trails.get(context)?.decision;
  if (problem !== undefined || !(res instanceof NoResponse) || decision?.allowed !== false) return problem;
  // A field of a response that goes on, as with `@defer`, is denied by its error.
  const goesOn = context.getType<string>() === 'graphql' && framework.isOpen!(res);
  const hasAnswer = framework.headersSent(res) && !goesOn;
  const mayHaveAnswered = !res.isDenied && (context.getType() === 'ws' || hasAnswer);
  return mayHaveAnswered ? undefined : problemText(ofLimiter(decision), res.denied);
}

/** Sends exactly this body. Status and fields are already set. */
export function sendAsItIs(res: Response, body: string): void {
  if (!res.raw) return nodeResponse.send(rawOf(res), body);
  const reply = res as unknown as { serializer(as: (body: string) => string): { send(body: string): void } };
  reply.serializer((text) => text).send(body);
}

export const decisionOf = (context: ExecutionContext): Decision => trails.get(context)!.decision;

/** The response that limiters set fields on. */
export function responseOf(context: ExecutionContext): Response {
  return context.getType() === 'http'
    ? context.switchToHttp().getResponse<Response>()
    : new NoResponse(context);
}

export const framework: Framework<ExecutionContext, Response> = {
  handlerSignature: 'handler(context, response, decision)',
  ip: addressOf,
  proxy: (context) => {
    if (!['http', 'graphql'].includes(context.getType<string>())) return undefined;
    const request = requestOf<ExpressRequest | FastifyRequest>(context);
    return 'routeOptions' in request ? fastifyProxy(request as FastifyRequest) : expressProxy(request);
  },
  messageKind: (context) => {
    const type = context.getType<string>();
    return ['http', 'graphql', 'ws'].includes(type) ? undefined : type;
  },
  // By context and not by request, because a GraphQL request or a socket runs many handlers, and each handler is charged.
  trail: (context) => trails.get(context),
  keep: (context, trail) => {
    trails.set(context, trail);
    const request = requestOf<Client | undefined>(context);
    if (Object.isExtensible(request)) request!.rateLimit = trail.decision;
  },
  getHeader: (res, name) => res.getHeader(name),
  // Express' `header` adds a charset to types.
  setHeader: (res, name, value) =>
    void (res.setHeader ? res.setHeader(name, value) : res.header(name, value)),
  headersSent: (res) => rawOf(res).headersSent,
  getStatus: (res) => rawOf(res).statusCode,
  setStatus: (res, status) => void res.status(status),
  send: (res, body) => void problems.set(res, body),
  isOpen: (res) => nodeResponse.isOpen(rawOf(res)),
  cut: (res) => {
    if (res instanceof NoResponse) res.isDenied = true;
    else nodeResponse.cut(rawOf(res));
  },
  hasEnded: (res) => endingOf(res).hasEnded(rawOf(res)),
  hasLeft: (res) => endingOf(res).hasLeft(rawOf(res)),
  onEnd: (res, ended) => endingOf(res).onEnd(rawOf(res), ended),
  neverCompletes: (res) => endingOf(res) === socketEnding,
};

export type NestFlow = Flow<ExecutionContext, Response>;
