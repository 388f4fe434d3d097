import { DeniedKeys } from './denied-keys.js';
import { partsOf, type Part } from '../state/parts.js';
import { performance } from '../../common/real-time.js';
import type { Keys, PolicySet, Query, Reply, Subject } from '../../contract/store.js';
import { addVerdict, NEVER, nextWait, remainingOf, resetOf, waitOf } from '../../contract/verdicts.js';

/** The most denials, and the most changes, that are remembered of a limiter name. */
const MOST = 10_000;

/** The store's clock counts whole milliseconds, so the store may admit up to one earlier than it said. */
const TICK = 1;

/** The most text of several keys that is remembered with a denial. */
const LONGEST = 1000;

/** What is known of the keys of one limiter name, and of one dimension. */
interface Scope {
  readonly denied: DeniedKeys;
  /** When what was charged to a key was last changed, other than by a decision: oldest first. */
  readonly changes: Map<string, number>;
  /** When the last change that had to be forgotten was made. A question that was asked before may be older than a change of its key. */
  forgotten: number;
}

/** What is known of the keys of a set's part. */
interface ScopedPart extends Part {
  readonly known: Scope;
}

/** What is known of a policy set. Sets of one name with equal policies share it. */
interface View {
  /** The scope of its only part, or of its first. */
  readonly scope: Scope;
  readonly parts: readonly ScopedPart[];
  readonly policies: string;
}

/**
 * Remembers denials, so that a key which is being denied costs no call. Only the same question is answered from memory: the same key,
 * cost and policies. It is answered until the store might admit it, counted by a monotonic clock from when it was asked. A refund, reset,
 * ban or unban through this process ends the memory at once. What other processes give back is seen after `longest` ms at the latest.
 */
export class Denials {
  readonly #longest: number;
  readonly #clock: () => number;
  readonly #scopes = new Map<string, Scope>();
  readonly #views = new WeakMap<PolicySet, View>();
  #lastSet: PolicySet | undefined;
  #lastView: View | undefined;

  /** @param clock monotonic, ms; for tests */
  constructor(longest: number, clock = () => performance.now()) {
    this.#longest = longest;
    this.#clock = clock;
  }

  #view(set: PolicySet): View {
    if (set === this.#lastSet) return this.#lastView!;
    let view = this.#views.get(set);
    if (!view) this.#views.set(set, (view = this.#makeView(set)));
    this.#lastSet = set;
    this.#lastView = view;
    return view;
  }

