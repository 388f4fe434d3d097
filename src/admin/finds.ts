import { algorithms } from '../algorithms/index.js';
import { countsSlots } from '../contract/compile-policies.js';
import type { LimiterDecision } from '../limiter/decision.js';
import type { BannedKey } from './bans/ban-finds.js';
import type { WhoseKey } from './owners.js';

/** The verdict on a key: whether a request of cost 1 would be denied or admitted by the policies. */
export interface JudgedKey extends WhoseKey {
  /** Whether a request would be denied or admitted. */
  readonly kind: 'limited' | 'admitted';
  /**
   * The tier that denies or admits the key. Absent for requests without a tier, and if the verdict is the same in several tiers that the key
   * may have.
   */
  readonly tier?: string;
  /**
   * Whether the verdict holds whatever the tier of the key is. False if the key may have another tier, which admits it, or of which it has used
   * another part.
   */
  readonly certain: boolean;
  /** Whether requests of the key may have this tier. False if its use, or its last denial, shows that it has another tier. */
  readonly likely: boolean;
  /** The deciding policy. */
  readonly policy: string | null;
  /** The wait of a denied request, ms. Null if it would be admitted, or never. */
  readonly retryAfterMs: number | null;
  /** The verdict of each policy. */
  readonly policies: readonly PolicyVerdict[];
  /** Whether the limits come from an override. */
  readonly overridden: boolean;
}

/** One fact about one key of one limiter. */
export type KeyVerdictFind =
  | BannedKey
  | JudgedKey
  | (WhoseKey & {
      /** State that no known policy reads. A missing expiry is null, and so is the algorithm of another version's layout. */
      readonly kind: 'state';
      /** The name of the policy, or `null`. */
      readonly policy: string | null;
      /** The algorithm, or `null`. */
      readonly algorithm: string | null;
      /** The time until the state expires, ms, or `null`. */
      readonly expiresInMs: number | null;
    })
  | (WhoseKey & {
      /** State that cannot be read. */
      readonly kind: 'unreadable';
      /** The reason why the state cannot be read. */
      readonly message: string;
    });

/** The verdict of one policy. Absent values are null. */
export interface PolicyVerdict {
  /** The name of the policy. */
  readonly name: string;
  /** The key by which the policy counts. */
  readonly key: string;
  /** The algorithm. */
  readonly algorithm: string;
  /** The units per window. */
  readonly limit: number;
  /** The most units that a bucket holds, if they are not as many as its limit. */
  readonly burst?: number;
  /** The part of a shared limit that the tenant may have now. Absent unless the verdict is about a tenant. */
  readonly share?: number;
  /** The units of the share that the tenant used. Absent unless the verdict is about a tenant with state. */
  readonly used?: number;
  /** The window, ms, or `null`. */
  readonly windowMs: number;
  /** Whether the policy only reports and never denies. */
  readonly shadow: boolean;
  /** Whether the policy admits the cost now. */
  readonly allowed: boolean;
  /** Whole units that could be spent now. */
  readonly remaining: number;
  /** The time until the cost would be admitted, ms, or `null`. */
  readonly retryAfterMs: number | null;
  /** The time until the full quota is back, ms. */
  readonly resetAfterMs: number;
}

/** The units that a key used, and the quota that they are a part of: the limit, a bucket's burst, or the share of a tenant. */
export function useIn({ limit, burst = limit, remaining, share, used }: PolicyVerdict): {
  readonly used: number;
  readonly quota: number;
} {
  if (share === undefined) return { used: burst - remaining, quota: burst };
  return { used: used ?? Math.max(0, share - remaining), quota: share };
}

/**
 * Whether only slots are missing. A request is then denied until a slot is returned, and `retryAfterMs` is the time until a lease ends, which a
 * process that is alive renews.
 */
export function lacksSlots(policies: readonly PolicyVerdict[]): boolean {
  const denying = policies.filter(({ allowed, shadow }) => !allowed && !shadow);
  return denying.length > 0 && denying.every(({ algorithm }) => countsSlots(algorithm));
}

export function verdictsOf(decision: LimiterDecision): PolicyVerdict[] {
  // A destructured parameter would put the internal member into the published declarations.
  const { policies, set } = decision;
  return policies.map(
    ({ name, key, allowed, limit, share, remaining, retryAfterMs = null, resetAfterMs }, i) => {
      const { algorithm, window: windowMs, shadow, traits } = set.policies[i]!;
      const burst = traits.capacity;
      return {
        ...{ name, key, algorithm, limit, windowMs, shadow, allowed, remaining, retryAfterMs, resetAfterMs },
        ...(burst !== limit && { burst }),
        ...(share !== undefined && { share }),
      };
    },
  );
}

/** The state that a policy reads. */
export interface ReadState {
  readonly id: string;
  /** The time between two moments at which charges end, ms: a segment, or the window. Undefined if charges may end at any moment. */
  readonly freesEveryMs: number | undefined;
}

/** The states that the policies of a decision read, in the order of the policies. */
export const statesOf = ({ set }: LimiterDecision): ReadState[] =>
  set.policies.map(({ id, life, traits: { slices } }) => ({
    id,
    freesEveryMs: slices && life + slices.endsIn(0),
  }));

/** The algorithm of the state with this id. Undefined for a layout of another version. */
export function kernelOf(id: string): string | undefined {
  const [tag] = /^\w+/.exec(id)!;
  return Object.entries(algorithms).find(([, kernel]) => kernel.tag === tag)?.[0];
}

export function policyNameOf(id: string): string {
  const colon = id.indexOf(':');
  return colon === -1 ? 'default' : id.slice(colon + 1);
}
