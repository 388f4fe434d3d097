import type {
  ContextConfigDefault,
  FastifyPluginAsync,
  FastifyRequest,
  FastifySchema,
  preHandlerAsyncHookHandler,
  RouteGenericInterface,
  RouteOptions,
} from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { HeadgateError } from '../../common/errors.js';
import { oncePer } from '../../common/lazy.js';
import { addHook, type RouteRateLimitConfig } from '../../http/adapters/route-config.js';
import { routeName } from '../../http/adapters/route-name.js';
import { memoryStore } from '../../stores/memory/memory.js';
import { redisStore } from '../../stores/redis/redis.js';
import type { Store } from '../../contract/store.js';
import { LimiterCounter, StoreCounter, type Counter, type Penalty } from './counter.js';
import { Limit } from './limit.js';
import { normalizeIP } from './normalize-ip.js';
import { compileParams, type Params } from './params.js';
import type {
  CreateRateLimitOptions,
  FastifyRateLimitStore,
  RateLimitOptions,
  RateLimitPluginOptions,
  RateLimitResult,
} from './types.js';

export { normalizeIP };
export type {
  Count,
  CreateRateLimitOptions,
  errorResponseBuilderContext,
  FastifyRateLimitOptions,
  FastifyRateLimitStore,
  FastifyRateLimitStoreCtor,
  QuotaField,
  RateLimitHook,
  RateLimitOptions,
  RateLimitPluginOptions,
  RateLimitResult,
} from './types.js';

declare module 'fastify' {
  interface RouteRateLimits {
    /** The limit of this route, by the options of @fastify/rate-limit. */
    compat: RateLimitOptions;
  }
  // eslint-disable-next-line @typescript-eslint/no-empty-object-type -- this extends an interface that is declared elsewhere
  interface FastifyContextConfig extends RouteRateLimitConfig {}
  interface FastifyInstance<RawServer, RawRequest, RawReply, Logger, TypeProvider> {
    /** Creates a function that counts a request, or only reads the count, and returns the result without answering. */
    createRateLimit(
      options?: CreateRateLimitOptions,
    ): (req: FastifyRequest, callOptions?: { increment?: boolean }) => Promise<RateLimitResult>;
    /** Creates a hook that limits requests. Without options the hook uses the plugin's own limit. */
    rateLimit<
      RouteGeneric extends RouteGenericInterface = RouteGenericInterface,
      ContextConfig = ContextConfigDefault,
      SchemaCompiler extends FastifySchema = FastifySchema,
    >(
      options?: RateLimitOptions,
    ): preHandlerAsyncHookHandler<
      RawServer,
      RawRequest,
      RawReply,
      RouteGeneric,
      ContextConfig,
      SchemaCompiler,
      TypeProvider,
      Logger
    >;
  }
}

/** The number of registrations per application. All processes of an application register equally often. */
const registrations = oncePer((_: object) => ({ count: 0 }));

/** The prefix of the names of further registrations, so that each counts separately on one Redis. */
function scopeOf(server: object): string {
  const count = ++registrations(server).count;
  return count === 1 ? '' : `${count}: `;
}

/** The options of a route or of a decorator's call, or the plugin's own. */
type Settings = RateLimitOptions | CreateRateLimitOptions;

/** A registration of the plugin, with a limit and the state shared by its limits. */
class Plugin {
  readonly own: Limit;
  readonly #options: RateLimitPluginOptions;
  /** The common store of the limiters, or `undefined` if each limiter has a memory store. */
  readonly #redis: Store | undefined;
  /** The user's custom store, whose children count for routes. */
  readonly #store: FastifyRateLimitStore | undefined;
  readonly #scope: string;
  /** Limits by route name, so that HEAD and GET of a route share a count. */
  readonly #routes = new Map<string, { settings: Settings; limit: Limit }>();
  readonly #groups = new Map<string, Counter>();
  readonly #counters: Counter[] = [];
  /** The number of limits created by calls. All processes of a program create the limits in the same order. */
  #unnamed = 0;

