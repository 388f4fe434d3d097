// One decision: ids, then bans, then all policies together.
import { Bucket } from './bucket.js';
import { costOf } from './costs.js';
import type { Entry } from './counts.js';
import { Handle } from './handle.js';
import type { LimiterModel } from './limiter.js';
import { isBucket, type InForce } from './overrides.js';
import { walk } from './retry.js';
import { SharedCount } from './shares.js';
import { lookAhead } from './slices.js';
import {
  ANY,
  NEVER,
  type Cost,
  type Decision,
  type Keys,
  type LimiterDef,
  type Look,
  type Policy,
  type Verdict,
} from './types.js';

export interface Question {
  readonly keys: Keys;
  readonly tier?: string;
  readonly cost: Cost;
  readonly weight?: number;
  readonly id?: string;
  /** Whether nothing may be charged. */
  readonly isPeek: boolean;
  /** Whether the request waits after a denial, which then counts neither as an attempt nor towards a ban. */
  readonly isWaiting?: boolean;
  /** The real decision, the witness for shares. */
  readonly real: Decision;
}

interface Part extends InForce {
  readonly entry: Entry;
  readonly cost: number;
  look: Look & { share?: number };
}

export interface Answer {
  readonly decision: Decision;
  readonly handle: Handle;
}

const nothing = new Handle([], 0);
const denies = ({ look, policy }: Part) => look.wait > 0 && !policy.shadow;
const min = <T>(list: readonly T[], of: (item: T) => number) =>
  list.reduce<T | undefined>(
    (best, each) => (best === undefined || of(each) < of(best) ? each : best),
    undefined,
  );

