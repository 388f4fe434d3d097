/**
 * The dashboard for Fastify 5.
 *
 * @module
 */
import { Readable } from 'node:stream';
import type {
  FastifyPluginAsync,
  FastifyPluginCallback,
  FastifyReply,
  FastifyRequest,
  RouteShorthandOptions,
} from 'fastify';
import { webRequest } from './node.js';
import { compileOptions, type DashboardOptions as Options } from './options.js';
import { Service } from './service.js';

export type { Operator } from './options.js';

/** Options of {@link dashboardPlugin}. `prefix` is an option of Fastify. */
export interface DashboardOptions extends Omit<Options<FastifyRequest>, 'prefix'> {
  /** The path of the page, an option of Fastify. */
  prefix?: string;
  /** The hooks that authenticate visitors. With such a hook, `auth` is `'upstream'`. */
  preHandler?: RouteShorthandOptions['preHandler'] | undefined;
}

const CALLER = {
  name: 'dashboardPlugin',
  example:
    "fastify.register(dashboardPlugin, { prefix: '/admin/limits', store: redisStore(redis), preHandler: requireAdmin })",
};

/**
 * The live page as a plugin of Fastify 5.
 *
 * @example
 * await fastify.register(dashboardPlugin, { prefix: '/admin/limits', store, preHandler: requireAdmin, actions: (req) => ({ by: req.user.email }) })
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, and as `createAdmin`
 */
export const dashboardPlugin: FastifyPluginCallback<DashboardOptions> = (fastify, given, done) => {
  const { prefix = '', ...options } = given as DashboardOptions & { prefix?: string };
  // A route without the slash at the end cannot be declared below a prefix with it.
  void fastify.register(mount, { ...options, prefix: prefix.replace(/\/+$/, '') });
  done();
};

/** Makes Fastify pass the prefix to the plugin, and not add it to the routes. */
Object.assign(dashboardPlugin, { [Symbol.for('skip-override')]: true });

/** Whether a hook runs before the page. An empty list authenticates nobody. */
const hasHook = (preHandler: DashboardOptions['preHandler']): boolean =>
  [preHandler].flat().some((hook) => typeof hook === 'function');

// eslint-disable-next-line @typescript-eslint/require-await -- Fastify reports errors of an async plugin from `ready`
const mount: FastifyPluginAsync<DashboardOptions> = async (fastify, options) => {
  const { preHandler, ...given } = options;
  const { prefix: _, ...own } = given as typeof given & { prefix?: string };
  const settings = compileOptions<FastifyRequest>(
    hasHook(preHandler) && own.auth === undefined ? { ...own, auth: 'upstream' } : own,
    CALLER,
  );
  const service = new Service(settings);
  fastify.addHook('onClose', () => service.close());
  // The dashboard reads bodies itself, as on other servers. The plugin's context is its own.
  fastify.removeAllContentTypeParsers();
  fastify.addContentTypeParser('*', (_request, _payload, parsed) => parsed(null));
  const handler = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const { '*': path = '' } = request.params as { readonly '*'?: string };
    const { status, headers, body } = await service.answer({
      request: await webRequest(request.raw, request.url, request.protocol === 'https'),
      // Not the URL without the prefix, whose parameters have other lengths.
      path: `/${path}`,
      // Not `request.ip`, which a client may set if Fastify trusts a proxy.
      ip: request.raw.socket.remoteAddress,
      operator: async () => settings.actions?.(request),
    });
    // By Fastify, so that cookies and fields of other plugins are sent, too. It ends the stream of a client that has left.
    reply.code(status);
    for (const [name, value] of headers) reply.header(name, value);
    return reply.send(body && Readable.fromWeb(body as never));
  };
  for (const url of fastify.prefix.replace(/\/$/, '') === '' ? ['/*'] : ['', '/*'])
    fastify.route({
      method: ['GET', 'HEAD', 'POST'],
      url,
      ...(preHandler && { preHandler }),
      handler,
    });
};

export default dashboardPlugin;
