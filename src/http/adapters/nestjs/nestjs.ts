import {
  Catch,
  ConfigurableModuleBuilder,
  HttpException,
  Inject,
  Injectable,
  Module,
  SetMetadata,
  type ArgumentsHost,
  type CanActivate,
  type ConfigurableModuleAsyncOptions,
  type CustomDecorator,
  type DynamicModule,
  type ExceptionFilter,
  type ExecutionContext,
  type OnApplicationShutdown,
  type OnModuleInit,
  type Type,
} from '@nestjs/common';
import { DiscoveryModule, DiscoveryService, Reflector } from '@nestjs/core';
import type { Decision } from '../../../common/decision.js';
import { HeadgateError } from '../../../common/errors.js';
import { Flow } from '../../flow.js';
import type { Outcome } from '../../framework.js';
import { bringsLimiter, HTTP_OPTIONS, withDefaults, type HttpOptions } from '../../options.js';
import { compileOptions } from '../../compile-options.js';
import type { Limiter } from '../../../limiter/limiter.js';
import {
  decisionOf,
  framework,
  problemOf,
  responseOf,
  sendAsItIs,
  type NestFlow,
  type Response,
} from './context.js';
import { checkBoolean, checkShape } from '../../../common/validate.js';

export type { HeaderDialect } from '../../headers.js';
export { requestOf } from './context.js';

/**
 * What {@link RateLimit} takes. Functions get the `ExecutionContext`: {@link requestOf} is its request. A `handler` gets the response of
 * Express or Fastify, too.
 */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- whose response it is, only the app knows
export type RateLimitOptions = HttpOptions<ExecutionContext, any>;

/** What {@link RateLimitModule} takes: its own quota, and the defaults of what is decorated. */
export type RateLimitModuleOptions = RateLimitOptions & {
  /** Whether the guard limits handlers without a decorator, by the module's own quota. Default `true`. */
  global?: boolean;
};

/** What {@link RateLimitModule.forRootAsync} takes: `useFactory` with `inject`, or `useClass` or `useExisting` with a method `create`. */
export type RateLimitModuleAsyncOptions = ConfigurableModuleAsyncOptions<RateLimitModuleOptions>;

/** What a denied request fails with: an `HttpException` with problem details, which filters may answer otherwise. */
export class RateLimitException extends HttpException {
  /** The one that denied. */
  readonly decision: Decision;
  /** The problem details: JSON, in ASCII. `getResponse()` has them as an object. */
  readonly body: string;

  constructor(decision: Decision, body: string) {
    const problem = JSON.parse(body) as { title: string; status: number };
    super(problem, problem.status);
    this.message = problem.title;
    this.decision = decision;
    this.body = body;
  }
}

/**
 * Answers denied requests as the other adapters do, byte for byte. Without it Nest's own filter answers with the same problem details, and
 * Express adds an ETag. A filter of the app that catches everything takes its place if it is bound to the controller.
 *
 * @example
 * providers: [{ provide: APP_FILTER, useClass: RateLimitFilter }]
 */
export class RateLimitFilter implements ExceptionFilter<RateLimitException> {
  /** Answers a request of HTTP; what is denied elsewhere stays an exception. */
  catch(exception: RateLimitException, host: ArgumentsHost): void {
    if (host.getType() !== 'http') throw exception;
    const response = host.switchToHttp().getResponse<Response>();
    sendAsItIs(response, exception.body);
  }
}

/** What is kept at a handler or class: the options of its limiters, or false. A string, as there may be two copies of this module. */
const LIMITS = 'headgate:rate-limit';

/**
 * Limits a handler, or all handlers of a controller, resolver or gateway together. A handler's own limiters take the place of its class', and a
 * class' that of the module's. Several are decided one after the other. What is left out is as the module has it; without options, or
 * without a quota, it is the module's own quota. The default `name` is the class', with the handler's if that is decorated: `'Auth.login'`.
 */