export function decide(limiter: LimiterModel, question: Question, now: number): Answer {
  const { def } = limiter;
  const { keys, cost, id, isPeek, isWaiting = false } = question;
  const place = JSON.stringify(Object.entries(keys).sort());
  const inForce = limiter.inForce(keys, question.tier, now);
  const isFree = (policies: readonly Policy[]) => policies.every(({ name }) => costOf(cost, name) === 0);
  const configured = question.tier === undefined ? def.policies : def.tiers[question.tier]!;
  // If only an override makes a request free, the docs leave open whether its id is looked at.
  const isLook =
    isFree(inForce.map(({ policy }) => policy)) && (isFree(configured) || !question.real.repeated);
  const record = id === undefined || isLook ? undefined : limiter.ids.repeated(place, id, now, def.repeats);
  if (record) {
    const { decision, handle, until } = record;
    const delayMs = Math.max(0, decision.delayMs - (now - (until - def.idsFor)));
    return { decision: { ...decision, delayMs, repeated: true }, handle };
  }

  const parts = inForce.map((part): Part => {
    const entry = limiter.counts.of(def.name, part);
    const units = costOf(cost, part.policy.name);
    return { ...part, entry, cost: units, look: lookOf(limiter, part, entry, units, question, now) };
  });
  // In a tier, and where an override leaves policies out, the dimensions of the limiter or of the policies in force count.
  const first = limiter.keyOf(keys, [def.policies, ...Object.values(def.tiers)].flat());
  const key =
    first ===
    limiter.keyOf(
      keys,
      parts.map(({ policy }) => policy),
    )
      ? first
      : (ANY as unknown as string);
  const costs = Object.fromEntries(parts.map((part) => [part.policy.name, part.cost]));
  const common = { key, costs, delayMs: 0, degraded: false, repeated: false };
  const banKey = def.ban && keys[def.ban.by];
  const wait = Math.max(0, ...parts.filter(denies).map(({ look }) => look.wait));
  const ends = limiter.overrides.endsAfter(keys, now);
  const hasEnds = ends.length > 0;
  // When an override ends, other policies may follow.
  const following = hasEnds ? [def.policies, ...Object.values(def.tiers)].flat() : [];
  const hasShare = [...parts.map(({ policy }) => policy), ...following].some(
    ({ share }) => share !== undefined,
  );
  const rest = banKey === undefined ? 0 : limiter.bans!.rest(banKey, now);
  // Without verdicts.
  const bare = {
    ...common,
    ...{ policy: undefined, remaining: 0, charged: 0, policies: [] },
    ...(parts.length === 0 ? { cost: ANY as unknown as number } : {}),
  };
  if (rest > 0) {
    // Without verdicts, no bucket can follow the real one.
    const late = Math.max(0, ...parts.map(({ entry, policy }) => lateBy(limiter, entry, policy)));
    const first = Math.max(rest, wait);
    const { retryAfterMs = 0 } = question.real;
    const isRight = retryAfterMs >= first && retryAfterMs <= Math.max(rest, wait + late);
    const decision = {
      cost: Math.max(0, ...Object.values(costs)),
      ...bare,
      allowed: def.shadow,
      limit: parts[0]?.policy.limit ?? 0,
      retryAfterMs:
        hasEnds || hasShare || wait === NEVER ? (ANY as unknown as number) : isRight ? retryAfterMs : first,
      resetAfterMs: Math.max(rest, ...parts.filter(denies).map(({ look }) => look.reset)),
      reason: 'banned',
    };
    return { decision, handle: nothing };
  }

  if (parts.length === 0) {
    const free = { cost: 0, limit: 0, retryAfterMs: 0, resetAfterMs: 0, reason: undefined };
    const decision = { ...free, ...bare, key: ANY as unknown as string, allowed: true };
    return { decision, handle: nothing };
  }

  const isDenied = wait > 0;
  const isAttempt = ({ attempts }: Policy) => attempts && !isWaiting;
  const charged = parts.filter(({ look, policy }) => look.wait === 0 && (!isDenied || isAttempt(policy)));
  const before = new Map(parts.map((part) => [part, part.look]));
  const charges = isPeek
    ? []
    : charged.map((part) => ({
        policy: part.base,
        charge: part.entry.count.charge(now, part.cost, part.policy),
      }));
  if (!isPeek) {
    const isDemand = parts.every((part) => part.policy.share !== undefined || !denies(part));
    for (const part of parts)
      if (part.entry.count instanceof SharedCount && isDemand)
        part.entry.count.ask(keys[part.policy.share!] ?? '', now, part.look.wait === NEVER ? 0 : part.cost);
    for (const part of charged) {
      const isShared = part.entry.count instanceof SharedCount;
      const after = {
        ...part.entry.count.look(now, part.cost, part.policy),
        ...(isShared ? {} : walk(limiter, keys, question.tier, cost, now, part.policy.name)),
      };
      const share = before.get(part)!;
      part.look = share.isOpen
        ? { ...share, reset: after.reset }
        : { ...after, ...('share' in share ? { share: share.share } : {}) };
      report(limiter, part, now);
    }
  }

  const real = parts.filter(({ policy }) => !policy.shadow);
  const decider = isDenied
    ? min(
        real.filter((part) => before.get(part)!.wait > 0),
        (part) => -before.get(part)!.wait,
      )!
    : min(real.length > 0 ? real : parts, ({ look }) => look.remaining)!;
  const verdicts = parts.map((part): Verdict => {
    const first = before.get(part)!.wait;
    const { name, limit } = part.policy;
    return {
      name,
      key: part.key,
      allowed: first === 0,
      limit,
      remaining: part.look.remaining,
      retryAfterMs: first === NEVER ? undefined : first,
      resetAfterMs: part.look.reset,
      ...(part.look.share === undefined ? {} : { share: part.look.share }),
    };
  });
  // An attempt that was charged may make the next one wait longer.
  const attempts = (isDenied && !isPeek ? charged : []).filter(({ policy }) => !policy.shadow);
  const again = Math.max(0, ...attempts.map(({ look }) => look.wait));
  let retry = wait === NEVER ? NEVER : Math.max(wait, again);
  // A policy that admits now may deny later, when its override has ended.
  if (isDenied && hasEnds) {
    retry = walk(limiter, keys, question.tier, cost, now).wait;
    // Each change of the rate, also one to come, may round a bucket's debt by 2 ms.
    const changes = parts.map(({ entry }) =>
      entry.count instanceof Bucket ? entry.count.roundings + ends.length : 0,
    );
    const late = (question.real.retryAfterMs ?? NEVER) - retry;
    if (late > 0 && late <= 2 * Math.max(...changes)) retry += late;
  }
  let reason = !isDenied ? undefined : retry === NEVER ? 'cost-exceeds-capacity' : reasonOf(decider, now);
  // Beside a share, the docs leave open what the end of an override changes.
  const mayBeNever = retry === NEVER || question.real.reason === 'cost-exceeds-capacity';
  if (hasShare && hasEnds && isDenied && mayBeNever) reason = ANY as unknown as string;
  const counts =
    isDenied &&
    !isPeek &&
    !isWaiting &&
    def.ban !== undefined &&
    real.some(
      (part) =>
        before.get(part)!.wait > 0 && part.policy.by === def.ban!.by && reasonOf(part, now) !== 'fair-share',
    );
  const ban = counts && banKey !== undefined ? limiter.bans!.denied(banKey, now) : 0;
  // The docs do not say when a banned key is admitted whose cost never is.
  let isOpen = isDenied && hasShare;
  if (ban > 0) {
    reason = 'banned';
    // A fresh ban makes the quotas of the banned key whole, and no others.
    const left = parts.filter(
      ({ policy }) => !def.ban!.fresh || policy.by !== def.ban!.by || policy.algorithm === 'concurrency',
    );
    const waits = left.filter(({ policy }) => !policy.shadow).map((part) => before.get(part)!.wait);
    const later = attempts.filter((part) => left.includes(part)).map(({ look }) => look.wait);
    retry = Math.max(ban, ...[...waits, ...later].filter((each) => each !== NEVER));
    limiter.banned(banKey!, ban, now);
    isOpen = wait === NEVER || hasEnds || hasShare;
  }
  const decision: Decision = {
    ...common,
    allowed: !isDenied || def.shadow,
    cost: decider.cost,
    policy: decider.policy.name,
    limit: decider.policy.limit,
    remaining: decider.look.remaining,
    retryAfterMs: retry === NEVER ? undefined : retry,
    resetAfterMs: Math.max(decider.look.reset, ban),
    delayMs: isDenied || def.shadow ? 0 : Math.max(0, ...real.map((part) => before.get(part)!.delay)),
    reason,
    charged: isPeek || isDenied ? 0 : charged.includes(decider) ? decider.cost : 0,
    policies: verdicts,
  };
  // In the real time of slices, too, the docs leave open which of several denials lasts longest.
  if (hasEnds || def.slices) {
    // The verdicts of denials that last beyond an end have the time until all policies admit.
    const open = { policy: ANY, limit: ANY, remaining: ANY, cost: ANY, resetAfterMs: ANY };
    const list = verdicts.map((verdict) => (verdict.allowed ? verdict : { ...verdict, retryAfterMs: ANY }));
    const denials = real.filter((part) => before.get(part)!.wait > 0);
    const isMixed = ban === 0 && new Set(denials.map((part) => reasonOf(part, now))).size > 1;
    Object.assign(decision, denials.length > 1 ? open : {}, isMixed ? { reason: ANY } : {}, {
      policies: list,
    });
  }
  // Beside a shared policy, the driver looks at the time itself. A denial may also be due to units that a process holds.
  if (isOpen || (def.slices && isDenied)) Object.assign(decision, { retryAfterMs: ANY });
  const handle = isDenied ? nothing : new Handle(charges, now + def.idsFor);
  if (id !== undefined && !isPeek && !isDenied && !isLook)
    limiter.ids.remember(place, id, { decision, handle, until: now + def.idsFor, repetitions: 0 }, now);
  return { decision, handle };
}

