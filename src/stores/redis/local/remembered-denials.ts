import { hasBan } from '../../../features/bans/ban-operations.js';
import { afterAttempts, countsAttempts } from '../../../features/attempts/attempts.js';
import { featuresOf } from '../../../features/features.js';
import { escapeKey } from '../../keys.js';
import { DeniedKeys, type Denial } from './denied-keys.js';
import { setsByDimension, type DimensionSet } from '../../../contract/dimension-sets.js';
import { performance } from '../../../common/real-time.js';
import type { Reply } from '../../../contract/reply.js';
import type { Keys, PolicySet, Query } from '../../../contract/store.js';
import { NEVER, waitOf } from '../../../contract/verdicts.js';

/** The most denials, and the most changes, that are remembered per limiter name. */
const MAX_REMEMBERED = 10_000;

/** The store's clock counts whole milliseconds, so the store may admit one millisecond before the end of the wait. */
const CLOCK_TICK_MS = 1;

/** The longest text of several keys that is remembered with a denial. */
const MAX_KEYS_LENGTH = 1000;

/** The memory of the keys of a limiter name and a dimension. */
interface KnownKeys {
  readonly denied: DeniedKeys;
  /** The time of the last change of a key's charges other than by a decision. The oldest change comes first. Long keys are hashed. */
  readonly changes: Map<string, number>;
  /** The time of the last change that is no longer in `changes`. A question from before may be older than a change of its key. */
  forgotten: number;
}

/** A set's part, and the memory of its keys. */
interface KnownPart extends DimensionSet {
  readonly known: KnownKeys;
}

/**
 * Remembers denials, so that a denied key needs no call. Only the same question is answered from memory: the same key, cost and policies. The
 * memory lasts until the store might admit the question, by a monotonic clock, counted from the time of the question. A refund, reset, ban or
 * unban through this process ends the memory at once. Units returned by other processes are noticed after `longest` ms at the latest.
 */
export class RememberedDenials {
  readonly longest: number;
  readonly clock: () => number;
  readonly #scopes = new Map<string, KnownKeys>();

  /** @param clock a monotonic clock in ms, for tests */
  constructor(longest: number, clock = performance.now) {
    this.longest = longest;
    this.clock = clock;
  }

  /** The memory of a policy set, which it shares with sets of the same name with equal policies. */
  of(set: PolicySet): SetDenials {
    return new SetDenials(this, set);
  }

  /** The memory of the keys of a limiter name and a dimension. @param policies those of the first set that asks */
  scope(dimension: string, name: string, policies: string): KnownKeys {
    const id = `${dimension} ${name}`;
    let scope = this.#scopes.get(id);
    if (!scope) {
      scope = { denied: new DeniedKeys(policies, MAX_REMEMBERED), changes: new Map(), forgotten: -Infinity };
      this.#scopes.set(id, scope);
    }
    return scope;
  }
}

/** The denials of a policy set. All subjects and queries are of the set. */
export class SetDenials {
  readonly #memory: RememberedDenials;
  readonly #set: PolicySet;
  /** The policies as a text. */
  readonly #policies: string;
  readonly #parts: readonly KnownPart[];
  /** The keys of the only part, or of the first. */
  readonly #first: KnownKeys;
  readonly #hasAttempts: boolean;

