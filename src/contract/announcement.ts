import type { BanAnnouncement } from '../features/bans/contract/ban-options.js';
import type { Decision } from '../common/decision.js';
import type { Costs } from './costs.js';
import type { Dimensions } from './policy-set.js';
import type { CompiledPolicy } from './policy.js';

/** A limiter as a store may show it to operators. */
export interface Announcement extends BanAnnouncement {
  /** The store that was passed to the limiter. */
  readonly source: object;
  /** The limiter's scope. */
  readonly name: string;
  /** The dimension in the option `slotBy`. */
  readonly slotBy: string | undefined;
  /** Whether the limiter only reports and never denies. */
  readonly shadow: boolean;
  /** Whether its policies are determined by each request. */
  readonly dynamic: boolean;
  /** Whether its limits can be overridden. */
  readonly overrides?: boolean;
  /** The prefix lengths with which the limiter's adapters turn IPv6 addresses into keys. Empty if the application makes all keys. */
  readonly ipv6Subnets: ReadonlySet<number>;
  /** The current policies for requests without a tier. */
  policies(): readonly CompiledPolicy[];
  /** The policies of each tier. */
  readonly tiers: ReadonlyMap<string, readonly CompiledPolicy[]>;
}

/** A decision to count, with the keys and the policies that decided. */
export type CountedDecision = Decision & {
  readonly set: {
    readonly policies: readonly CompiledPolicy[];
    readonly dimensions?: Pick<Dimensions, 'names' | 'banBy'> | undefined;
  };
  /** The key, or a key for each of the dimensions, the cost, and whether nothing was to be charged. */
  readonly subject: Costs & { readonly key: string | readonly string[]; readonly peek: boolean };
  /** The answer of the store, with the store's time. */
  readonly reply: { readonly now: number };
};

/** A store's handle of an announcement. */
export interface Announced {
  /** Ends the announcement. */
  withdraw(): void;
  /** Receives each decision of the limiter. Absent while the store does not count decisions. */
  readonly count?: ((decision: CountedDecision) => void) | undefined;
}
