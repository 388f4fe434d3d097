// Code that type-checks, and code that must not type-check because it would throw at once. `npm run types` only compiles this file.
import express, { type Request } from 'express';
import Fastify, { type FastifyRequest } from 'fastify';
import {
  consumeAll,
  createLimiter,
  memoryStore,
  type AdmittedDecision,
  type CreateLimiterOptions,
  type Decision,
  type DeniedDecision,
  type LimiterOptions,
  type Policy,
} from 'headgate';
import { createAdmin } from 'headgate/admin';
import { dashboard } from 'headgate-dashboard';
import { RateLimited, rateLimited } from 'headgate/decorators';
import { rateLimit, type RateLimitOptions } from 'headgate/express';
import { rateLimitPlugin, type RateLimitOptions as FastifyRateLimitOptions } from 'headgate/fastify';
import { rateLimit as honoLimit } from 'headgate/hono';
import { RateLimit, RateLimitModule, requestOf } from 'headgate/nestjs';
// @ts-expect-error types that only stores need are not exported by the root
import type { PolicySet as AtTheRoot } from 'headgate';
import type { CompiledPolicy, PolicySet, Query, Reply, Store } from 'headgate/stores';
import { rateLimit as webLimit } from 'headgate/web';
import type { Hono } from 'hono';

/** The types for a custom store, which one entry point exports. */
export interface StoreTypes {
  root: AtTheRoot;
  store: Store;
  set: PolicySet & { readonly policies: readonly CompiledPolicy[] };
  decide: (query: Query) => Reply;
}

const quota = { limit: 5, window: '1m' } as const;
const limiter = createLimiter(quota);
const policy = quota as Policy;

interface UserRequest extends Request {
  user: { id: string };
}

/** A decision narrows by `allowed`, by `reason` and by `retryAfterMs`. */
export function whatNarrows(decision: Decision): number {
  const { allowed, reason, retryAfterMs } = decision;
  if (allowed && reason === undefined) return retryAfterMs satisfies 0;
  if (reason === 'quota-exceeded' || reason === 'banned') return retryAfterMs;
  if (reason === 'cost-exceeds-capacity' || reason === 'deny-listed') {
    retryAfterMs satisfies undefined;
    return Infinity;
  }
  return retryAfterMs;
}

/** The decision also narrows by excluded reasons. */
export function whatIsLeft(decision: Decision): number {
  if (decision.allowed) return 0;
  if (decision.reason === 'cost-exceeds-capacity' || decision.reason === 'deny-listed') return Infinity;
  return decision.retryAfterMs;
}

export function whatAllowedTells(decision: Decision): number {
  if (decision.allowed) {
    decision satisfies AdmittedDecision;
    // @ts-expect-error a shadow admits a cost that could never be admitted
    return decision.retryAfterMs;
  }
  decision satisfies DeniedDecision;
  // @ts-expect-error a denial has a reason
  decision.reason satisfies undefined;
  // @ts-expect-error a switched-off limiter denies no request
  if (decision.reason === 'disabled') return 0;
  if (decision.retryAfterMs !== undefined) return decision.retryAfterMs;
  decision.reason satisfies 'cost-exceeds-capacity' | 'deny-listed';
  return Infinity;
}

