// The limiters of a Nest app: one for each decorator, and the module's own.
import type { ExecutionContext, OnApplicationShutdown, OnModuleInit, Type } from '@nestjs/common';
import { Reflector, type ModulesContainer } from '@nestjs/core';
import { HeadgateError, invalidOption, show } from '../../../common/errors.js';
import { boolean, type OptionTable } from '../../../common/options.js';
import { checkShape } from '../../../common/validate.js';
import { compileWarnings, type Warn } from '../../../common/warnings.js';
import { hasQuota, HTTP_OPTIONS, type HttpOptions } from '../../options.js';
import { RouteLimiters as HttpLimiters } from '../../route-limiters.js';
import { framework, type NestFlow, type Response } from './context.js';

/**
 * The options of {@link RateLimit}. Functions receive the `ExecutionContext`, from which {@link requestOf} returns the request. A `handler`
 * also receives the response of Express or Fastify.
 */
export type RateLimitOptions<Tier extends string = string> = NestOptions<Tier> & {
  /** The name of the module's policy to replace. The module's remaining policies still apply. */
  replaces?: string | undefined;
};

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- the type of the response depends on the app
type NestOptions<Tier extends string = string> = HttpOptions<ExecutionContext, any, Tier>;

/** The options of {@link RateLimitModule}: its own quota, and the defaults for decorators. */
export type RateLimitModuleOptions<Tier extends string = string> = NestOptions<Tier> & {
  /** Whether the guard limits handlers without a decorator, by the module's quota. @default true */
  global?: boolean | undefined;
};

/** The rows of the options that only the module has. */
export const NEST_TABLE = {
  global: boolean(true),
} satisfies OptionTable<Pick<RateLimitModuleOptions, 'global'>>;

/** The metadata key for the options of a handler's or a class' limiters, or false. A string, because this module may be loaded twice. */
export const LIMITS = 'headgate:rate-limit';

/** The metadata key for the names of the module's policies that do not limit a handler or a class. */
export const SKIPPED = 'headgate:skipped';

/** The settings that a handler's or a class' decorators set. */
interface Settings {
  /** The options of the limiters, or false to limit nothing. */
  readonly limits: readonly RateLimitOptions[] | false;
  /** The names of the module's policies that are skipped. */
  readonly skipped: readonly string[];
}

function settingsOf(target: Type | Handler): Settings | undefined {
  const limits = reflector.get<Settings['limits'] | undefined>(LIMITS, target);
  const skipped = reflector.get<Settings['skipped'] | undefined>(SKIPPED, target);
  return limits === undefined && skipped === undefined
    ? undefined
    : { limits: limits ?? [], skipped: skipped ?? [] };
}

/** The metadata by which Nest recognises handlers: of a route, a resolver, a gateway, a microservice. */
const MARKS = ['path', 'graphql:resolver_type', 'websockets:message_mapping', 'microservices:pattern'];

type Handler = ReturnType<ExecutionContext['getHandler']>;

const reflector = new Reflector();

/** The limiters of an app, created when the app starts, so that mistakes are reported at the start. */
export class RateLimiters implements OnModuleInit, OnApplicationShutdown {
  /** The function for warnings, by the module's option `warnings`. */
  readonly warn: Warn;
  readonly #defaults: NestOptions;
  readonly #global: boolean;
  readonly #modules: ModulesContainer;
  readonly #limiters: HttpLimiters<ExecutionContext, Response>;
  /** The module's limiter without some of its policies, by the names of the missing policies. */
  readonly #parts = new Map<string, NestFlow>();
  readonly #found = new Map<Type, Map<unknown, readonly NestFlow[]>>();

  constructor(options: RateLimitModuleOptions, modules: ModulesContainer) {
    checkShape('RateLimitModule', options, [...HTTP_OPTIONS, 'global']);
    this.#global = NEST_TABLE.global.read('global', options.global);
    this.warn = compileWarnings(options.warnings);
    this.#defaults = options;
    this.#limiters = new HttpLimiters<ExecutionContext, Response>(framework, options);
    this.#modules = modules;
  }