  constructor(memory: RememberedDenials, set: PolicySet) {
    this.#memory = memory;
    this.#set = set;
    this.#policies = JSON.stringify([
      set.policies.map(({ id, by, shadow, attempts, params }) => [id, by, shadow, attempts, params]),
      set.ban,
      set.dimensions,
    ]);
    this.#parts = setsByDimension(set).map((part) => ({
      ...part,
      known: memory.scope(part.scope, set.name, this.#policies),
    }));
    this.#first = this.#parts[0]!.known;
    this.#hasAttempts = countsAttempts(set);
  }

  /** The answer to a query, if the store is known to deny it now. */
  recall({ key, cost, costs, peek }: Query): Reply | undefined {
    if (peek) return undefined;
    if (typeof key !== 'string') return this.#recallAny(key, costs?.join() ?? cost);
    const { denied } = this.#first;
    if (denied.size === 0) return undefined;
    const row = denied.find(key);
    if (row === 0) return undefined;
    // Only the store knows when it admits a different cost, or the same cost by other policies.
    return denied.policiesOf(row) === this.#policies
      ? denied.reply(row, costs?.join() ?? cost, this.#memory.clock())
      : undefined;
  }

  /** Like `recall`, for several keys. A single key finds the denial, but the denial only answers queries with exactly the same keys. */
  #recallAny(key: Keys, cost: Denial['cost']): Reply | undefined {
    let keys: string | undefined;
    for (const { known, keyOf } of this.#parts) {
      const { denied } = known;
      const row = denied.find(keyOf(key));
      if (row === 0 || denied.policiesOf(row) !== this.#policies) continue;
      const of = denied.keysOf(row);
      if (of !== undefined && of !== (keys ??= JSON.stringify(key))) continue;
      const reply = denied.reply(row, cost, this.#memory.clock());
      if (reply) return reply;
    }
    return undefined;
  }

  /** Learns from the store's answer to a query. @param asked the time of the query */
  learn({ key, cost, costs, peek }: Query, answer: Reply, asked: number): void {
    if ((peek && cost === 0) || answer.clientChanges) return;
    const set = this.#set;
    const reply = this.#hasAttempts ? afterAttempts(set, answer) : answer;
    const wait = denialOf(set, reply);
    if (wait === 0) {
      // The charge may have made a remembered wait too short. An admitted peek shows that units were returned.
      for (const { known, keyOf } of this.#parts)
        if (known.denied.size > 0) known.denied.delete(known.denied.find(keyOf(key)));
      return;
    }
    if (peek) return;
    const { known, keyOf } = decider(this.#parts, reply);
    const deniedKey = keyOf(key);
    if (asked <= (known.changes.get(escapeKey(deniedKey)) ?? known.forgotten)) return;
    const { longest, clock } = this.#memory;
    const until = asked + Math.min(longest, wait - CLOCK_TICK_MS);
    const received = clock();
    if (until <= received) return;
    const noted = { ...reply, ban: Math.abs(reply.ban) };
    const keys = typeof key === 'string' ? undefined : JSON.stringify(key);
    if (keys !== undefined && keys.length > MAX_KEYS_LENGTH) return;
    known.denied.set(deniedKey, {
      policies: this.#policies,
      keys,
      cost: costs?.join() ?? cost,
      reply: noted,
      received,
      until,
    });
  }

  /** Forgets the denials of a subject's keys. Call it before the store receives a change, and again after the store has answered or failed. */
  forget(keys: Keys): void {
    for (const { known, keyOf } of this.#parts) this.#forget(known, keyOf(keys));
  }

  #forget(scope: KnownKeys, key: string): void {
    scope.denied.delete(scope.denied.find(key));
    const { changes } = scope;
    const id = escapeKey(key);
    changes.delete(id);
    changes.set(id, this.#memory.clock());
    if (changes.size <= MAX_REMEMBERED) return;
    const [oldest, at] = changes.entries().next().value!;
    scope.forgotten = at;
    changes.delete(oldest);
  }
}

/** The part with the banned key, or with the longest denial. A return to another key does not end the denial. */
function decider(parts: readonly KnownPart[], { ban, verdicts }: Reply): KnownPart {
  if (ban !== 0) return parts.find(hasBan)!;
  let decider = parts[0]!;
  let longest = 0;
  for (const part of parts) {
    for (let i = 0; i < part.at.length; i++) {
      const wait = waitOf(verdicts, part.at[i]!);
      const time = part.set.policies[i]!.shadow ? 0 : wait === NEVER ? Infinity : wait;
      if (time <= longest) continue;
      decider = part;
      longest = time;
    }
  }
  return decider;
}

/** The time for which a reply denies regardless of other requests, ms. 0 for an admission, or if the store must see each such request. */
function denialOf(set: PolicySet, reply: Reply): number {
  const { policies } = set;
  const isRefused = reply.ban !== 0;
  let longest = Math.abs(reply.ban);
  for (let i = 0; i < policies.length && !isRefused; i++) {
    const wait = waitOf(reply.verdicts, i);
    if (policies[i]!.shadow) continue;
    if (wait === NEVER) longest = Infinity;
    else if (wait > longest) longest = wait;
  }
  if (longest === 0) return 0;
  for (const { remembered } of featuresOf(set))
    longest = Math.min(longest, remembered?.(set, reply, isRefused) ?? Infinity);
  return longest;
}