export function whatIsRight(): void {
  const app = express();
  app.use(rateLimit());
  app.use(rateLimit({}));
  app.use(rateLimit({ headers: false, enabled: () => true }));
  app.use(rateLimit({ limiter, cost: 2, warnings: false }));
  app.use(rateLimit({ policies: [quota, { ...quota, algorithm: 'token-bucket', burst: 9 }] }));
  app.use(rateLimit({ policies: (req) => (req.path === '/' ? [quota] : [policy]) }));
  app.use(rateLimit({ ...policy, name: 'any' }));
  app.use(rateLimit({ ...quota, keyGenerator: (req: UserRequest) => req.user.id }));
  app.use(
    rateLimit<UserRequest>({
      ...quota,
      keyGenerator: (req) => req.user.id,
      cost: (req) => req.user.id.length,
    }),
  );
  const fastify = Fastify();
  void fastify.register(rateLimitPlugin);
  void fastify.register(rateLimitPlugin, {
    ...quota,
    keyGenerator: (request: FastifyRequest & { user: string }) => request.user,
  });
  fastify.get('/', { onRequest: fastify.rateLimit('5/1m') }, () => 'ok');
  fastify.get('/free', { config: { rateLimit: false } }, () => 'ok');
  RateLimit({ limiter, keyGenerator: (context) => requestOf<UserRequest>(context).user.id });
  rateLimit({
    policies: [quota, { ...quota, by: 'account' }],
    keys: { account: (req: UserRequest) => req.user.id },
  });
  createLimiter({ ...policy, store: memoryStore() });
  createLimiter({ ...quota, algorithm: 'gcra', burst: 9 });
  createLimiter({ algorithm: 'concurrency', limit: 5, lease: '1m' });
  rateLimited((id: string) => id, { limiter, key: (id) => id });
}

/** A limiter on a route leaves the route's own types to the handlers after it. */
export function whatRoutesKeep(app: express.Express): void {
  app.get('/users/:id', rateLimit(quota), (req) => req.params.id satisfies string);
  app.get('/users/:id', rateLimit({ limiter, keyGenerator: (req) => req.ip }), (req) => {
    req.params satisfies { id: string };
    // @ts-expect-error a parameter that the path does not have
    return req.params.name;
  });
  app.post('/mails', rateLimit({ limiter }), (req: Request<object, string, { to: string }>, res) => {
    res.send(req.body.to satisfies string);
  });
  const handler: express.RequestHandler = rateLimit({ limiter });
  app.use('/all', [handler, rateLimit({ limiter })]);
  app.get('/wrapped', (req, res, next) => rateLimit({ limiter })(req, res, next));
}

/** Handlers of the web may take a subclass of `Request`, such as `NextRequest`. */
export function whatTheWebTakes(request: globalThis.Request & { nextUrl: URL }): void {
  const limit = webLimit(quota);
  const GET = limit((req: globalThis.Request & { nextUrl: URL }, context: { id: string }) =>
    Response.json([req.nextUrl, context.id]),
  );
  void GET(request, { id: 'a' });
  // @ts-expect-error a request without the property that the handler reads
  void GET(new globalThis.Request('https://example.com/'), { id: 'a' });
  // @ts-expect-error an argument is missing
  void GET(request);
  const POST = limit((req) => new Response(req.url));
  void POST(new globalThis.Request('https://example.com/'));
  void limit(request, () => new Response());
  // @ts-expect-error not a request
  limit((path: string) => new Response(path));
}

/** On Hono, a request has no decision if its limiter is off, or skips the request. */
export function whatHonoHas(app: Hono): void {
  app.get('/', (c) => c.json(c.get('rateLimit')?.remaining));
  // @ts-expect-error there may be no decision
  app.get('/', (c) => c.json(c.get('rateLimit').remaining));
}

