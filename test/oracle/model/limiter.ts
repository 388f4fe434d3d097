// A limiter of the site: its methods predict the answers of the real one.
import { Bans } from './bans.js';
import { endOfPeriod } from './calendar.js';
import { costOf } from './costs.js';
import { Counts, type Entry } from './counts.js';
import { Bucket } from './bucket.js';
import { decide, report, slackOf, wholeOf, type Answer, type Question } from './decide.js';
import type { Caller, Handle, Part } from './handle.js';
import { Ids } from './ids.js';
import { applied, hasNewCount, Overrides, type Change, type InForce } from './overrides.js';
import { walk } from './retry.js';
import { SharedCount } from './shares.js';
import { heldOf } from './slices.js';
import type { Event } from './thresholds.js';
import { ANY, type Charge, type Cost, type Keys, type LimiterDef, type Policy } from './types.js';
import type { Logged } from './log.js';

export class LimiterModel {
  readonly counts = new Counts();
  readonly ids = new Ids();
  readonly bans: Bans | undefined;
  readonly overrides = new Overrides();
  readonly events: Event[] = [];
  /** Whether a decision was settled above its cost. */
  hasDebts = false;
  /** The denied requests. */
  readonly denials: { readonly keys: Keys; readonly policy: string | undefined }[] = [];

  readonly def: LimiterDef;
  private readonly log: Logged[];
  constructor(def: LimiterDef, log: Logged[]) {
    this.def = def;
    this.log = log;
    this.bans = def.ban && new Bans(def.ban);
  }

  /** The request's own key, or the key of its first dimension. */
  keyOf(keys: Keys, policies: readonly Policy[]): string {
    const dimensions = policies.map(({ by }) => by);
    const by =
      dimensions.includes('key') && keys['key'] !== undefined
        ? 'key'
        : dimensions.find((each) => keys[each] !== undefined);
    return by === undefined ? '' : keys[by]!;
  }

  inForce(keys: Keys, tier: string | undefined, now: number): InForce[] {
    this.drain(now);
    return this.overrides.inForce(this.def, tier, keys, now);
  }

  /** Buckets drain by the rates that overrides gave them, until now. */
  drain(now: number): void {
    for (const time of [...this.overrides.ends(now), now].sort((a, b) => a - b))
      for (const entry of this.counts.entries.values())
        if (entry.count instanceof Bucket && time >= entry.count.last) {
          entry.count.drain(time, this.policyNow(entry, time));
        }
  }

  /** A policy as it is in force for a key, if only its limit changed. */
  private policyNow({ base, by, key, isNew }: Entry, now: number, configured = base): Policy {
    if (isNew) return configured;
    const own = this.overrides.of([by, key], now)?.change;
    if (own?.tier !== undefined) return configured;
    // While the key's change leaves a policy out, or gives it another count, its bucket drains by the change of all keys.
    const changes = [own, this.overrides.of(undefined, now)?.change].map((each) => each?.policies[base.name]);
    return applied(
      configured,
      changes.find((each) => each && !hasNewCount(configured, each)),
    )!;
  }

  decide(question: Question, now: number): Answer {
    const answer = decide(this, question, now);
    const { reason, policy } = answer.decision;
    if (!question.isPeek && reason !== undefined) this.denials.push({ keys: question.keys, policy });
    return answer;
  }

  /** Whether a policy denied a request of a key. */
  hasDenied(by: string, key: string, policy: string): boolean {
    return this.denials.some(
      (each) => each.keys[by] === key && (each.policy === policy || (each.policy as unknown) === ANY),
    );
  }

  settle(handle: Handle, who: Caller, cost: Cost, now: number): void {
    this.drain(now);
    const entryOf = ({ charge }: { charge: Charge }) =>
      [...this.counts.entries.values()].find(({ count }) => count === charge.count)!;
    const policyOf = (part: Part) => {
      return this.policyNow(entryOf(part), now, part.policy);
    };
    const usedOf = (part: Part) => {
      const policy = policyOf(part);
      return wholeOf(policy) - part.charge.count.look(now, 0, policy).remaining;
    };
    const before = new Map(handle.parts.map((part) => [part, usedOf(part)]));
    for (const [part, more] of handle.settle(who, cost, now, policyOf)) {
      this.hasDebts ||= more > 0;
      const entry = entryOf(part);
      const policy = policyOf(part);
      const { key, count } = entry;
      const witness = who.reported?.findLast((event) => event.policy === policy.name && event.key === key);
      if (count instanceof Bucket && witness && !this.def.slices)
        count.follow(now, witness.resetAfterMs, policy, slackOf(this.def));
      // A bucket that follows the real one may have had a unit more in use before.
      const used = Math.max(before.get(part)!, usedOf(part) - more);
      report(this, { entry, policy, key, cost: more, look: count.look(now, 0, policy) }, now, used);
    }
  }

  refund(keys: Keys, cost: Cost, tier: string | undefined, now: number): void {
    for (const part of this.inForce(keys, tier, now))
      this.counts.of(this.def.name, part).count.giveBack(now, costOf(cost, part.policy.name), part.policy);
  }

  reset(keys: Keys, tier: string | undefined, now: number): void {
    const policies = tier === undefined ? undefined : this.def.tiers[tier]!;
    const ids = policies?.map(
      (policy) => this.counts.of(this.def.name, { policy, base: policy, isNew: false, key: '' }).id,
    );
    this.drain(now);
    this.counts.forget(
      ({ by, key, id, isNew, base }) =>
        keys[by] === key &&
        (!ids || ids.includes(id) || (isNew && policies!.some(({ name }) => name === base.name))),
    );
    for (const [by, key] of Object.entries(keys)) this.note('reset', now, { by, key });
  }