function lookOf(
  limiter: LimiterModel,
  part: InForce,
  { count }: Entry,
  cost: number,
  question: Question,
  now: number,
): Part['look'] {
  const { policy } = part;
  const { keys, real } = question;
  if (!(count instanceof SharedCount)) {
    const verdict = real.policies.find(({ name }) => name === policy.name);
    if (count instanceof Bucket && verdict && !limiter.def.slices) {
      const isCharged = !question.isPeek && verdict.allowed && (real.reason === undefined || policy.attempts);
      count.follow(
        now,
        verdict.resetAfterMs - (isCharged ? (cost * policy.window) / policy.limit : 0),
        policy,
        slackOf(limiter.def),
      );
    }
    const look = count.look(now, cost, policy);
    const { wait, reset } = walk(limiter, keys, question.tier, question.cost, now, policy.name);
    const exact = { ...look, wait: look.wait === 0 ? 0 : wait, reset };
    const lookBy = (other: Policy) => count.look(now, cost, other);
    return lookAhead(
      limiter.def,
      { look: exact, policy, cost, hasDebts: limiter.hasDebts },
      isBucket(policy) ? () => exact : lookBy,
      verdict,
    );
  }
  const verdict = real.policies.find(({ name }) => name === policy.name);
  const isTimeOpen = limiter.def.slices === true || limiter.overrides.endsAfter(keys, now).length > 0;
  return count.lookAs(keys[policy.share!] ?? '', now, cost, policy, { verdict, isTimeOpen });
}

/** Of a charge in the millisecond of an override's change, a return may lose a unit. */
export const slackOf = ({ overrides }: LimiterDef) => (overrides ? 1 : 0);

const lateBy = (limiter: LimiterModel, { count }: Entry, policy: Policy) =>
  count instanceof Bucket ? Math.ceil(count.lateBy(policy, slackOf(limiter.def))) : 0;

function reasonOf({ entry, cost, policy }: Part, now: number): string {
  const hasRoom = entry.count instanceof SharedCount && entry.count.look(now, cost, policy).wait === 0;
  return hasRoom ? 'fair-share' : 'quota-exceeded';
}

/** Reports the thresholds that a charge reached. @param before the units in use before the charge */
export function report(
  limiter: LimiterModel,
  { entry, policy, key, look, cost }: Pick<Part, 'entry' | 'policy' | 'key' | 'look' | 'cost'>,
  now: number,
  before = wholeOf(policy) - look.remaining - cost,
): void {
  if (!policy.thresholds || cost <= 0) return;
  const whole: number = wholeOf(policy);
  const used = whole - look.remaining;
  for (const threshold of entry.marks.crossed(now, { used, before, whole, reset: look.reset }, policy))
    limiter.events.push({
      limiter: limiter.def.name,
      policy: policy.name,
      key,
      threshold,
      used,
      limit: whole,
      resetAfterMs: look.reset,
    });
}

export const wholeOf = ({ burst, limit }: Policy): number => burst ?? limit;