/** Options from the environment may be undefined, in a project with `exactOptionalPropertyTypes`, too. */
export function whatIsUndefined(missing: undefined): void {
  const common = {
    store: missing,
    ban: missing,
    enabled: missing,
    overrides: missing,
    onStoreError: missing,
    timeout: missing,
    idsFor: missing,
    warnings: missing,
    onThreshold: missing,
  };
  createLimiter({ ...quota, ...common, onDecision: missing });
  const request = { keyGenerator: missing, keys: missing, clientIp: missing, cost: missing, wait: missing };
  const answer = { headers: missing, statusCode: missing, handler: missing, jitter: missing, skip: missing };
  rateLimit({ ...quota, store: missing, keyGenerator: missing, handler: missing });
  rateLimit({ ...quota, ...common, ...request, ...answer, tier: missing, allowList: missing });
  void Fastify().register(rateLimitPlugin, {
    ...quota,
    ...request,
    ...answer,
    hook: missing,
    global: missing,
  });
  RateLimit({ ...quota, ...request, replaces: missing });
  memoryStore({ maxKeys: missing, clock: missing });
  const fields = {
    name: missing,
    shadow: missing,
    by: missing,
    count: missing,
    unit: missing,
    thresholds: missing,
  };
  createLimiter({ ...quota, ...fields, segments: missing, algorithm: missing, tiers: missing });
  const bucket: Policy = {
    ...quota,
    ...fields,
    algorithm: 'leaky-bucket',
    burst: missing,
    maxDelay: missing,
  };
  const month: Policy = {
    ...fields,
    algorithm: 'calendar',
    limit: 5,
    period: 'month',
    timeZone: missing,
    anchor: missing,
  };
  createLimiter({ policies: [bucket, month, { ...quota, share: missing, weight: missing }] });
  rateLimit({ ...quota, name: missing, shadow: missing, tiers: missing, tier: missing });
  rateLimited((id: string) => id, { ...quota, key: missing, tier: missing, wait: { timeout: missing } });
  void consumeAll([{ limiter, key: 'ada', cost: missing, tier: missing }]);
  void limiter.override('ada', { limit: 5, burst: missing }, { for: missing, until: missing, by: missing });
  createAdmin(memoryStore(), { prefix: missing, hashKeys: missing, timeout: missing, from: missing });
  dashboard({ store: memoryStore(), actions: missing, auth: missing, hideKeys: missing, title: missing });
}

/** A request has one of the limiter's tiers, as far as types know the names. */
export function whatTiersThereAre(plan: string, own: RateLimitOptions): void {
  const tiers = { free: '100/1m', pro: ['1000/1m', quota] } as const;
  rateLimit({ tiers, tier: 'pro' });
  rateLimit({ tiers, tier: () => 'pro' });
  rateLimit({ tiers, tier: async (req) => (req.path === '/' ? 'free' : undefined) });
  rateLimit({ tiers: { free: '100/1m', pro: [{ ...quota, limit: 9 }] }, tier: (req) => req.get('plan') });
  rateLimit({ tiers, tier: plan, keyGenerator: (req) => req.path });
  rateLimit({ tiers, tier: (req: UserRequest) => (req.user.id === '' ? 'free' : 'pro') });
  rateLimit<UserRequest>({ tiers, tier: (req) => req.user.id });
  rateLimit({ limiter, tier: () => 'pro' });
  rateLimit({ ...own, tier: () => 'pro' });
  Fastify().rateLimit({ tiers, tier: (request) => (request.url === '/' ? 'free' : 'pro') });
  rateLimited((id: string) => id, { tiers, tier: (id) => (id === '' ? 'free' : 'pro') });
  RateLimited({ tiers, tier: (id: string) => (id === '' ? 'free' : 'pro') });
  honoLimit({ tiers, tier: (c) => (c.req.path === '/' ? 'free' : 'pro') });
  RateLimit({ tiers, tier: (context) => (requestOf(context).url === '/' ? 'free' : 'pro') }, '5/1s');
  RateLimit({ tiers: { free: '100/1m' }, tier: 'free' }, { tiers, tier: () => 'pro' });
  RateLimitModule.forRoot({ tiers, tier: () => 'pro', global: false });
  // @ts-expect-error a tier that the limiter does not have
  rateLimit({ tiers, tier: 'gold' });
  // @ts-expect-error a tier that the limiter does not have
  rateLimit({ tiers, tier: () => 'gold' });
  // @ts-expect-error one of the tiers is missing
  rateLimit({ tiers: { free: '100/1m' }, tier: (req) => (req.path === '/' ? 'free' : 'pro') });
  // @ts-expect-error a tier that the limiter does not have
  Fastify().rateLimit({ tiers, tier: (request) => (request.url === '/' ? 'free' : 'gold') });
  // @ts-expect-error a tier that the limiter does not have
  rateLimited((id: string) => id, { tiers, tier: () => 'gold' });
  // @ts-expect-error a tier that the limiter does not have
  RateLimited({ tiers, tier: () => 'gold' });
  // @ts-expect-error a tier that the limiter does not have
  honoLimit({ tiers, tier: async () => 'gold' });
  // @ts-expect-error a tier that the limiter does not have
  RateLimit({ tiers, tier: () => 'gold' });
  // @ts-expect-error a tier that the limiter does not have
  RateLimitModule.forRoot({ tiers, tier: () => 'gold' });
}

