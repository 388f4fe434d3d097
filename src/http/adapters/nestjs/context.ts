// The differences between HTTP, GraphQL, gateways and microservices.
import type { ServerResponse } from 'node:http';
import type { ExecutionContext } from '@nestjs/common';
import type { Decision } from '../../../common/decision.js';
import type { Flow } from '../../flow.js';
import { expressProxy, fastifyProxy, type ExpressRequest, type FastifyRequest } from '../proxies.js';
import { follow } from '../../follow.js';
import type { Framework, Trail } from '../../framework.js';
import { nodeResponse } from '../../node-response.js';
import { problemOf as problemText } from '../../problem.js';
import { ofLimiter } from '../../../limiter/decision.js';

/** The context of GraphQL servers on Express or Fastify. In Nest's Apollo it only has `req`, and Express' `req` has `res`. */
interface GraphqlContext {
  readonly req?: object & { readonly res?: object };
  readonly request?: object;
  readonly res?: object;
  readonly reply?: object & { readonly request?: object };
}

const graphqlContext = (context: ExecutionContext): GraphqlContext =>
  context.getArgByIndex<GraphqlContext | undefined>(2) ?? {};

/**
 * The request of a context: that of Express or Fastify, also under GraphQL. For a gateway it is the client's socket; for a microservice,
 * the message's context.
 */
export function requestOf<T = Record<string, unknown>>(context: ExecutionContext): T {
  switch (context.getType<string>()) {
    case 'http':
      return context.switchToHttp().getRequest<T>();
    case 'graphql': {
      const { req, request, reply } = graphqlContext(context);
      return (req ?? request ?? reply?.request ?? {}) as T;
    }
    case 'ws':
      return context.switchToWs().getClient<T>();
    default:
      return context.switchToRpc().getContext<T>();
  }
}

/** A request of Express or Fastify, or a socket of socket.io or ws. */
interface Client {
  readonly ip?: string;
  readonly handshake?: { readonly address?: string };
  readonly _socket?: { readonly remoteAddress?: string };
  rateLimit?: Decision;
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
 * Substitutes a response that is shared by several handlers, or that does not exist. Writing does nothing. It still tells when the work has
 * ended.
 */
class NoResponse implements Response {
  readonly ending: Pick<typeof nodeResponse, 'hasEnded' | 'onEnd'>;
  readonly raw: ServerResponse;
  /** The status of a denial. */
  denied = 429;

  constructor(context: ExecutionContext) {
    const type = context.getType<string>();
    const { req, res, reply } = type === 'graphql' ? graphqlContext(context) : {};
    const response = res ?? reply ?? req?.res;
    const target = type === 'ws' ? requestOf<object>(context) : response;
    this.raw = ((response as Partial<Response> | undefined)?.raw ?? target ?? {}) as ServerResponse;
    this.ending = type === 'ws' ? socketEnding : response ? nodeResponse : overAtOnce;
  }

  getHeader(): undefined {}

  header(): void {}

  status(status: number): void {
    this.denied = status;
  }
}

/** A socket of socket.io or ws. */
interface Socket {
  readonly disconnected?: boolean;
  readonly readyState?: number;
}

/** The handler's work ends when the connection closes, and then counts as not completed. */
const socketEnding: NoResponse['ending'] = {
  hasEnded: (res) => {
    const { disconnected, readyState } = res as unknown as Socket;
    return disconnected === true || (readyState !== undefined && readyState > 1);
  },
  onEnd: (res, ended) => follow(res, ['disconnect', 'close'], () => ended(false)),
};

/** Nest does not tell when a message was handled, so the work counts as ended at once. */
const overAtOnce: NoResponse['ending'] = { hasEnded: () => true, onEnd: () => () => {} };

const rawOf = (res: Response): ServerResponse => res.raw ?? (res as unknown as ServerResponse);
const endingOf = (res: Response): NoResponse['ending'] =>
  res instanceof NoResponse ? res.ending : nodeResponse;

/** By context and not by request: one GraphQL request or one socket runs many handlers, and each of them is charged. */
const trails = new WeakMap<ExecutionContext, Trail>();

/** The problem details of a denial, for Nest to send. */
const problems = new WeakMap<Response, string>();

/** Undefined if a `handler` has answered, which it cannot in GraphQL and in microservices, or if the client has left. */
export function problemOf(res: Response, context: ExecutionContext): string | undefined {
  const problem = problems.get(res);
  const decision = trails.get(context)?.decision;
  if (problem !== undefined || !(res instanceof NoResponse) || decision?.allowed !== false) return problem;
  const mayHaveAnswered = context.getType() === 'ws' || framework.headersSent(res);
  return mayHaveAnswered ? undefined : problemText(ofLimiter(decision), res.denied);
}

/** Answers with exactly this body. Status and fields are already set. */
export function sendAsItIs(res: Response, body: string): void {
  if (!res.raw) return nodeResponse.send(rawOf(res), body);
  const reply = res as unknown as { serializer(as: (body: string) => string): { send(body: string): void } };
  reply.serializer((text) => text).send(body);
}

export const decisionOf = (context: ExecutionContext): Decision => trails.get(context)!.decision;

/** The response on which limiters set fields. */
export function responseOf(context: ExecutionContext): Response {
  return context.getType() === 'http'
    ? context.switchToHttp().getResponse<Response>()
    : new NoResponse(context);
}

export const framework: Framework<ExecutionContext, Response> = {
  ip: (context) => {
    const { ip, handshake, _socket } = requestOf<Client>(context);
    return ip ?? handshake?.address ?? _socket?.remoteAddress;
  },
  proxy: (context) => {
    if (context.getType() !== 'http') return undefined;
    const request = context.switchToHttp().getRequest<ExpressRequest | FastifyRequest>();
    return 'app' in request ? expressProxy(request) : fastifyProxy(request as FastifyRequest);
  },
  trail: (context) => trails.get(context),
  keep: (context, trail) => {
    trails.set(context, trail);
    requestOf<Client>(context).rateLimit = trail.decision;
  },
  getHeader: (res, name) => res.getHeader(name),
  // Express' `header` adds a charset to types.
  setHeader: (res, name, value) =>
    void (res.setHeader ? res.setHeader(name, value) : res.header(name, value)),
  headersSent: (res) => rawOf(res).headersSent,
  getStatus: (res) => rawOf(res).statusCode,
  setStatus: (res, status) => void res.status(status),
  send: (res, body) => void problems.set(res, body),
  hasEnded: (res) => endingOf(res).hasEnded(rawOf(res)),
  onEnd: (res, ended) => endingOf(res).onEnd(rawOf(res), ended),
  neverCompletes: (res) => endingOf(res) === socketEnding,
};

export type NestFlow = Flow<ExecutionContext, Response>;