  onModuleInit(): void {
    if (this.#global) void this.#limiters.own;
    for (const [type, method] of this.#methods()) {
      if (settingsOf(method) ?? settingsOf(type)) this.of(type, method);
    }
  }

  /** Whether there is a handler that the guard would limit. */
  hasWork(): boolean {
    return this.#methods().some(
      ([type, method]) =>
        MARKS.some((mark) => reflector.get(mark, method) !== undefined) && this.of(type, method).length > 0,
    );
  }

  #methods(): [Type, Handler][] {
    return [...this.#modules.values()]
      .flatMap(({ controllers, providers }) => [...controllers.values(), ...providers.values()])
      .flatMap(({ metatype }) =>
        Object.values(methodsOf(metatype as Type | null)).map((method): [Type, Handler] => [
          metatype as Type,
          method,
        ]),
      );
  }

  of(type: Type, handler: Handler): readonly NestFlow[] {
    const found = this.#found.get(type) ?? new Map<unknown, readonly NestFlow[]>();
    this.#found.set(type, found);
    let flows = found.get(handler);
    if (!flows) found.set(handler, (flows = this.#make(type, handler, found)));
    return flows;
  }

  #make(type: Type, handler: Handler, found: Map<unknown, readonly NestFlow[]>): readonly NestFlow[] {
    const own = settingsOf(handler);
    if (own) {
      const method = Object.entries(methodsOf(type)).find(([, each]) => each === handler)?.[0];
      return this.#flows(own, `${type.name}.${method ?? handler.name}`);
    }
    const shared = settingsOf(type);
    if (!shared) return this.#global ? [this.#limiters.own] : [];
    const flows = found.get(type) ?? this.#flows(shared, type.name);
    found.set(type, flows);
    return flows;
  }

  #flows({ limits, skipped }: Settings, name: string): readonly NestFlow[] {
    if (limits === false) return [];
    const omitted = [...skipped, ...limits.flatMap(({ replaces }) => replaces ?? [])];
    if (limits.length + omitted.length === 0) return [this.#limiters.own];
    const part = omitted.length === 0 ? [] : [this.#part(omitted, name)];
    const own = limits.map(({ replaces, ...options }, i) => {
      checkShape(`RateLimit of ${name}`, options, HTTP_OPTIONS);
      if (replaces !== undefined && !hasQuota(options))
        throw invalidOption('replaces', replaces, `Add a limit, or use @SkipRateLimit(${show(replaces)}).`);
      const defaultName = i === 0 ? name : `${name} #${i + 1}`;
      return this.#limiters.of(options, { defaultName }, () => this.#limiters.own.limiter);
    });
    return [...part, ...own];
  }

  /** Limits by the module's own quota without some of its policies. */
  #part(names: readonly string[], where: string): NestFlow {
    const omitted = new Set(names);
    const { limiter } = this.#limiters.own;
    const known = limiter.tiers.everything.policies.map((policy) => policy.name);
    const unknown = names.find((name) => !known.includes(name));
    if (unknown !== undefined && typeof this.#defaults.policies !== 'function') {
      throw new HeadgateError(
        'HEADGATE_UNKNOWN_POLICY',
        `${where}: the module has no policy named ${show(unknown)}. Its policies are: ${known.map(show).join(', ')}.`,
      );
    }
    const id = JSON.stringify([...omitted].sort());
    let flow = this.#parts.get(id);
    if (!flow) this.#parts.set(id, (flow = this.#limiters.without(omitted)));
    return flow;
  }

  async onApplicationShutdown(): Promise<void> {
    await this.#limiters.close();
  }
}

/** The methods of a class by name, inherited ones included. */
function methodsOf(type: Type | null): Record<string, Handler> {
  const methods: Record<string, Handler> = {};
  let prototype = (type as Partial<Type> | null)?.prototype as object | null | undefined;
  for (
    ;
    prototype && prototype !== Object.prototype;
    prototype = Object.getPrototypeOf(prototype) as object
  ) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(prototype)))
      if (typeof value === 'function' && name !== 'constructor') methods[name] ??= value as Handler;
  }
  return methods;
}
