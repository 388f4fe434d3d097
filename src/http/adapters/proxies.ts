import type { Proxies } from '../framework.js';

/** An address and a hop count of no real proxy. A framework that trusts such an address trusts every proxy. */
const STRANGER = '192.0.2.254';
const HOPS = Array.from({ length: 200 }, (_, i) => `192.0.2.${i}`);

/** The needed parts of an Express request. Different servers may call Express middleware, too. */
export interface ExpressRequest {
  readonly app?: { get?(setting: string): unknown };
  readonly headers?: Proxies['headers'];
  readonly socket?: { readonly remoteAddress?: string | undefined };
}

/** Returns Express' proxy settings. A server without settings trusts no proxy. `undefined` if another middleware has determined the address. */
export function expressProxy(request: ExpressRequest): Proxies | undefined {
  const { app, headers = {}, socket } = request;
  // A test's mock may have any `app`.
  if (typeof app?.get !== 'function')
    return 'ip' in request ? undefined : { trusts: 'nobody', headers, peer: socket?.remoteAddress };
  const trusted = app.get('trust proxy');
  const trustsAddress = app.get('trust proxy fn') as ((address: string, hop: number) => unknown) | undefined;
  const isAnybody =
    trusted === true ||
    (typeof trustsAddress === 'function' && trustsAddress(STRANGER, HOPS.length) === true);
  const trusts = isAnybody ? 'anybody' : trusted ? 'some' : 'nobody';
  return { trusts, headers, peer: socket?.remoteAddress };
}

export interface FastifyRequest {
  readonly ips?: readonly string[] | undefined;
  readonly headers: Proxies['headers'];
  readonly socket: { readonly remoteAddress?: string | undefined };
}

const PRETENDED = {
  headers: { 'x-forwarded-for': HOPS.join(', ') },
  socket: { remoteAddress: STRANGER },
};

/** Returns Fastify's proxy settings. Fastify does not expose `trustProxy`, so a made-up request shows the setting. */
export function fastifyProxy(request: FastifyRequest): Proxies {
  const pretended = Object.create(request, { raw: { value: PRETENDED } }) as FastifyRequest;
  const isAnybody = request.ips !== undefined && pretended.ips!.length > HOPS.length;
  const trusts = request.ips === undefined ? 'nobody' : isAnybody ? 'anybody' : 'some';
  return { trusts, headers: request.headers, peer: request.socket.remoteAddress };
}

export interface KoaContext {
  readonly app: { readonly proxy: boolean; readonly proxyIpHeader: string; readonly maxIpsCount: number };
  readonly req: {
    readonly headers: Proxies['headers'];
    readonly socket: { readonly remoteAddress?: string | undefined };
  };
}

/** Returns Koa's proxy settings. Without `maxIpsCount`, the client is the first address of X-Forwarded-For, which anybody can send. */
export function koaProxy({ app, req: { headers, socket } }: KoaContext): Proxies {
  const isList = app.proxyIpHeader.toLowerCase() === 'x-forwarded-for';
  const isAnybody = isList && !(app.maxIpsCount > 0);
  const trusts = !app.proxy ? 'nobody' : isAnybody ? 'anybody' : 'some';
  return { trusts, headers, peer: socket.remoteAddress };
}
