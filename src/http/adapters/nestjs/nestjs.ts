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
  type OnApplicationBootstrap,
  type Type,
} from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import type { Decision } from '../../../common/decision.js';
import { HeadgateError } from '../../../common/errors.js';
import { optionsOf } from '../../../limiter/options.js';
import type { Outcome } from '../../framework.js';
import { PROBLEM_TYPE } from '../../problem.js';
import { decisionOf, problemOf, responseOf, sendAsItIs, type NestFlow, type Response } from './context.js';
import {
  LIMITS,
  RateLimiters,
  SKIPPED,
  type RateLimitModuleOptions,
  type RateLimitOptions,
} from './limiters.js';

export type { HeaderDialect } from '../../quota-fields.js';
export { requestOf } from './context.js';
export type { RateLimitModuleOptions, RateLimitOptions } from './limiters.js';

/**
 * The options of {@link RateLimitModule.forRootAsync}: `useFactory` with `inject`, or `useClass` or `useExisting` with a method `create`.
 */
export type RateLimitModuleAsyncOptions = ConfigurableModuleAsyncOptions<RateLimitModuleOptions>;

/** The error of a denied request: an `HttpException` with problem details. Filters may send another answer. */
export class RateLimitException extends HttpException {
  /** The decision that denied the request. */
  readonly decision: Decision;
  /** The problem details: JSON, in ASCII. `getResponse()` returns them as an object. */
  readonly body: string;
  /**
   * The extensions of the GraphQL error: `code`, always `'RATE_LIMITED'`, and, as in the decision, `policy` and `retryAfterMs`, ms. The last
   * is absent if no wait helps.
   */
  readonly extensions: Readonly<Record<string, unknown>>;

  constructor(decision: Decision, body: string) {
    const problem = JSON.parse(body) as { title: string; status: number };
    super(problem, problem.status);
    this.message = problem.title;
    this.decision = decision;
    this.body = body;
    const { policy, retryAfterMs } = decision;
    this.extensions = { code: 'RATE_LIMITED', policy, ...(retryAfterMs !== undefined && { retryAfterMs }) };
  }
}

/**
 * Answers denied requests exactly like the other adapters. Without this filter, Nest's default filter answers with the same problem details, on
 * Express as plain JSON with an ETag. If the app has a filter that catches everything, bind this filter to the controller to give it precedence.
 *
 * @example
 * providers: [{ provide: APP_FILTER, useClass: RateLimitFilter }]
 */
export class RateLimitFilter implements ExceptionFilter<RateLimitException> {
  /** Answers HTTP requests. Denials elsewhere remain exceptions. */
  catch(exception: RateLimitException, host: ArgumentsHost): void {
    if (host.getType() !== 'http') throw exception;
    const response = host.switchToHttp().getResponse<Response>();
    response.header('Content-Type', PROBLEM_TYPE);
    sendAsItIs(response, exception.body);
  }
}

/**
 * Limits a handler, or all handlers of a controller, resolver or gateway together. A handler's limiters replace the limiters of its class,
 * and a class' limiters replace the module's. Several limiters decide one after the other. The module's options are the defaults. Without
 * options, or without a quota, the module's own quota applies. The default `name` is the name of the class, followed by the handler's name
 * for a handler: `'Auth.login'`.
 *
 * @param limiters the options of each limiter, or the text of its single policy
 */
export function RateLimit<const Tier extends string = string>(
  ...limiters: [first?: RateLimitOptions<Tier> | string, ...others: (RateLimitOptions | string)[]]
): CustomDecorator {
  return SetMetadata(LIMITS, (limiters as (RateLimitOptions | string)[]).map(optionsOf));
}

/**
 * Excludes a handler from limiting, or all handlers of a class without own decorators.
 *
 * @param policies the names of the module's policies to skip; the module's remaining policies still limit. Default: every policy
 */
export function SkipRateLimit(...policies: string[]): CustomDecorator {
  return policies.length === 0 ? SetMetadata(LIMITS, false) : SetMetadata(SKIPPED, policies);
}

const OPTIONS = Symbol('headgate.nestjs.options');

class GuardCheck implements OnApplicationBootstrap {
  readonly #limiters: RateLimiters;
  readonly #modules: ModulesContainer;

