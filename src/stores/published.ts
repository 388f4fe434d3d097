import { publishedBans, type PublishedBans } from '../features/bans/contract/ban-options.js';
import { canonicalText } from '../contract/policy-text.js';
import type { CompiledPolicy } from '../contract/policy.js';
import { VERSION } from '../common/version.js';
import type { Announcement } from '../contract/announcement.js';

export interface PublishedLimiter extends PublishedBans {
  readonly name: string;
  /** The policies for requests without a tier, as text. */
  readonly policies: readonly string[];
  /** The policies of each tier. Absent if there are no tiers. */
  readonly tiers?: Readonly<Record<string, readonly string[]>>;
  /** The dimension of the slot that all keys share. Absent without `slotBy`. */
  readonly slotBy?: string;
  /** Whether the limiter only reports and never denies. */
  readonly shadow: boolean;
  /** Whether the policies depend on the request. `policies` then has the recently used policies. */
  readonly dynamic: boolean;
  /** Present if its limits can be overridden. */
  readonly overrides?: true;
  /** The prefix lengths that turn IPv6 addresses into keys. Empty if the program has its own keys. */
  readonly ipv6Subnets: readonly number[];
}

/** The limiters of one instance of the store, as published. */
export interface PublishedInstance {
  /** The version of Headgate. */
  readonly version: string;
  /** The name of the host. */
  readonly host: string;
  /** The number of the process on its host. */
  readonly pid: number;
  /** The time of the publication, by the instance's clock: ISO 8601. */
  readonly at: string;
  /** The time between two publications, ms. */
  readonly every: number;
  /** The mark of the secret that hashes the keys. Absent if keys are not hashed. */
  readonly hashed?: string;
  /** False if the store does not count decisions. Absent if it counts. */
  readonly counts?: false;
  /** The limiters of the process. */
  readonly limiters: readonly PublishedLimiter[];
  /** The count of limiters that were left out because there are too many. */
  readonly more: number;
}

/** Limits of a publication: limiters, policies of each, bytes. */
const MAX_LIMITERS = 200;
const MAX_POLICIES = 100;
const MAX_BYTES = 64_000;

/** The publication of the limiters of a store. @param every the time between two publications, ms; 0 if they are not repeated */
export function instanceOf(
  announced: ReadonlySet<Announcement>,
  host: string,
  every: number,
): PublishedInstance {
  const limiters: PublishedLimiter[] = [];
  let bytes = 0;
  for (const each of [...announced].slice(0, MAX_LIMITERS)) {
    const limiter = describe(each);
    bytes += Buffer.byteLength(JSON.stringify(limiter));
    if (bytes > MAX_BYTES) break;
    limiters.push(limiter);
  }
  return {
    version: VERSION,
    host,
    pid: process.pid,
    at: new Date().toISOString(),
    every,
    limiters,
    more: announced.size - limiters.length,
  };
}

/** The options of a limiter that determine the limiter's decisions, without policies that depend on requests. */
export function configurationOf({
  ipv6Subnets: _,
  ...limiter
}: PublishedLimiter): Omit<PublishedLimiter, 'ipv6Subnets'> {
  return limiter.dynamic ? { ...limiter, policies: [] } : limiter;
}

export function describe(announcement: Announcement): PublishedLimiter {
  const { name, slotBy, shadow, dynamic, overrides, policies, tiers } = announcement;
  const named = [...tiers].map(([tier, own]) => [tier, planOf(own)] as const);
  return {
    name,
    policies: tiers.size > 0 || dynamic ? textsOf(policies()) : planOf(policies()),
    ...publishedBans(announcement),
    ...(slotBy !== undefined && { slotBy }),
    ...(overrides && { overrides: true as const }),
    ...{ shadow, dynamic, ipv6Subnets: [...announcement.ipv6Subnets].sort((a, b) => a - b) },
    ...(tiers.size > 0 && { tiers: Object.fromEntries(named) }),
  };
}

/** The texts of a plan, which are never empty. */
function planOf(policies: readonly CompiledPolicy[]): string[] {
  return policies.length > 0 ? textsOf(policies) : ['unlimited'];
}

function textsOf(policies: readonly CompiledPolicy[]): string[] {
  return policies.slice(0, MAX_POLICIES).map((policy) => canonicalText(policy, policies.length === 1));
}