  #makeView(set: PolicySet): View {
    const policies = JSON.stringify([
      set.policies.map(({ id, by, shadow, attempts, params }) => [id, by, shadow, attempts, params]),
      set.ban,
      set.dimensions,
    ]);
    const parts = partsOf(set).map((part) => ({
      ...part,
      known: this.#scope(part.scope, set.name, policies),
    }));
    return { scope: parts[0]!.known, parts, policies };
  }

  #scope(dimension: string, name: string, policies: string): Scope {
    const id = `${dimension} ${name}`;
    let scope = this.#scopes.get(id);
    if (!scope) {
      scope = { denied: new DeniedKeys(policies, MOST), changes: new Map(), forgotten: -Infinity };
      this.#scopes.set(id, scope);
    }
    return scope;
  }

  /** The answer to a query, if the store is known to deny it now. */
  recall({ set, key, cost, peek }: Query): Reply | undefined {
    const { scope, parts, policies } = this.#view(set);
    if (typeof key !== 'string') return peek ? undefined : this.#recallAny(parts, policies, key, cost);
    const { denied } = scope;
    const slot = peek ? 0 : denied.find(key);
    if (slot === 0) return undefined;
    // Only the store knows when another cost is admitted, or the same cost by other policies.
    return denied.policiesOf(slot) === policies ? denied.reply(slot, cost, this.#clock()) : undefined;
  }

  /** The same for several keys. The denial is found by one of them, but only the very same keys are answered by it. */
  #recallAny(parts: readonly ScopedPart[], policies: string, key: Keys, cost: number): Reply | undefined {
    let keys: string | undefined;
    for (const { known, keyOf } of parts) {
      const { denied } = known;
      const slot = denied.find(keyOf(key));
      if (slot === 0 || denied.policiesOf(slot) !== policies) continue;
      const of = denied.keysOf(slot);
      if (of !== undefined && of !== (keys ??= JSON.stringify(key))) continue;
      const reply = denied.reply(slot, cost, this.#clock());
      if (reply) return reply;
    }
    return undefined;
  }

  /** Takes note of what the store answered to a query that was asked at `asked`. */
  learn({ set, key, cost, peek }: Query, answer: Reply, asked: number): void {
    if (peek) return;
    const { parts, policies } = this.#view(set);
    const reply = toTheNext(set, answer);
    const wait = denialOf(set, reply);
    if (wait === 0) {
      // Something was charged meanwhile, so a remembered wait is too short: forget it.
      for (const { known, keyOf } of parts) known.denied.delete(known.denied.find(keyOf(key)));
      return;
    }
    const { known, keyOf } = decider(parts, reply);
    const its = keyOf(key);
    if (asked <= (known.changes.get(its) ?? known.forgotten)) return;
    const until = asked + Math.min(this.#longest, wait - TICK);
    const received = this.#clock();
    if (until <= received) return;
    const { now, step, ban } = reply;
    const noted = ban === 0 ? reply : { now, step, ban: Math.abs(ban), verdicts: [] };
    const keys = ban === 0 && typeof key !== 'string' ? JSON.stringify(key) : undefined;
    if (keys !== undefined && keys.length > LONGEST) return;
    known.denied.set(its, { policies, keys, cost, reply: noted, received, until });
  }

  /** Forgets a key's denial. To be called before the store is told of a change, and after it has answered or failed. */
  forget({ set, key }: Subject): void {
    for (const { known, keyOf } of this.#view(set).parts) this.#forget(known, keyOf(key));
  }

  #forget(scope: Scope, key: string): void {
    scope.denied.delete(scope.denied.find(key));
    const { changes } = scope;
    changes.delete(key);
    changes.set(key, this.#clock());
    if (changes.size <= MOST) return;
    const [oldest, at] = changes.entries().next().value!;
    scope.forgotten = at;
    changes.delete(oldest);
  }
}

/** What a reply says of the next query of the same kind: attempts that were charged count for it. */
function toTheNext({ policies }: PolicySet, reply: Reply): Reply {
  if (reply.verdicts.length === 0 || !policies.some(({ attempts }) => attempts)) return reply;
  const verdicts: number[] = [];
  policies.forEach(({ attempts }, i) => {
    const wait = waitOf(reply.verdicts, i);
    const next = attempts ? nextWait(wait, attempts) : wait;
    addVerdict(verdicts, next, remainingOf(reply.verdicts, i), resetOf(reply.verdicts, i));
  });
  return { ...reply, verdicts };
}

/** The part whose key is banned, or which denies longest. What is given back to another key does not end the denial. */
function decider(parts: readonly ScopedPart[], { ban, verdicts }: Reply): ScopedPart {
  if (ban !== 0) return parts.find(({ set }) => set.ban)!;
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

/** For how many ms a reply denies, whatever other requests do. 0 if it admits, or if the store must hear of each denial. */
function denialOf({ policies, ban, dimensions }: PolicySet, reply: Reply): number {
  if (reply.ban !== 0) return Math.abs(reply.ban);
  let longest = 0;
  // The time until a policy would charge the next attempt.
  let uncharged = Infinity;
  for (let i = 0; i < policies.length; i++) {
    const wait = waitOf(reply.verdicts, i);
    // Once its key gets units back, it charges attempts again. A denial that is remembered under another key would not notice.
    if (policies[i]!.attempts && dimensions) return 0;
    if (policies[i]!.attempts && wait !== NEVER) uncharged = Math.min(uncharged, wait);
    // A slot may be released at any moment.
    if (policies[i]!.traits.holdsSlots) return 0;
    if (policies[i]!.shadow) continue;
    if (wait === NEVER) longest = Infinity;
    else if (wait > longest) longest = wait;
  }
  // Denials that count towards a ban are counted by the store.
  return longest > 0 && ban !== undefined && ban.after > 0 ? 0 : Math.min(longest, uncharged);
}
