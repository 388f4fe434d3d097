import type {
  ContextConfigDefault,
  FastifyInstance,
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  FastifySchema,
  onRequestHookHandler,
  preParsingHookHandler,
  RouteGenericInterface,
} from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { Decision } from '../../common/decision.js';
import { HeadgateError, invalidOption, withoutPage } from '../../common/errors.js';
import { boolean, choice, readOptions, type OptionTable } from '../../common/options.js';
import type { Flow } from '../flow.js';
import { fastifyProxy } from './proxies.js';
import type { Framework, Next, Trail } from '../framework.js';
import { FIELDS } from '../quota-fields.js';
import { nodeResponse } from '../node-response.js';
import { hasQuota, HTTP_OPTIONS, type HttpOptions } from '../options.js';
import type { HttpAssembly } from '../compile-options.js';
import { RouteLimiters } from '../route-limiters.js';
import { addHook, HOOKS, type RouteRateLimitConfig } from './route-config.js';
import { routeName, type Route } from './route-name.js';
import { checkOptions } from '../../limiter/create-limiter.js';
import { optionsOf, type Spread } from '../../limiter/options.js';
import type { Limiter } from '../../limiter/limiter.js';
import { watchForRoutes } from './missing-plugin.js';
import type { PolicyText } from '../../contract/policy.js';

export type { HeaderDialect } from '../quota-fields.js';

/** The hook that limits a request. A key from the body needs `preHandler`. */
export type RateLimitHook = (typeof HOOKS)[number];

/** The options of a route's `config.rateLimit` and of `fastify.rateLimit`. The plugin's options are the defaults. */
export type RateLimitOptions<Tier extends string = string> = HttpOptions<
  FastifyRequest,
  FastifyReply,
  Tier
> & {
  /** The hook that limits the request. @default 'onRequest' */
  hook?: RateLimitHook | undefined;
};

/** The options of the plugin: its own quota, and the defaults for the limiters of routes. */
export type RateLimitPluginOptions = RateLimitOptions & {
  /** Whether to limit this context's 404s, and its routes without a `config.rateLimit`. @default true */
  global?: boolean | undefined;
};

/** The rows of the options that only this plugin has. */
export const FASTIFY_TABLE = {
  hook: choice(HOOKS, 'onRequest'),
  global: boolean(true),
} satisfies OptionTable<Pick<RateLimitPluginOptions, 'hook' | 'global'>>;

declare module 'fastify' {
  interface FastifyRequest {
    /** The decision of the last limiter that the request passed. */
    rateLimit?: Decision;
  }
  interface RouteRateLimits {
    /** Limiters of the route in place of the plugin's quota: options, the text of a policy, or a list of options and texts. */
    headgate: RouteLimits;
  }
  // eslint-disable-next-line @typescript-eslint/no-empty-object-type -- this extends an interface that is declared elsewhere
  interface FastifyContextConfig extends RouteRateLimitConfig {}
  interface FastifyInstance<RawServer, RawRequest, RawReply, Logger, TypeProvider> {
    /**
     * Creates a hook that limits requests. Without options the hook uses the plugin's own quota. `limiter` is the hook's limiter:
     * `fastify.rateLimit().limiter.reset(key)`.
     */
    rateLimit<Given = never, const Tier extends string = string>(
      options?: RateLimitOptions<Tier> | Spread<RateLimitOptions, Given> | PolicyText,
    ): onRequestHookHandler<
      RawServer,
      RawRequest,
      RawReply,
      RouteGenericInterface,
      ContextConfigDefault,
      FastifySchema,
      TypeProvider,
      Logger
    > & { readonly limiter: Limiter };
  }
}

/** Options, or the text of a single policy. */
type Limits = RateLimitOptions | string;
type RouteLimits = Limits | readonly Limits[];
type FastifyFlow = Flow<FastifyRequest, FastifyReply>;

/** The names of the fields in lower case, as Fastify writes names. The names are converted once, because every response has the fields. */
const LOWER_CASE = Object.fromEntries(FIELDS.map((name) => [name, name.toLowerCase()]));

/** The property for a request's trail. Fastify declares the property in advance, because adding it later is slow in V8. */
const TRAIL = Symbol('headgate.trail');

interface Limited extends FastifyRequest {
  [TRAIL]?: Trail;
}

