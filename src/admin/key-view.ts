import { ofLimiter } from '../limiter/decision.js';
import type { Override } from '../limiter/overrides/override.js';
import { BAN_TAG } from '../stores/keys.js';
import { warnings } from './context.js';
import { verdictsOf, type PolicyVerdict } from './finds.js';
import { fits, limiterOn } from './limiters.js';
import { ofDimension, type Limits } from './limits.js';
import type { Published } from './published.js';
import { cannotBan, type AdminWarning } from './scope.js';
import type { State } from './state.js';

/** A limiter's answer to a key. Absent values are null. */
export interface KeyView {
  /** The name of the limiter. */
  readonly name: string;
  /** The limiter's key, such as the network of an IPv6 address. */
  readonly key: string;
  /** The typed key. */
  readonly given: string;
  /** The dimension of the key. */
  readonly dimension: string;
  /** Absent for the policies for requests without a tier. */
  readonly tier?: string;
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
  /** The rest of the ban, ms, or 0. */
  readonly bannedForMs: number;
  /** The operator of a ban by hand, if there is a note. */
  readonly bannedBy: string | null;
  /** The reason of a ban by hand, or `null`. */
  readonly banReason: string | null;
  /** The override that applies: the key's own, or that of all keys. */
  readonly override: (Override & { readonly all: boolean }) | null;
  /** Whether the store has any state of the key. False for a mistyped name, key or policy, and for a key that was not charged lately. */
  readonly stored: boolean;
  /** Whether a limiter of this name is known. */
  readonly known: boolean;
  /** Doubts about the answer. */
  readonly warnings: readonly AdminWarning[];
}

/** A question about a key. */
interface Asked {
  readonly name: string;
  readonly key: string;
  readonly dimension: string;
  /** Undefined if the limits are unknown. */
  readonly limits: Limits | undefined;
  readonly cost: number;
}

/** The known facts about a key of a limiter. */
export async function outlook(state: State, published: Published, asked: Asked) {
  const { name, key, dimension, limits, cost } = asked;
  const whole = { [dimension]: key };
  const own = limits && ofDimension(limits, dimension);
  const owner = state.ownerOf(name, key, dimension);
  const isLive = own?.overrides ?? false;
  const limiter = own && limiterOn(state, name, own, isLive);
  try {
    const override = isLive ? await overrideFor(limiter!, whole) : null;
    const [answer, [left = 0], [note]] = await Promise.all([
      limiter?.peek(whole, { cost }),
      state.bans([owner]),
      state.log.notesOf([owner]),
    ]);
    if (left instanceof Error) throw left;
    const isFit = !override || fits(limiter!, override.all ? undefined : whole, override.change, {});
    const decision = answer && ofLimiter(answer);
    // An override of another kind, such as another window, has its own policies.
    const policies = [...(limiter?.policies ?? []), ...(decision?.set.policies ?? [])];
    const ids = [BAN_TAG, ...policies.map(({ id }) => id)];
    const lives = await state.lives(ids.map((id) => ({ owner, id })));
    const unseen = left > 0 ? cannotBan(published, name, dimension) : undefined;
    const isUnseen = unseen?.code === 'NO_BAN';
    const isBanned = left > 0 && !isUnseen;
    const { allowed = null, reason = null, retryAfterMs = null } = decision ?? {};
    return {
      cost,
      allowed: isBanned ? (limits?.shadow ?? false) : allowed,
      reason: isBanned ? 'banned' : reason,
      retryAfterMs: isBanned ? left : retryAfterMs,
      policies: decision ? verdictsOf(decision) : [],
      bannedForMs: left,
      bannedBy: (left > 0 && note?.by) || null,
      banReason: (left > 0 && note?.reason) || null,
      override,
      stored: lives.some((life) => life !== undefined),
      known: published.scopes.has(name),
      warnings: warnings(isFit ? undefined : UNFIT, isUnseen ? unseen : undefined),
    };
  } finally {
    await limiter?.close();
  }
}

const UNFIT: AdminWarning = {
  code: 'UNFIT_OVERRIDE',
  message:
    'the override does not fit the policies of the limiter any more, so it has no effect. Remove or replace it.',
};

/** The override that applies to a key: the key's own override, or the override of all keys. */
async function overrideFor(
  limiter: ReturnType<typeof limiterOn>,
  key: Record<string, string>,
): Promise<KeyView['override']> {
  const own = await limiter.overrideOf(key);
  const found = own ?? (await limiter.overrideOf());
  return found ? { ...found, all: !own } : null;
}
