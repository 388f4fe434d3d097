import type { FastifyInstance, RouteOptions, RouteRateLimits } from 'fastify';

declare module 'fastify' {
  /** The types of a route's `config.rateLimit`: one property per adapter. */
  // eslint-disable-next-line @typescript-eslint/no-empty-object-type -- each adapter adds its own
  interface RouteRateLimits {}
}

/** Whether @fastify/rate-limit is loaded. It declares `config.rateLimit`, too, and an interface cannot declare a property twice. */
type HasRival = 'createRateLimit' extends keyof FastifyInstance
  ? 'compat' extends keyof RouteRateLimits
    ? false
    : true
  : false;

/** The properties that the adapters add to a route's `config`. */
export interface RouteRateLimitConfig {
  /** Limiters of this route in place of the plugin's quota, or `false` for no limit. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- compatible with any type of the other declaration
  rateLimit?: HasRival extends true ? any : RouteRateLimits[keyof RouteRateLimits] | false;
}

/** The hooks in which a limiter can run. */
export const HOOKS = ['onRequest', 'preParsing', 'preValidation', 'preHandler'] as const;

/** Adds a hook after those of the route. */
export function addHook(route: RouteOptions, name: (typeof HOOKS)[number], hook: unknown): void {
  const hooks = route as unknown as Record<string, unknown>;
  hooks[name] = [...[hooks[name] ?? []].flat(), hook];
}