const framework: Framework<FastifyRequest, FastifyReply> = {
  handlerSignature: 'handler(request, reply, decision)',
  ip: (request) => request.ip,
  proxy: fastifyProxy,
  getHeader: (reply, name) => reply.getHeader(name),
  setHeader: (reply, name, value) => void reply.header(LOWER_CASE[name] ?? name, value),
  headersSent: (reply) => reply.raw.headersSent,
  getStatus: (reply) => reply.raw.statusCode,
  setStatus: (reply, status) => void reply.code(status),
  // Fastify changes the type of a reply unless the reply has its own serializer.
  send: (reply, body) => void reply.serializer(String).send(body),
  isOpen: (reply) => nodeResponse.isOpen(reply.raw),
  cut: (reply) => nodeResponse.cut(reply.raw),
  hasEnded: (reply) => nodeResponse.hasEnded(reply.raw),
  hasLeft: (reply) => nodeResponse.hasLeft(reply.raw),
  onEnd: (reply, ended) => nodeResponse.onEnd(reply.raw, ended),
  trail: (request: Limited) => request[TRAIL],
  keep: (request: Limited, trail) => {
    request.rateLimit = trail.decision;
    request[TRAIL] = trail;
  },
};

/** The innermost plugin of a context. It limits the context's routes. */
const PLUGIN = Symbol('headgate.plugin');

/** The limiters of a route that run in the plugin's hook. Absent if the route was declared before the plugin was loaded. */
const FLOWS = Symbol('headgate.flows');

interface RouteConfig {
  rateLimit?: RouteLimits | false;
  [FLOWS]?: readonly FastifyFlow[];
}

/** A limiter of a route, with the hook that runs the limiter. */
interface RouteFlow {
  readonly hook: RateLimitHook;
  readonly flow: FastifyFlow;
}

/** A registration of the plugin, with a quota and the limiters of routes. */
class Plugin {
  readonly hook: RateLimitHook;
  /** Limits by the plugin's own quota. `undefined` if the plugin has no quota. */
  readonly own: FastifyFlow | undefined;
  readonly #limiters: RouteLimiters<FastifyRequest, FastifyReply>;
  /** The limiters by the route's name, so that HEAD and GET of a route share a quota. */
  readonly #routes = new Map<string, { settings: RouteLimits; flows: readonly RouteFlow[] }>();

  constructor(options: RateLimitOptions, hook: RateLimitHook, global: boolean) {
    this.hook = hook;
    this.#limiters = new RouteLimiters(framework, options);
    if (global || hasQuota(options)) this.own = this.#limiters.own;
  }

