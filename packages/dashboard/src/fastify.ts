/**
 * The dashboard for Fastify 5.
 *
 * @module
 */
import type {
  FastifyInstance,
  FastifyPluginCallback,
  FastifyReply,
  FastifyRequest,
  RouteShorthandOptions,
} from 'fastify';
import { send, webRequest } from './node.js';
import { compileOptions, type DashboardOptions as Options } from './options.js';
import { Service } from './service.js';

export type { Operator } from './options.js';

/** Options of {@link dashboardPlugin}. `prefix` is an option of Fastify. */
export interface DashboardOptions extends Options<FastifyRequest> {
  /** The hooks that authenticate visitors. With such a hook, `auth` is `'upstream'`. */
  preHandler?: RouteShorthandOptions['preHandler'];
}

/**
 * The live page as a plugin of Fastify 5.
 *
 * @example
 * await fastify.register(dashboardPlugin, { prefix: '/admin/limits', store, preHandler: requireAdmin, actions: (req) => ({ by: req.user.email }) })
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, and as `createAdmin`
 */
export const dashboardPlugin: FastifyPluginCallback<DashboardOptions> = (fastify, options, done) => {
  let error: Error | undefined;
  try {
    mount(fastify, options);
  } catch (thrown) {
    // Fastify reports errors of `done` from `ready`, and no error that a plugin throws.
    error = thrown as Error;
  }
  done(error);
};

function mount(fastify: FastifyInstance, options: DashboardOptions): void {
  const { preHandler, ...given } = options;
  const { prefix: _, ...own } = given as typeof given & { prefix?: string };
  const settings = compileOptions<FastifyRequest>(
    preHandler && own.auth === undefined ? { ...own, auth: 'upstream' } : own,
  );
  const service = new Service(settings);
  fastify.addHook('onClose', () => service.close());
  const base = fastify.prefix.replace(/\/$/, '');
  const handler = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const path = request.url.split('?')[0]!;
    const incoming = Object.assign(request.raw, { body: request.body });
    const response = await service.answer({
      request: await webRequest(incoming, request.url, request.protocol === 'https'),
      path: path.slice(base.length),
      // Not `request.ip`, which a client may set if Fastify trusts a proxy.
      ip: request.raw.socket.remoteAddress,
      operator: async () => settings.actions?.(request),
    });
    reply.hijack();
    send(response, reply.raw);
  };
  for (const url of base === '' ? ['/*'] : ['', '/*'])
    fastify.route({
      method: ['GET', 'HEAD', 'POST'],
      url,
      ...(preHandler && { preHandler }),
      handler,
    });
}

export default dashboardPlugin;
