// Options that throw at once do not type-check in any entry point. `npm run types` only compiles this file.
import type { RouteRateLimits } from 'fastify';
import type { createLimiter, Limiter, MemoryStore, Policy } from 'headgate';
import type { RateLimited, rateLimited } from 'headgate/decorators';
import type { rateLimit } from 'headgate/express';
import type { RateLimitOptions, RateLimitPluginOptions } from 'headgate/fastify';
import type { createFlow } from 'headgate/http';
import type { RateLimit, RateLimitModule } from 'headgate/nestjs';

/** The options of each entry point. */
interface Adapters {
  rateLimit: Parameters<typeof rateLimit>[0];
  rateLimitPlugin: RateLimitPluginOptions;
  'fastify.rateLimit': RateLimitOptions;
  'config.rateLimit': RouteRateLimits['headgate'];
  'RateLimitModule.forRoot': Parameters<typeof RateLimitModule.forRoot>[0];
  RateLimit: Parameters<typeof RateLimit>[number];
  createFlow: Parameters<typeof createFlow>[1];
}

/** Entry points that throw without a quota. The adapters then use 1,000 requests a minute. */
interface NoDefault {
  createLimiter: Parameters<typeof createLimiter>[0];
  rateLimited: Parameters<typeof rateLimited>[1];
  RateLimited: Parameters<typeof RateLimited>[0];
}

interface Quota {
  limit: 5;
  window: '1m';
}

/** Options that every entry point accepts. */
interface Right {
  'a quota': Quota;
  'a quota with a name': Quota & { name: 'x' };
  'a bucket with a burst': Quota & { algorithm: 'token-bucket'; burst: 9 };
  'a bucket that delays': Quota & { algorithm: 'leaky-bucket'; maxDelay: '1s' };
  slots: { algorithm: 'concurrency'; limit: 5; lease: '1m' };
  'a calendar': { algorithm: 'calendar'; limit: 5; period: 'day' };
  'a policy from elsewhere': Policy;
  policies: { policies: (Policy | string)[] };
  text: { policies: '5/1m' };
  tiers: { tiers: { free: '5/1m'; pro: Policy[] } };
  'a policy beside tiers': Quota & { tiers: { free: '5/1m' } };
}

/** Options that every entry point except `createLimiter` accepts. */
interface RightWithLimiter {
  'a limiter': { limiter: Limiter };
  'a limiter and a cost': { limiter: Limiter; cost: 5 };
}

/** Options that throw in every entry point. */
interface Wrong {
  'no window': { limit: 5 };
  'no limit': { window: '1m' };
  'a burst of a window': Quota & { burst: 9 };
  'a burst of a window that is named': Quota & { algorithm: 'sliding-window'; burst: 9 };
  'a burst of a window among policies': { policies: [Quota & { burst: 9 }] };
  'a burst of a window in a tier': { tiers: { free: [Quota & { burst: 9 }] } };
  'segments of a bucket': Quota & { algorithm: 'gcra'; segments: 5 };
  'a delay of a bucket that meters': Quota & { algorithm: 'token-bucket'; maxDelay: '1s' };
  'slots without a lease': { algorithm: 'concurrency'; limit: 5 };
  'a window of slots': { algorithm: 'concurrency'; limit: 5; lease: '1m'; window: '1m' };
  'attempts of slots': { algorithm: 'concurrency'; limit: 5; lease: '1m'; count: 'attempts' };
  'a window of a calendar': { algorithm: 'calendar'; limit: 5; period: 'day'; window: '1m' };
  'a calendar without a period': { algorithm: 'calendar'; limit: 5 };
  'a time zone of a window': Quota & { timeZone: 'UTC' };
  'an algorithm that there is not': Quota & { algorithm: 'token' };
  'a window that is a date': { limit: 5; window: Date };
  'a limit as text': { limit: '5'; window: '1m' };
  'a policy beside policies': Quota & { policies: [Quota] };
  'a warning that there is not': Quota & { warnings: ['HEADGATE_X'] };
  'a failure policy that there is not': Quota & { onStoreError: 'local ' };
  'a store that is a client': Quota & { store: { get(): string } };
}

/** Options that throw in every entry point except `createLimiter`, which has no option `limiter`. */
interface WrongWithLimiter {
  'a limiter beside a limit': Quota & { limiter: Limiter };
  'a limiter beside policies': { policies: [Quota]; limiter: Limiter };
  'a limiter beside a store': { limiter: Limiter; store: MemoryStore };
  'a limiter beside a ban': { limiter: Limiter; ban: { after: 5; for: '1m' } };
  'a limiter beside a name': { limiter: Limiter; name: 'x' };
  'a limiter that is options': { limiter: Quota };
  'a limiter beside tiers': { limiter: Limiter; tiers: { free: '5/1m' } };
}

/** Options that throw in entry points without a default quota. */
interface Unlimited {
  nothing: Record<never, never>;
  'a name': { name: 'x' };
}

type Taken<Options, Given> = {
  [Name in keyof Given]: Given[Name] extends Options ? Name : never;
}[keyof Given];
type Refused<Options, Given> = Exclude<keyof Given, Taken<Options, Given>>;

/** The entry points that accept, or refuse, the given options; `never` if there are none. */
type AnyTaken<Doors, Given> = { [Door in keyof Doors]: Taken<Doors[Door], Given> }[keyof Doors];
type AnyRefused<Doors, Given> = { [Door in keyof Doors]: Refused<Doors[Door], Given> }[keyof Doors];

type Doors = Adapters & NoDefault;

type DoorsWithLimiter = Omit<Doors, 'createLimiter'>;

/** An error here names options that type-check but throw, or fail to type-check although valid. */
declare const taken: AnyTaken<Doors, Wrong>;
declare const takenWithLimiter: AnyTaken<DoorsWithLimiter, WrongWithLimiter>;
declare const takenWithoutQuota: AnyTaken<NoDefault, Unlimited>;
declare const refused: AnyRefused<Doors, Right>;
declare const refusedWithLimiter: AnyRefused<DoorsWithLimiter, RightWithLimiter>;
export const none: never[] = [taken, takenWithLimiter, takenWithoutQuota, refused, refusedWithLimiter];