export function RateLimit(...limiters: RateLimitOptions[]): CustomDecorator {
  return SetMetadata(LIMITS, limiters);
}

/** Does not limit a handler, or the handlers of a class that have no {@link RateLimit} of their own. */
export function SkipRateLimit(): CustomDecorator {
  return SetMetadata(LIMITS, false);
}

/** What Nest gives as a handler. */
type Handler = ReturnType<ExecutionContext['getHandler']>;

const OPTIONS = Symbol('headgate.nestjs.options');
const reflector = new Reflector();

/** All limiters of an app. They are made when it starts, so that mistakes are told then. */
class RateLimiters implements OnModuleInit, OnApplicationShutdown {
  readonly #defaults: RateLimitOptions;
  readonly #global: boolean;
  readonly #discovery: DiscoveryService;
  readonly #all: NestFlow[] = [];
  #own: NestFlow | undefined;
  /** Those of a class, and of its handlers. */
  readonly #found = new Map<Type, Map<unknown, readonly NestFlow[]>>();

  constructor(options: RateLimitModuleOptions, discovery: DiscoveryService) {
    checkShape('RateLimitModule', options, [...HTTP_OPTIONS, 'global']);
    const { global, ...defaults } = options;
    this.#global = checkBoolean('global', global, true);
    this.#defaults = defaults as RateLimitOptions;
    this.#discovery = discovery;
  }

  onModuleInit(): void {
    if (this.#global) this.#ownFlow();
    for (const { metatype } of [...this.#discovery.getControllers(), ...this.#discovery.getProviders()]) {
      const type = metatype as Type | null;
      for (const handler of Object.values(methodsOf(type))) {
        if (reflector.getAllAndOverride(LIMITS, [handler, type!]) !== undefined) this.of(type!, handler);
      }
    }
  }

  /** The limiters of a handler. */
  of(type: Type, handler: Handler): readonly NestFlow[] {
    const found = this.#found.get(type) ?? new Map<unknown, readonly NestFlow[]>();
    this.#found.set(type, found);
    let flows = found.get(handler);
    if (!flows) found.set(handler, (flows = this.#make(type, handler, found)));
    return flows;
  }

  #make(type: Type, handler: Handler, found: Map<unknown, readonly NestFlow[]>): readonly NestFlow[] {
    const own = reflector.get<RateLimitOptions[] | false | undefined>(LIMITS, handler);
    if (own !== undefined) {
      const method = Object.entries(methodsOf(type)).find(([, each]) => each === handler)?.[0];
      return this.#flows(own, `${type.name}.${method ?? handler.name}`);
    }
    const shared = reflector.get<RateLimitOptions[] | false | undefined>(LIMITS, type);
    if (shared === undefined) return this.#global ? [this.#ownFlow()] : [];
    const flows = found.get(type) ?? this.#flows(shared, type.name);
    found.set(type, flows);
    return flows;
  }

  #flows(settings: RateLimitOptions[] | false, name: string): readonly NestFlow[] {
    if (settings === false) return [];
    if (settings.length === 0) return [this.#ownFlow()];
    return settings.map((options, i) => {
      checkShape(`RateLimit of ${name}`, options, HTTP_OPTIONS);
      const defaultName = i === 0 ? name : `${name} #${i + 1}`;
      const shared = bringsLimiter(options) ? undefined : this.#ownFlow().limiter;
      return this.#add(withDefaults(options, this.#defaults), defaultName, shared);
    });
  }

  /** By the module's own quota. */
  #ownFlow(): NestFlow {
    return (this.#own ??= this.#add(this.#defaults, 'global'));
  }

  #add(options: RateLimitOptions, defaultName: string, shared?: Limiter): NestFlow {
    const compiled = compileOptions<ExecutionContext, Response>(options, { defaultName }, shared);
    const flow = new Flow(framework, compiled);
    this.#all.push(flow);
    return flow;
  }

  async onApplicationShutdown(): Promise<void> {
    await Promise.all(this.#all.map((flow) => flow.close()));
  }
}

/** The methods of a class by name, those that it inherits, too. */
function methodsOf(type: Type | null): Record<string, Handler> {
  const methods: Record<string, Handler> = {};
  let prototype = (type as Partial<Type> | null)?.prototype as object | null | undefined;
  for (
    ;
    prototype && prototype !== Object.prototype;
    prototype = Object.getPrototypeOf(prototype) as object
  ) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(prototype)))
      if (typeof value === 'function') methods[name] ??= value as Handler;
  }
  return methods;
}