  /** A key was banned by denials. */
  banned(key: string, length: number, now: number): void {
    const { by, fresh } = this.def.ban!;
    const isFree = (entry: { base: { algorithm: string } }) => entry.base.algorithm !== 'concurrency';
    if (fresh) this.counts.forget((entry) => entry.by === by && entry.key === key && isFree(entry));
    this.note('ban', now, { by, key }, { forMs: length, from: 'denials', after: length });
  }

  ban(keys: Keys, length: number, now: number): void {
    const { by } = this.def.ban!;
    const rest = this.bans!.rest(keys[by]!, now);
    this.bans!.byHand(keys[by]!, now, length);
    this.note(
      'ban',
      now,
      { by, key: keys[by]! },
      { forMs: length, after: length, ...(rest > 0 ? { before: rest } : {}) },
    );
  }

  unban(keys: Keys, now: number): void {
    const { by } = this.def.ban!;
    const rest = this.bans!.rest(keys[by]!, now);
    this.bans!.end(keys[by]!);
    this.note('unban', now, { by, key: keys[by]! }, rest > 0 ? { before: rest } : {});
  }

  override(
    place: readonly [string, string] | undefined,
    change: Change | undefined,
    length: number | undefined,
    now: number,
  ): boolean {
    this.drain(now);
    const earlier = this.overrides.of(place, now);
    if (!change && !earlier) return false;
    const until = length === undefined ? undefined : now + length;
    this.overrides.set(place, change && { change, since: now, until, by: undefined, reason: undefined });
    this.drain(now);
    const whose = place ? { by: place[0], key: place[1] } : undefined;
    this.note(change ? 'override' : 'remove', now, whose, {
      forMs: length ?? 0,
      ...(earlier ? { before: earlier.change.given } : {}),
      ...(change ? { after: change.given } : {}),
    });
    return earlier !== undefined;
  }

  usage(keys: Keys, tier: string | undefined, now: number, real: { policies: readonly Usage[] }): unknown {
    const policies = this.inForce(keys, tier, now).map((part): Usage => {
      const { policy, key } = part;
      const { count } = this.counts.of(this.def.name, part);
      const witness = real.policies.find(({ name }) => name === policy.name);
      if (count instanceof Bucket && witness && !this.def.slices)
        count.follow(now, witness.resetsAt - now, policy, slackOf(this.def));
      const { remaining } = count.look(now, 0, policy);
      const { reset } = walk(this, keys, tier, 0, now, policy.name);
      const resetsAt = policy.algorithm === 'calendar' ? endOfPeriod(now, policy.period) : now + reset;
      const unit = policy.unit ?? (policy.algorithm === 'concurrency' ? 'concurrent-requests' : 'requests');
      const usage = {
        name: policy.name,
        key,
        limit: policy.limit,
        used: wholeOf(policy) - remaining,
        remaining,
        unit,
        resetsAt,
      };
      const held = heldOf(this.def, policy);
      const isHeld = witness && witness.remaining <= remaining && witness.remaining >= remaining - held;
      if (held > 0 && isHeld) return { ...usage, used: witness.used, remaining: witness.remaining };
      if (!(count instanceof SharedCount) || !witness) return usage;
      const { share = -1 } = witness;
      const isRight =
        share >= 0 && share <= policy.limit && witness.remaining >= 0 && witness.remaining <= remaining;
      return isRight
        ? { ...usage, share, used: witness.used, remaining: witness.remaining }
        : { ...usage, share: policy.limit };
    });
    const banKey = this.def.ban && keys[this.def.ban.by];
    const rest = banKey === undefined ? 0 : this.bans!.rest(banKey, now);
    const override = [...new Set(this.def.policies.map(({ by }) => by))]
      .flatMap((by) => (keys[by] === undefined ? [] : [this.overrideOf([by, keys[by]], now)]))
      .find((each) => each !== undefined);
    return { policies, bannedUntil: rest > 0 ? now + rest : undefined, override };
  }

  /** The time of the last change of the limits of all keys, and of a key if there is one: of an override, of its removal, or of its end. */
  limitsChangedAt(place: readonly [string, string] | undefined, now: number): number {
    const own = this.log.filter(
      ({ name, action }) => name === this.def.name && (action === 'override' || action === 'remove'),
    );
    const ofKey = own.findLast(({ by, key }) => place && by === place[0] && key === place[1]);
    const newest = [own.findLast(({ key }) => key === undefined), ofKey];
    const times = newest.flatMap((each) =>
      each ? [each.at, each.forMs > 0 ? each.at + each.forMs : 0] : [],
    );
    return Math.max(0, ...times.filter((time) => time <= now));
  }

  overrideOf(place: readonly [string, string] | undefined, now: number): unknown {
    const override = this.overrides.of(place, now);
    return (
      override && {
        change: override.change.given,
        since: override.since,
        until: override.until,
        by: override.by,
        reason: override.reason,
      }
    );
  }

  private note(action: string, now: number, whose?: { by: string; key: string }, more: object = {}): void {
    this.log.push({
      at: now,
      name: this.def.name,
      action,
      ...whose,
      keys: 1,
      forMs: 0,
      from: 'program',
      ...more,
    });
  }
}

interface Usage {
  readonly name: string;
  readonly key: string;
  readonly limit: number;
  readonly used: number;
  readonly remaining: number;
  readonly unit: string;
  readonly resetsAt: number;
  readonly share?: number;
}