  /** Creates a limiter from these options, with the plugin's options as defaults. Options without a quota use the plugin's own. */
  flow(what: string, given: Limits, assembly: HttpAssembly = {}): RouteFlow {
    const options = optionsOf(given);
    checkOptions(what, options, [...HTTP_OPTIONS, 'hook']);
    const hook = options.hook === undefined ? this.hook : FASTIFY_TABLE.hook.read('hook', options.hook);
    return { hook, flow: this.#limiters.of(options, assembly, () => this.own?.limiter) };
  }

  flowsOf(route: Route, settings: RouteLimits): readonly RouteFlow[] {
    const name = routeName(route);
    const known = this.#routes.get(name);
    if (known?.settings === settings) return known.flows;
    const what = `config.rateLimit of ${name}`;
    const list = [settings].flat();
    if (list.length === 0) throw invalidOption(what, settings, 'Pass options, a list of options, or false.');
    const flows = list.map((options: Limits, i) => {
      const defaultName = i === 0 ? name : `${name} #${i + 1}`;
      try {
        return this.flow(what, options, { defaultName });
      } catch (error) {
        throw located(what, error);
      }
    });
    this.#routes.set(name, { settings, flows });
    return flows;
  }

  close(): Promise<void> {
    return this.#limiters.close();
  }
}

function located(what: string, error: unknown): unknown {
  if (!(error instanceof HeadgateError) || error.message.startsWith(what)) return error;
  return new HeadgateError(error.code, `${what}: ${withoutPage(error.message)}`, { cause: error });
}

type Hook = (request: FastifyRequest, reply: FastifyReply, done: Next) => void;

/** The hook `preParsing` also receives the payload. */
function hookFor(name: RateLimitHook, hook: Hook): onRequestHookHandler {
  if (name !== 'preParsing') return hook as onRequestHookHandler;
  const parsing = function (this: unknown, ...[request, reply, , done]: Parameters<preParsingHookHandler>) {
    hook.call(this, request, reply, done as Next);
  };
  return parsing as unknown as onRequestHookHandler;
}

function run(flows: readonly FastifyFlow[], request: FastifyRequest, reply: FastifyReply, done: Next): void {
  const [flow, ...others] = flows;
  if (!flow) return done();
  flow.run(request, reply, (error) => (error ? done(error) : run(others, request, reply, done)));
}

/** The limiters of a route that was declared before the plugin was loaded. Fastify accepts no more hooks for such a route. */
function lateFlows(plugin: Plugin, route: Route, settings: RouteLimits): FastifyFlow[] {
  return plugin.flowsOf(route, settings).map(({ hook, flow }) => {
    if (hook === plugin.hook) return flow;
    throw invalidOption(
      'hook',
      hook,
      `The route ${routeName(route)} was declared before the plugin was loaded. Call \`await fastify.register(rateLimitPlugin, ...)\` before the route.`,
    );
  });
}

// eslint-disable-next-line @typescript-eslint/require-await -- an error in an async plugin ends the registration
const register: FastifyPluginAsync<RateLimitPluginOptions> = async (fastify, options) => {
  if (typeof (fastify as Partial<FastifyInstance>)?.addHook !== 'function') {
    const fix = "For Express write app.use(rateLimit()), and import rateLimit from 'headgate/express'.";
    throw new HeadgateError('HEADGATE_INVALID_ARGUMENT', `rateLimitPlugin is a plugin of Fastify. ${fix}`);
  }
  checkOptions('rateLimitPlugin', options, [...HTTP_OPTIONS, ...Object.keys(FASTIFY_TABLE)]);
  const { hook, global } = readOptions(FASTIFY_TABLE, options);
  const plugin = new Plugin(options, hook, global);

  for (const property of ['rateLimit', TRAIL] as const) {
    if (!fastify.hasRequestDecorator(property)) fastify.decorateRequest(property, undefined);
  }
  if (!Object.hasOwn(fastify, PLUGIN)) {
    fastify.decorate(PLUGIN, plugin);
    // The name is passed as a plain string, because otherwise the property has two types if another adapter declares it, too.
    fastify.decorate('rateLimit' as string, (limits?: Limits) => {
      const flow = limits === undefined ? plugin.own : plugin.flow('fastify.rateLimit', limits).flow;
      if (!flow)
        throw invalidOption(
          'policy.limit',
          limits,
          'The plugin has no quota. Pass a quota to fastify.rateLimit.',
        );
      if (limits !== undefined) flow.made();
      // The hook preParsing also receives the payload. The last argument of each hook is the callback that continues.
      const hook = (request: FastifyRequest, reply: FastifyReply, ...rest: unknown[]): void =>
        flow.run(request, reply, rest.at(-1) as Next);
      return Object.assign(hook as onRequestHookHandler, { limiter: flow.limiter });
    });
  }

  fastify.addHook('onRoute', function (route) {
    const { config } = route as { config?: RouteConfig };
    const settings = config?.rateLimit;
    if (settings === undefined || settings === false || innermost(this) !== plugin) return;
    const flows = plugin.flowsOf(route, settings);
    for (const { hook, flow } of flows) {
      const limit: Hook = (request, reply, next) => flow.run(request, reply, next);
      if (hook !== plugin.hook) addHook(route, hook, hookFor(hook, limit));
    }
    const now = flows.filter(({ hook }) => hook === plugin.hook).map(({ flow }) => flow);
    (route as { config?: RouteConfig }).config = { ...config, [FLOWS]: now };
  });

  // A hook of the context runs in the order of registration, and for 404s, too.
  const limit: Hook = function (this: FastifyInstance, request, reply, next) {
    const config = request.routeOptions.config as RouteConfig & Route;
    const { rateLimit: settings, [FLOWS]: flows } = config;
    if (settings === undefined) return global ? plugin.own!.run(request, reply, next) : next();
    if (settings === false || innermost(this) !== plugin) return next();
    if (flows)
      return flows.length === 1 ? flows[0]!.run(request, reply, next) : run(flows, request, reply, next);
    const { prefixTrailingSlash } = request.routeOptions;
    config[FLOWS] = lateFlows(plugin, { ...config, prefix: this.prefix, prefixTrailingSlash }, settings);
    run(config[FLOWS], request, reply, next);
  };
  fastify.addHook(plugin.hook as 'onRequest', hookFor(plugin.hook, limit));
  fastify.addHook('onClose', () => plugin.close());
};

watchForRoutes((context) => innermost(context as FastifyInstance) !== undefined);

function innermost(fastify: FastifyInstance): Plugin | undefined {
  return (fastify as { [PLUGIN]?: Plugin })[PLUGIN];
}

/**
 * The plugin for Fastify 5. It limits the context that registers it: all routes, declared before or after; child contexts; and 404s. A
 * route's `config.rateLimit` replaces the plugin's quota. Without a limit: 1,000 requests a minute per client address.
 *
 * @example
 * await fastify.register(rateLimitPlugin, { store, limit: 100, window: '1m' })
 * fastify.get('/search', { config: { rateLimit: '5/10s' } }, search)
 * fastify.get('/health', { config: { rateLimit: false } }, health)
 *
 * @throws HeadgateError as `createLimiter`. A request fails with `HEADGATE_NO_CLIENT_IP`, `HEADGATE_INVALID_KEY`, `HEADGATE_INVALID_COST`,
 * the error of a callback, or the store's error under `onStoreError: 'throw'`
 */
export const rateLimitPlugin = fastifyPlugin(register, { fastify: '5.x', name: 'headgate' });

export default rateLimitPlugin;