/** Limits what it guards: `{ provide: APP_GUARD, useClass: RateLimitGuard }` for all, or `@UseGuards(RateLimitGuard)`. */
export class RateLimitGuard implements CanActivate {
  readonly #limiters: RateLimiters;

  constructor(limiters: unknown) {
    this.#limiters = limiters as RateLimiters;
  }

  /** Decides by all limiters of the handler. @throws RateLimitException if the request is denied, a `WsException` in a gateway; else what the request fails with */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const response = responseOf(context);
    for (const flow of this.#limiters.of(context.getClass(), context.getHandler())) {
      if ((await this.#handle(flow, context, response)) === 'next') continue;
      const problem = problemOf(response);
      // A `handler` has answered, or the client has left: nothing more is to happen.
      if (!problem) return new Promise(() => {});
      if (context.getType() !== 'ws') throw new RateLimitException(decisionOf(context), problem);
      const { WsException } = await import('@nestjs/websockets');
      throw new WsException(JSON.parse(problem) as object);
    }
    return true;
  }

  /** Nest knows no header fields of errors. */
  async #handle(flow: NestFlow, context: ExecutionContext, response: Response): Promise<Outcome> {
    try {
      return await flow.handle(context, response);
    } catch (error) {
      const { headers = {} } = error as { headers?: Readonly<Record<string, string>> };
      if (error instanceof HeadgateError)
        for (const [name, value] of Object.entries(headers)) response.header(name, value);
      throw error;
    }
  }
}

/**
 * Brings {@link RateLimitGuard} to all modules of an app.
 *
 * @example
 * \@Module({
 *   imports: [RateLimitModule.forRoot({ store: redisStore(redis), limit: 100, window: '1m' })],
 *   providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }],
 * })
 * export class AppModule {}
 */
export class RateLimitModule {
  /**
   * @param options the module's own quota (default 1,000 a minute), and the defaults of all limiters
   * @throws HeadgateError as `createLimiter`, when the app starts
   */
  static forRoot(options: RateLimitModuleOptions = {}): DynamicModule {
    return complete(Configurable.forRoot(options));
  }

  /** As `forRoot`, with options that other providers make. */
  static forRootAsync(options: RateLimitModuleAsyncOptions): DynamicModule {
    return complete(Configurable.forRootAsync(options));
  }
}

const { ConfigurableModuleClass: Configurable } = new ConfigurableModuleBuilder<RateLimitModuleOptions>({
  optionsInjectionToken: OPTIONS,
})
  .setClassMethodName('forRoot')
  .build();

function complete(definition: DynamicModule): DynamicModule {
  const providers = [...(definition.providers ?? []), RateLimiters, RateLimitGuard];
  return {
    ...definition,
    module: RateLimitModule,
    global: true,
    providers,
    exports: [RateLimiters, RateLimitGuard],
  };
}

// As decorators would do, without their syntax.
Inject(OPTIONS)(RateLimiters, undefined, 0);
Inject(DiscoveryService)(RateLimiters, undefined, 1);
Injectable()(RateLimiters);
Inject(RateLimiters)(RateLimitGuard, undefined, 0);
Injectable()(RateLimitGuard);
Catch(RateLimitException)(RateLimitFilter);
Module({ imports: [DiscoveryModule] })(RateLimitModule);
