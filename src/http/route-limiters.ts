import type { Limiter } from '../limiter/limiter.js';
import { memoryStore } from '../stores/memory/memory.js';
import { compileOptions, type HttpAssembly } from './compile-options.js';
import { Flow } from './flow.js';
import type { Framework } from './framework.js';
import { hasQuota, OF_LIMITER, OF_QUOTA, type HttpOptions } from './options.js';

/** The limiters of a plugin or a module: its own limiter, and the limiters of routes with the plugin's options as defaults. */
export class RouteLimiters<Req extends object, Res> {
  readonly #framework: Framework<Req, Res>;
  readonly #defaults: HttpOptions<Req, Res>;
  readonly #flows: Flow<Req, Res>[] = [];
  /** The store of limiters with a name but without a store. Limiters with the same name share their quota. */
  readonly #named = memoryStore();
  #own: Flow<Req, Res> | undefined;

  constructor(framework: Framework<Req, Res>, defaults: HttpOptions<Req, Res>) {
    this.#framework = framework;
    this.#defaults = defaults;
  }

  /** Limits by the plugin's own quota. */
  get own(): Flow<Req, Res> {
    return (this.#own ??= this.#add(this.#defaults, { defaultName: 'global', defaults: FOR_ROUTES }));
  }

  /** Limits by the plugin's own quota without some of its policies. */
  without(omitted: ReadonlySet<string>): Flow<Req, Res> {
    return this.#add(this.#defaults, { defaults: FOR_ROUTES, omitted }, this.own.limiter);
  }

  /** Limits by the options of a route. @param shared the limiter for options without a quota */
  of(
    options: HttpOptions<Req, Res>,
    assembly: HttpAssembly,
    shared: () => Limiter | undefined,
  ): Flow<Req, Res> {
    const limiter = bringsLimiter(options) ? undefined : shared();
    const defaults = namesOfDefaults(options, this.#defaults);
    return this.#add(withDefaults(options, this.#defaults), { ...assembly, defaults }, limiter);
  }

  async close(): Promise<void> {
    await Promise.all(this.#flows.map((flow) => flow.close()));
  }

  #add(options: HttpOptions<Req, Res>, assembly: HttpAssembly, shared?: Limiter): Flow<Req, Res> {
    const { name, store, limiter, partitionKey } = options;
    const isOwn = name === undefined || store !== undefined || limiter !== undefined || partitionKey === true;
    const given = isOwn ? options : { ...options, store: this.#named };
    const flow = new Flow(this.#framework, compileOptions(given, assembly, shared));
    this.#flows.push(flow);
    return flow;
  }
}

/**
 * Removes undefined options, so that defaults apply. Options of the quota stay, because a missing setting must be an error and must not
 * lead to the default quota.
 */
function definedOptions(options: object): object {
  const given = Object.entries(options).filter(
    ([option, value]) => value !== undefined || OF_QUOTA.includes(option),
  );
  return Object.fromEntries(given);
}

function bringsLimiter(options: object): boolean {
  return Object.keys(definedOptions(options)).some((name) => name === 'limiter' || OF_LIMITER.includes(name));
}

/** Options of a plugin or a module that may be meant for the limiters of routes only, even beside the plugin's own quota. */
const FOR_ROUTES: ReadonlySet<string> = new Set(['keys', 'maxWaiting', 'maxWaitingPerKey', 'onThreshold']);

function namesOfDefaults(options: object, defaults: object): ReadonlySet<string> {
  return new Set(Object.keys(defaults).filter((name) => options[name as keyof typeof options] === undefined));
}

/** Merges `defaults` into missing options, except for the name and for defaults that do not fit the options' quota. */
function withDefaults<T extends { limiter?: unknown }>(options: T, defaults: object): T {
  const without = new Set(['name']);
  if (hasQuota(options)) for (const option of [...OF_QUOTA, 'tier']) without.add(option);
  if (options.limiter !== undefined) for (const option of OF_LIMITER) without.add(option);
  return {
    ...Object.fromEntries(Object.entries(defaults).filter(([option]) => !without.has(option))),
    ...definedOptions(options),
  } as T;
}