  constructor(options: RateLimitPluginOptions, scope: string) {
    const { redis, nameSpace = 'fastify-rate-limit-', store: Store } = options;
    // Only routes can belong to a group.
    const params = { ...compileParams(options), groupId: undefined };
    this.#options = { ...options };
    delete this.#options.groupId;
    this.#scope = scope;
    if (Store) this.#store = new Store({ ...params, global: options.global !== false });
    // Local denials are off, because a test that empties Redis expects all counts to be gone.
    else if (redis) this.#redis = redisStore(redis, { prefix: nameSpace, localDenials: false });
    const make = (): Counter =>
      this.#store ? new StoreCounter(this.#store, params.groupId) : this.#limiterCounter('global', params);
    this.own = new Limit(params, this.#counter(params, make));
  }

  ofRoute(route: RouteOptions & { path: string }, settings: Settings): Limit {
    const name = routeName(route);
    const known = this.#routes.get(name);
    if (known?.settings === settings) return known.limit;
    const limit = this.#limit(name, settings, route);
    this.#routes.set(name, { settings, limit });
    return limit;
  }

  ofCall(settings: Settings | undefined): Limit {
    if (typeof settings !== 'object') return this.own;
    return this.#limit(`#${++this.#unnamed}`, settings, {});
  }

  async close(): Promise<void> {
    await Promise.all(this.#counters.map((counter) => counter.close()));
  }

  #limit(name: string, settings: Settings, routeInfo: object): Limit {
    const { store: Store } = settings;
    const params = compileParams({ ...this.#options, ...settings });
    const make = (): Counter => {
      if (!Store && !this.#store) return this.#limiterCounter(name, params);
      // A store may have its own options.
      const info = { global: this.#options.global !== false, ...settings, ...params, routeInfo };
      const store = Store
        ? new Store(info)
        : this.#store!.child(info as unknown as Parameters<FastifyRateLimitStore['child']>[0]);
      return new StoreCounter(store, params.groupId);
    };
    return new Limit(params, this.#counter(params, make));
  }

  /** Returns a new counter, or the counter of the group. */
  #counter({ groupId }: Params, make: () => Counter): Counter {
    let counter = groupId === undefined ? undefined : this.#groups.get(groupId);
    if (counter) return counter;
    counter = make();
    this.#counters.push(counter);
    if (groupId !== undefined) this.#groups.set(groupId, counter);
    return counter;
  }

  #limiterCounter(name: string, params: Params): Counter {
    const { groupId, cache } = params;
    const store = this.#redis ?? inMemory(cache);
    const scoped = this.#scope + (groupId === undefined ? name : `group ${groupId}`);
    return new LimiterCounter(scoped, store, penaltyOf(params));
  }
}

function inMemory(cache: number | undefined): Store {
  // `Date.now` is looked up each time, because tests replace it.
  const clock = (): number => Date.now();
  return memoryStore(cache === undefined ? { clock } : { clock, maxKeys: Math.max(100, cache) });
}

function penaltyOf({ continueExceeding, exponentialBackoff }: Params): Penalty | undefined {
  if (continueExceeding) return 'renew';
  return exponentialBackoff ? 'double' : undefined;
}

// eslint-disable-next-line @typescript-eslint/require-await -- an error in an async plugin ends the registration
const register: FastifyPluginAsync<RateLimitPluginOptions> = async (fastify, options) => {
  const plugin = new Plugin(options, scopeOf(fastify.server));
  const global = options.global !== false;

  if (!fastify.hasDecorator('createRateLimit')) {
    fastify.decorate('createRateLimit', (settings?: CreateRateLimitOptions) => {
      const limit = plugin.ofCall(settings).readable();
      return (req: FastifyRequest, call?: { increment?: boolean }) =>
        limit.check(req, call?.increment !== false);
    });
  }
  if (!fastify.hasDecorator('rateLimit')) {
    fastify.decorate('rateLimit' as string, (settings?: RateLimitOptions) => plugin.ofCall(settings).handle);
  }

  fastify.addHook('onRoute', (route) => {
    const settings: unknown = route.config?.rateLimit;
    if (settings === undefined || settings === null) {
      if (global) addHook(route, plugin.own.hook, plugin.own.handle);
    } else if (typeof settings === 'object') {
      const { hook, handle } = plugin.ofRoute(route, settings);
      addHook(route, hook, handle);
    } else if (settings !== false) {
      throw new HeadgateError('HEADGATE_INVALID_OPTION', 'Unknown value for route rate-limit configuration');
    }
  });
  fastify.addHook('onClose', () => plugin.close());
};

/**
 * The plugin of @fastify/rate-limit 11 on Headgate, with the same options, headers, hooks and answers, so that only the import changes.
 * https://github.com/headgate/headgate/blob/main/docs/migrating/fastify-rate-limit.md lists the differences.
 *
 * @example
 * await fastify.register(fastifyRateLimit, { max: 100, timeWindow: '1 minute', redis })
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`
 */
export const fastifyRateLimit = Object.assign(
  fastifyPlugin(register, { fastify: '5.x', name: '@fastify/rate-limit' }),
  { normalizeIP },
);

export default fastifyRateLimit;