  constructor(limiters: RateLimiters, modules: ModulesContainer) {
    this.#limiters = limiters;
    this.#modules = modules;
  }

  /** Checks the app when all guards are known. */
  onApplicationBootstrap(): void {
    if (this.#limiters.hasWork() && !this.#hasGuard())
      this.#limiters.warn('HEADGATE_GUARD_MISSING', GUARD_MISSING);
  }

  /** Whether there is a guard, possibly replaced by a test. */
  #hasGuard(): boolean {
    return [...this.#modules.values()].some(({ providers, injectables }) =>
      [...providers.values(), ...injectables.values()].some(
        ({ token, metatype }) => isGuard(token) || isGuard(metatype),
      ),
    );
  }
}

const GUARD_MISSING =
  'The app has RateLimitModule, but no RateLimitGuard, so nothing is limited. Write { provide: APP_GUARD, useClass: RateLimitGuard } ' +
  'among the providers of a module, or @UseGuards(RateLimitGuard) on the classes to limit.';

/** The exceptions that Nest sends to clients of gateways and microservices, by the type of the context, from packages that only those have. */
const exceptions: Readonly<Record<string, (problem: object) => Promise<Error>>> = {
  ws: async (problem) => new (await import('@nestjs/websockets')).WsException(problem),
  rpc: async (problem) => new (await import('@nestjs/microservices')).RpcException(problem),
};

/** Limits the handlers behind the guard: `{ provide: APP_GUARD, useClass: RateLimitGuard }` for all, or `@UseGuards(RateLimitGuard)`. */
export class RateLimitGuard implements CanActivate {
  readonly #limiters: RateLimiters;

  constructor(limiters: unknown) {
    this.#limiters = limiters as RateLimiters;
  }

  /**
   * Decides with all limiters of the handler.
   *
   * @throws RateLimitException if the request is denied, in a gateway a `WsException`, in a microservice an `RpcException`; otherwise the error of the limiter
   */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const response = responseOf(context);
    for (const flow of this.#limiters.of(context.getClass(), context.getHandler())) {
      if ((await this.#handle(flow, context, response)) === 'next') continue;
      const problem = problemOf(response, context);
      // A `handler` has answered, or the client has left, so Nest must not continue.
      if (!problem) return new Promise(() => {});
      // On Express, Nest 11 warns of every answer whose type is not plain JSON. The filter sends the text itself, and sets the type.
      if (!response.raw) response.removeHeader?.('Content-Type');
      const exceptionOf = exceptions[context.getType<string>()];
      if (!exceptionOf) throw new RateLimitException(decisionOf(context), problem);
      throw await exceptionOf(JSON.parse(problem) as object);
    }
    return true;
  }

  /** Runs one limiter. The fields of errors are set here, because Nest's exceptions have no header fields. */
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

/** Whether a type is this guard, or a subclass. */
function isGuard(type: unknown): boolean {
  return type === RateLimitGuard || (type as Partial<Type> | null)?.prototype instanceof RateLimitGuard;
}

/**
 * Creates the limiters of an app. {@link RateLimitGuard} uses them in all modules.
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
   * @param options the module's own quota (default 1,000 a minute), and the defaults for all limiters
   * @throws HeadgateError as `createLimiter`, when the app starts
   */
  static forRoot<const Tier extends string = string>(
    options: RateLimitModuleOptions<Tier> = {},
  ): DynamicModule {
    return complete(Configurable.forRoot(options));
  }

  /** Like `forRoot`, with options from other providers. */
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
  // The guard is not provided here, because a provided guard would seem to be in use even in an app without guards.
  const providers = [...(definition.providers ?? []), RateLimiters, GuardCheck];
  return { ...definition, module: RateLimitModule, global: true, providers, exports: [RateLimiters] };
}

// Equivalents of decorators.
Inject(OPTIONS)(RateLimiters, undefined, 0);
Inject(ModulesContainer)(RateLimiters, undefined, 1);
Injectable()(RateLimiters);
Inject(RateLimiters)(GuardCheck, undefined, 0);
Inject(ModulesContainer)(GuardCheck, undefined, 1);
Injectable()(GuardCheck);
Inject(RateLimiters)(RateLimitGuard, undefined, 0);
Injectable()(RateLimitGuard);
Catch(RateLimitException)(RateLimitFilter);
Module({})(RateLimitModule);
