// The limiters of a Nest app: one for each decorator, and the module's own.
import type { ExecutionContext, OnApplicationShutdown, OnModuleInit, Type } from '@nestjs/common';
import { Reflector, type ModulesContainer } from '@nestjs/core';
import { checkBoolean, checkShape } from '../../../common/validate.js';
import { compileWarnings, type Warn } from '../../../common/warnings.js';
import type { Limiter } from '../../../limiter/limiter.js';
import { memoryStore } from '../../../stores/memory/memory.js';
import { compileOptions, type HttpAssembly } from '../../compile-options.js';
import { Flow } from '../../flow.js';
import {
  bringsLimiter,
  FOR_ROUTES,
  HTTP_OPTIONS,
  namesOfDefaults,
  withDefaults,
  type HttpOptions,
} from '../../options.js';
import { framework, type NestFlow, type Response } from './context.js';

/**
 * The options of {@link RateLimit}. Functions receive the `ExecutionContext`, from which {@link requestOf} gets the request. A `handler`
 * also receives the response of Express or Fastify.
 */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- whose response it is, only the app knows
export type RateLimitOptions = HttpOptions<ExecutionContext, any>;

/** The options of {@link RateLimitModule}: its own quota, and the defaults for decorators. */
export type RateLimitModuleOptions = RateLimitOptions & {
  /** Whether the guard limits handlers without a decorator, by the module's own quota. Default `true`. */
  global?: boolean;
};

/**
 * The metadata key for the options of a handler's or a class' limiters, or false. It is a string, because this module may be loaded twice.
 */
export const LIMITS = 'headgate:rate-limit';

/** The metadata by which Nest recognises handlers: of a route, a resolver, a gateway, a microservice. */
const MARKS = ['path', 'graphql:resolver_type', 'websockets:message_mapping', 'microservices:pattern'];

/** The type of a handler in Nest. */
type Handler = ReturnType<ExecutionContext['getHandler']>;

const reflector = new Reflector();

/** All limiters of an app. They are made when the app starts, so that mistakes are reported then. */
export class RateLimiters implements OnModuleInit, OnApplicationShutdown {
  /** The function for warnings, by the module's option `warnings`. */
  readonly warn: Warn;
  readonly #defaults: RateLimitOptions;
  readonly #global: boolean;
  readonly #modules: ModulesContainer;
  readonly #all: NestFlow[] = [];
  /** Where limiters count that have a name and no store: those of one name share their quota. */
  readonly #named = memoryStore();
  #own: NestFlow | undefined;
  /** The limiters that were found, by class and handler. */
  readonly #found = new Map<Type, Map<unknown, readonly NestFlow[]>>();

  constructor(options: RateLimitModuleOptions, modules: ModulesContainer) {
    checkShape('RateLimitModule', options, [...HTTP_OPTIONS, 'global']);
    const { global, ...defaults } = options;
    this.#global = checkBoolean('global', global, true);
    this.warn = compileWarnings(defaults.warnings);
    this.#defaults = defaults as RateLimitOptions;
    this.#modules = modules;
  }

  onModuleInit(): void {
    if (this.#global) this.#ownFlow();
    for (const [type, method] of this.#methods()) {
      if (reflector.getAllAndOverride(LIMITS, [method, type]) !== undefined) this.of(type, method);
    }
  }

  /** Whether there is a handler that the guard would limit. */
  hasWork(): boolean {
    return this.#methods().some(
      ([type, method]) =>
        MARKS.some((mark) => reflector.get(mark, method) !== undefined) && this.of(type, method).length > 0,
    );
  }

  /** The methods of all controllers and providers, each with its class. */
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
      const defaults = namesOfDefaults(options, this.#defaults);
      return this.#add(withDefaults(options, this.#defaults), { defaultName, defaults }, shared);
    });
  }

  /** Limits by the module's own quota. */
  #ownFlow(): NestFlow {
    return (this.#own ??= this.#add(this.#defaults, { defaultName: 'global', defaults: FOR_ROUTES }));
  }

  #add(options: RateLimitOptions, assembly: HttpAssembly, shared?: Limiter): NestFlow {
    const { name, store, limiter, partitionKey } = options;
    const isOwn = name === undefined || store !== undefined || limiter !== undefined || partitionKey === true;
    const compiled = compileOptions<ExecutionContext, Response>(
      isOwn ? options : { ...options, store: this.#named },
      assembly,
      shared,
    );
    const flow = new Flow(framework, compiled);
    this.#all.push(flow);
    return flow;
  }

  async onApplicationShutdown(): Promise<void> {
    await Promise.all(this.#all.map((flow) => flow.close()));
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
