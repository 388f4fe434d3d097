import { HeadgateError } from '../common/errors.js';
import { optionsOf } from './options.js';
import {
  checkCallOptions,
  fallbackOf,
  limit,
  limiterOf,
  type AnyFunction,
  type AnyOptions,
  type CallOptions,
  type Fallback,
  type LimitedBy,
} from './rate-limited.js';
import { memoryStore } from '../stores/memory/memory.js';
import type { Store } from '../contract/store.js';

export {
  rateLimited,
  type CallOptions,
  type Fallback,
  type LimitedBy,
  type RateLimitedFunction,
} from './rate-limited.js';

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- as in TypeScript's own decorator types
type Any = any;
type Class = abstract new (...args: Any[]) => unknown;
type AsyncMethod<This, Args extends unknown[], Result> = (this: This, ...args: Args) => Promise<Result>;

/** The names of methods that don't return a promise. */
type SyncMethods<T> = {
  [K in keyof T]: T[K] extends (...args: Any[]) => infer R
    ? R extends PromiseLike<unknown>
      ? never
      : K
    : never;
}[keyof T];

/** Empty if every method of a class returns a promise. Otherwise an impossible property, so that the type error names the methods. */
type AllAsync<C> = C extends abstract new (...args: Any[]) => infer Instance
  ? [SyncMethods<Instance>] extends [never]
    ? unknown
    : { 'These methods do not return a promise, as a limited method does': SyncMethods<Instance> }
  : never;

/**
 * A decorator for methods and classes, standard or legacy (`experimentalDecorators`). `Args` are the arguments of `key`, `cost` and
 * `fallback`.
 */
export interface RateLimitedDecorator<Args extends unknown[]> {
  <This, A extends [...Args, ...Any[]], Result>(
    method: AsyncMethod<This, A, Result>,
    context: ClassMethodDecoratorContext<This, AsyncMethod<This, A, Result>>,
  ): AsyncMethod<This, A, Result>;
  <C extends Class>(target: C & AllAsync<C>, context: ClassDecoratorContext<C>): void;
  <A extends [...Args, ...Any[]], Result>(
    target: object,
    name: string | symbol,
    descriptor: TypedPropertyDescriptor<AsyncMethod<Any, A, Result>>,
  ): void;
  <C extends Class>(target: C & AllAsync<C>): void;
}

/** The limited methods and their fallbacks, which a decorator of the class does not limit again. */
const limited = new WeakMap<object, AnyOptions['fallback']>();

/**
 * Limits a method, or all methods of a class, including static methods. Inherited methods are not changed, nor are methods with their own
 * decorator, methods named by a symbol, and methods that a decorator names as `fallback`. The options are those of {@link rateLimited}. In
 * `key`, `cost` and `fallback`, `this` is the method's. A limited method returns a promise, so the original must return a promise,
 * too. Each method has a separate quota, unless a common `limiter` or `name` is given.
 *
 * @example
 * class Mailer {
 *   \@RateLimited({ limit: 5, window: '1m', key: (to: string) => to, fallback: 'later', passArgs: true })
 *   async send(to: string, text: string) { ... }
 *   async later(to: string, text: string) { ... }
 * }
 *
 * @param options the options, or the text of a single policy
 * @throws HeadgateError as `rateLimited`, when the class is defined; `HEADGATE_INVALID_ARGUMENT` on anything but a method or a class
 */
export function RateLimited<
  KeyArgs extends unknown[] = [],
  CostArgs extends unknown[] = [],
  FallbackArgs extends unknown[] = [],
  const Tier extends string = string,
>(
  options:
    string | (LimitedBy & CallOptions<Any, KeyArgs, CostArgs, Tier> & Fallback<Any, FallbackArgs, unknown>),
): RateLimitedDecorator<Longest<Longest<KeyArgs, CostArgs>, FallbackArgs>> {
  const given = optionsOf<object>(options) as AnyOptions & { name?: string; store?: Store };
  checkCallOptions('RateLimited', given);
  // Reports mistakes at the decorator, not at the method. Metrics must not count the limiter of the check.
  if (!given.limiter) void limiterOf({ ...given, store: memoryStore() }, 'default').close();
  // Methods of the same name share their quota, so a common store is needed.
  const own: AnyOptions =
    given.name === undefined ? given : { ...given, store: given.store ?? memoryStore() };
  const { fallback } = own;

  function wrap(fn: AnyFunction, name: string, calls = own): AnyFunction {
    const result = limit(fn, limiterOf(own, name), calls);
    limited.set(result, calls.fallback);
    return result;
  }

  function wrapAll(holder: object, prefix: string, calls: AnyOptions): void {
    const spared = fallbacksIn(holder).add(fallback);
    for (const [name, descriptor] of Object.entries(Object.getOwnPropertyDescriptors(holder))) {
      const fn = descriptor.value as unknown;
      // Methods are not enumerable. Static properties are.
      if (typeof fn !== 'function' || descriptor.enumerable || name === 'constructor') continue;
      if (spared.has(name) || limited.has(fn)) continue;
      if (calls.fallback !== undefined) fallbackOf(holder, calls.fallback);
      Object.defineProperty(holder, name, {
        ...descriptor,
        value: wrap(fn as AnyFunction, prefix + name, calls),
      });
    }
  }

  function decorateClass(target: Class): void {
    wrapAll(target.prototype as object, `${target.name}.`, own);
    const { fallback: _, ...without } = own;
    const instanceOnly = typeof fallback !== 'function' && fallback !== undefined && !(fallback in target);
    wrapAll(target, `${target.name}.`, instanceOnly ? without : own);
  }

  const decorate = (target: unknown, context?: unknown, descriptor?: PropertyDescriptor): unknown => {
    if (isStandard(context)) {
      if (context.kind === 'class') return decorateClass(target as Class);
      if (context.kind !== 'method') throw misplaced(context.kind);
      if (typeof fallback === 'string' || typeof fallback === 'symbol') {
        // Only a finished object has every method.
        context.addInitializer(function () {
          fallbackOf(this, fallback);
        });
      }
      return wrap(target as AnyFunction, String(context.name));
    }
    if (context === undefined && typeof target === 'function')
      return decorateClass(target as unknown as Class);
    if (typeof descriptor?.value !== 'function') throw misplaced('property');
    if (fallback !== undefined) fallbackOf(target, fallback);
    const of = typeof target === 'function' ? target : (target as object).constructor;
    descriptor.value = wrap(descriptor.value as AnyFunction, `${of.name}.${String(context)}`);
    return undefined;
  };
  return decorate as RateLimitedDecorator<Longest<Longest<KeyArgs, CostArgs>, FallbackArgs>>;
}

/** The fallbacks of all limited methods of a class and its parents, because a class may replace an inherited fallback. */
function fallbacksIn(holder: object): Set<AnyOptions['fallback']> {
  const found = new Set<AnyOptions['fallback']>();
  for (let link: object | null = holder; link; link = Object.getPrototypeOf(link) as object | null) {
    for (const key of Reflect.ownKeys(link)) {
      found.add(limited.get(Object.getOwnPropertyDescriptor(link, key)!.value as object));
    }
  }
  return found;
}

type Longest<A extends unknown[], B extends unknown[]> = B extends [...A, ...Any[]] ? B : A;

function isStandard(context: unknown): context is DecoratorContext {
  return typeof context === 'object' && context !== null && 'kind' in context;
}

function misplaced(kind: string): HeadgateError {
  return new HeadgateError(
    'HEADGATE_INVALID_ARGUMENT',
    `@RateLimited cannot decorate a ${kind}. Put it before a method or a class.`,
  );
}
