import { warnings } from './scope.js';
import type { KeyQueue } from '../contract/gauges.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import { ofLimiter } from '../limiter/decision.js';
import { BAN_TAG } from '../stores/keys.js';
import { cannotBan } from './ban-scope.js';

import type { OtherDenial } from './denied-now.js';
import { statesOf, type PolicyVerdict } from './finds.js';
import { limiterOn } from './limiters.js';
import { ofDimension, type Limits } from './limits.js';
import type { LoggedChange } from './log.js';
import { overrideFor, type AppliedOverride } from './override-views.js';
import type { Published } from './published.js';
import type { AdminWarning } from './scope.js';
import type { State } from './state.js';
import { tenantVerdicts, usesOf, type Tenancy } from './shared-limits.js';

/** The waiting requests and the slots of a key in one process. */
export interface ProcessQueue extends KeyQueue {
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
export interface KeyView {
  readonly name: string;
  /** The limiter's key, such as the network of an IPv6 address. */
  readonly key: string;
  readonly given: string;
  readonly dimension: string;
  /** Of a tenant: the dimension and the key of the shared limit. */
  readonly within?: string;
  /** Absent for the policies for requests without a tier. */
  readonly tier?: string;
  /**
   * Whether requests of the key may have this tier: its policies read every state that the key has used, and no limit of it is exceeded. If no
   * tier fits, each one that reads one of these states counts as likely. If the key was denied in the last seconds, only tiers that deny it are
   * likely. A limiter certainly denies a key only if all its likely tiers deny it,
   * because tiers with equal windows share their charges.
   */
  readonly likely: boolean;
  readonly cost: number;
  /** Whether a request would be admitted now. Null if the limits are unknown. */
  readonly allowed: boolean | null;
  /** The reason of a denial, or `null`. */
  readonly reason: string | null;
  /** The time until the cost would be admitted, ms, or `null`. */
  readonly retryAfterMs: number | null;
  readonly policies: readonly PolicyVerdict[];
  /** The rest of the ban, ms, or 0. */
  readonly bannedForMs: number;
  /** The operator of a ban by hand, if there is a note. */
  readonly bannedBy: string | null;
  /** The reason of a ban by hand, or `null`. */
  readonly banReason: string | null;
  /** The override that applies: the key's own, or that of all keys. */
  readonly override: AppliedOverride | null;
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
  readonly warnings: readonly AdminWarning[];
}

interface Asked {
  readonly name: string;
  readonly key: string;
  readonly dimension: string;
  /** Of a tenant: the dimension and the key of the shared limit. */
  readonly within?: Tenancy | undefined;
  /** Undefined if the limits are unknown. */
  readonly limits: Limits | undefined;
  readonly cost: number;
}

/**
 * The cause of a ban without an operator's note: `denied by policy` and their names, for a ban by denials that the log has.
 *
 * @param changes of the key, the newest first
 */
export function banCauseOf(
  { name, key, dimension, bannedForMs, bannedBy, banReason }: KeyView,
  changes: Iterable<LoggedChange>,
): string | null {
  if (bannedForMs === 0 || bannedBy !== null || banReason !== null) return null;
  for (const { action, from, reason, undoneBy, ...of } of changes) {
    const isOfView = of.name === name && of.key === key && (of.dimension ?? DEFAULT_DIMENSION) === dimension;
    if (!isOfView || (action !== 'ban' && action !== 'unban') || undoneBy !== undefined) continue;
    return action === 'ban' && from === 'denials' ? reason : null;
  }
  return null;
}

/** The known facts about a key of a limiter. */
export async function outlook(state: State, published: Published, asked: Asked) {
  const { name, key, dimension, within, limits, cost } = asked;
  const counted = within ?? { by: dimension, key };
  const place = { [counted.by]: counted.key };
  const own = limits && ofDimension(limits, counted.by);
  const owner = state.ownerOf(name, key, dimension);
  const counting = within ? state.ownerOf(name, within.key, within.by) : owner;
  const isLive = own?.overrides ?? false;
  const limiter = own && limiterOn(state, name, own, { isLive });
  try {
    const { override, doubt: unfit } = isLive ? await overrideFor(limiter!, place) : { override: null };
    // A tenant is also denied by a ban of the key of the shared limit.
    const owners = within ? [owner, counting] : [owner];
    // All states of a tenant have one owner.
    const [use] = within && own ? (await usesOf(state, own.policies, within.states)).values() : [];
    const [answer, rests, notes] = await Promise.all([
      limiter?.peek(within ? { ...place, [dimension]: key } : place, { cost, weight: use?.weight }),
      state.bans.lefts(owners),
      state.bans.notesOf(owners),
    ]);
    const doubts = [dimension, counted.by].map((by) => cannotBan(published, name, by));
    const at = within && doubts[0]?.code === 'NO_BAN' ? 1 : 0;
    const [left = 0, note, doubt] = [rests[at], notes[at], doubts[at]];
    if (left instanceof Error) throw left;
    const decision = answer && ofLimiter(answer);
    // An override of another kind, such as another window, has its own policies.
    const policies = [...(limiter?.policies ?? []), ...(decision?.set.policies ?? [])];
    const charges = policies.map(({ id }) => ({ owner: counting, id }));
    const [banLife, ...lives] = await state.lives([{ owner: owners[at]!, id: BAN_TAG }, ...charges]);
    const isStored = lives.some((life) => life !== undefined);
    const hasOwnState = within !== undefined && within.states.length > 0;
    const unseen = left > 0 ? doubt : undefined;
    const isUnseen = unseen?.code === 'NO_BAN';
    const isBanned = left > 0 && !isUnseen;
    const { allowed = null, reason = null, retryAfterMs = null } = decision ?? {};
    return {
      cost,
      allowed: isBanned ? (limits?.shadow ?? false) : allowed,
      reason: isBanned ? 'banned' : reason,
      // A banned key without quota is still denied when the ban ends.
      retryAfterMs:
        isBanned && (!decision || decision.allowed || retryAfterMs !== null)
          ? Math.max(left, retryAfterMs ?? 0)
          : retryAfterMs,
      policies: decision ? tenantVerdicts(decision, use) : [],
      bannedForMs: left,
      bannedBy: (left > 0 && note?.by) || null,
      banReason: (left > 0 && note?.reason) || null,
      override,
      stored: isStored || banLife !== undefined,
      states: decision ? statesOf(decision) : [],
      isOfWeight: !hasOwnState || use?.isOfWeight === true,
      known: published.scopes.has(name),
      warnings: warnings(unfit, isUnseen ? unseen : undefined),
    };
  } finally {
    await limiter?.close();
  }
}