/** Options from variables are spread into others. Their combination is checked when the limiter is created. */
export function whatIsSpread(
  base: RateLimitOptions,
  some: Partial<RateLimitOptions>,
  others: Omit<RateLimitOptions, 'limit' | 'window'>,
  own: CreateLimiterOptions,
  common: LimiterOptions,
  route: FastifyRateLimitOptions,
): void {
  rateLimit({ ...base, limit: 5 });
  rateLimit({ ...base, name: 'any' });
  rateLimit({ ...quota, ...base });
  rateLimit({ ...quota, ...some });
  rateLimit({ ...others, ...quota });
  rateLimit({ ...base });
  rateLimit(base);
  const known: RateLimitOptions = { ...quota, headers: false };
  rateLimit({ ...known, limit: 9, keyGenerator: (req) => req.ip });
  rateLimit({ ...base, limit: 9, keyGenerator: (req: Request) => req.ip });
  createLimiter({ ...own, limit: 5 });
  createLimiter({ ...own, name: 'any' });
  createLimiter({ ...common, ...quota });
  Fastify().rateLimit({ ...route, limit: 5 });
  // @ts-expect-error not a limit
  rateLimit({ ...base, limit: '5' });
  // @ts-expect-error an unknown option
  rateLimit({ ...base, max: 5 });
  // @ts-expect-error not a limit
  createLimiter({ ...own, limit: '5' });
  // @ts-expect-error no limit at all
  createLimiter({ ...common });
}

export function whatIsWrong(): void {
  // @ts-expect-error no limit at all
  createLimiter({});
  // @ts-expect-error no window
  createLimiter({ limit: 5 });
  // @ts-expect-error no limit
  rateLimit({ window: '1m' });
  // @ts-expect-error a burst of a window
  createLimiter({ ...quota, burst: 9 });
  // @ts-expect-error a burst of a window
  rateLimit({ ...quota, burst: 9 });
  // @ts-expect-error a burst of a window
  rateLimit({ policies: [{ ...quota, burst: 9 }] });
  // @ts-expect-error a window of slots
  createLimiter({ algorithm: 'concurrency', limit: 5, lease: '1m', window: '1m' });
  // @ts-expect-error segments of a bucket
  createLimiter({ ...quota, algorithm: 'gcra', segments: 5 });
  // @ts-expect-error a limiter beside a limit
  rateLimit({ ...quota, limiter });
  // @ts-expect-error a limiter beside a store
  rateLimit({ limiter, store: memoryStore() });
  // @ts-expect-error a policy beside policies
  rateLimit({ ...quota, policies: [quota] });
  // @ts-expect-error a policy beside policies
  createLimiter({ ...quota, policies: [quota] });
  // @ts-expect-error a burst of a window
  void Fastify().register(rateLimitPlugin, { ...quota, burst: 9 });
  // @ts-expect-error an unknown option
  void Fastify().register(rateLimitPlugin, { ...quota, max: 9 });
  // @ts-expect-error a burst of a window
  Fastify().rateLimit({ ...quota, burst: 9 });
  // @ts-expect-error a limiter beside a limit
  RateLimit({ ...quota, limiter });
  // @ts-expect-error no limit at all
  rateLimited(() => 5, {});
  // @ts-expect-error a limiter beside a limit
  RateLimited({ ...quota, limiter });
  // @ts-expect-error an unknown code
  rateLimit({ ...quota, warnings: ['HEADGATE_X'] });
  // @ts-expect-error the request's key is that of keyGenerator
  rateLimit({ ...quota, keys: { key: () => 'ada' } });
  // @ts-expect-error a key that is not a string
  rateLimit({ ...quota, keyGenerator: () => 5 });
}
