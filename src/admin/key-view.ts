import { warnings } from './scope.js';
import type { KeyQueue } from '../contract/gauges.js';
import { ofLimiter } from '../limiter/decision.js';
import type { OtherDenial } from './denied-now.js';
import { statesOf, type PolicyVerdict } from './finds.js';
import { partsOf, type KeyFields } from './key-parts.js';
import type { PolicyAnswer } from './key-part.js';
import { limiterOn } from './limiters.js';
import { ofDimension, type Limits } from './limits.js';
import type { Published } from './published.js';
import type { AdminWarning } from './scope.js';
import type { State } from './state.js';
import { tenantVerdicts, usesOf, type Tenancy } from './shared-limits.js';

/** The waiting requests and the slots of a key in one process. */
export interface ProcessQueue extends KeyQueue {
  /** The name of the host. */
  readonly host: string;
  /** The number of the process on its host. */
  readonly pid: number;
}

/** The slots of a key. */
export interface SlotUse {
  /** The processes with slots or waiting requests of the key, by counts of the last seconds. */
  readonly processes: readonly ProcessQueue[];
  /**
   * The slots in use that no process counts: they were taken just now, or their process ended without returning them, so that they are free
   * when their leases end. Null if that is unknown.
   */
  readonly uncounted: number | null;
  /** The time until the last lease ends unless a process renews it, ms. */
  readonly freeAfterMs: number;
}

/** A limiter's answer to a key. Absent values are null. */
export interface KeyView extends KeyFields {
  /** The name of the limiter. */
  readonly name: string;
  /** The limiter's key, such as the network of an IPv6 address. */
  readonly key: string;
  /** The typed key. */
  readonly given: string;
  /** The dimension of the key. */
  readonly dimension: string;
  /** Of a tenant: the dimension and the key of the shared limit. */
  readonly within?: string;
  /** Absent for the policies for requests without a tier. */
  readonly tier?: string;
  /**
   * Whether requests of the key may have this tier: its policies read every state that the key has used, and no limit of it is exceeded. If no
   * tier fits, each one that reads one of these states counts as likely. If the key was denied in the last seconds, only tiers that deny it are
   * likely; one with an exceeded limit only if no further tier denies the key, or did so a moment ago. A limiter certainly denies a key only if all
   * likely tiers do, because tiers with equal windows share their charges.
   */
  readonly likely: boolean;
  /** The cost of the verdicts. */
  readonly cost: number;
  /** Whether a request would be admitted now. Null if the limits are unknown. */
  readonly allowed: boolean | null;
  /** The reason of a denial, or `null`. */
  readonly reason: string | null;
  /** The time until the cost would be admitted, ms, or `null`. */
  readonly retryAfterMs: number | null;
  /** The verdict of each policy. */
  readonly policies: readonly PolicyVerdict[];
  /**
   * The newest denial of the key's requests in the last 10 seconds, if it was because of a key of another dimension, such as an address. Such a
   * key is `allowed` by its own limits. Absent without one, and if no store counts.
   */
  readonly deniedLately?: OtherDenial;
  /** Whether the store has any state of the key. False for a mistyped name, key or policy, and for a key that was not charged lately. */
  readonly stored: boolean;
  /** Whether a limiter of this name is known. */
  readonly known: boolean;
  /** The processes with slots or waiting requests of the key. Absent without slots in use, and if no store counts. */
  readonly slots?: SlotUse;
  /** Doubts about the answer. */
  readonly warnings: readonly AdminWarning[];
}

/** A question about a key: a limiter, a dimension and a tier. */
export interface Place {
  readonly name: string;
  readonly dimension: string;
  readonly tier?: string | undefined;
  /** Undefined if the limits are unknown. */
  readonly limits: Limits | undefined;
  /** Whether a search found charges of the key. Only without limits, by which its state is known otherwise. */
  readonly stored?: boolean;
  /** Of a tenant: the dimension and the key of the shared limit. */
  readonly within?: Tenancy | undefined;
}

/** The known facts about a key of a limiter. */
export async function outlook(
  state: State,
  published: Published,
  { name, dimension, within, limits }: Place,
  { key, cost }: Pick<KeyView, 'key' | 'cost'>,
) {
  const counted = within ?? { by: dimension, key };
  const place = { [counted.by]: counted.key };
  const own = limits && ofDimension(limits, counted.by);
  const owner = state.ownerOf(name, key, dimension);
  const counting = within ? state.ownerOf(name, within.key, within.by) : owner;
  const isLive = own?.overrides ?? false;
  const limiter = own && limiterOn(state, name, own, { isLive });
  try {
    const owners = within ? [owner, counting] : [owner];
    // The limiter reads overrides first, which its earlier decisions would ignore.
    const { fields, answers } = await partsOf({ state, published, limits: own, limiter, place, owners });
    // All states of a tenant have one owner.
    const [use] = within && own ? (await usesOf(state, own.policies, within.states)).values() : [];
    const asked = within ? { ...place, [dimension]: key } : place;
    const answer = await limiter?.peek(asked, { cost, weight: use?.weight });
    const decision = answer && ofLimiter(answer);
    // An override of another kind, such as another window, has its own policies.
    const policies = [...(limiter?.policies ?? []), ...(decision?.set.policies ?? [])];
    const states = policies.map(({ id }) => ({ owner: counting, id }));
    const lives = await state.lives([...answers.flatMap((part) => part.state ?? []), ...states]);
    const { allowed = null, reason = null, retryAfterMs = null } = decision ?? {};
    const answered = answers.reduce((ruled, { rule }) => rule?.(ruled) ?? ruled, {
      ...{ allowed, reason, retryAfterMs },
    } as PolicyAnswer);
    const hasOwnState = within !== undefined && within.states.length > 0;
    return {
      cost,
      ...answered,
      policies: decision ? tenantVerdicts(decision, use) : [],
      ...fields,
      stored: lives.some((life) => life !== undefined),
      states: decision ? statesOf(decision) : [],
      isOfWeight: !hasOwnState || use?.isOfWeight === true,
      known: published.scopes.has(name),
      warnings: warnings(...answers.map(({ doubt }) => doubt)),
    };
  } finally {
    await limiter?.close();
  }
}
