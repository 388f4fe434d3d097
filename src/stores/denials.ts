import { DeniedKeys } from './denied-keys.js';
import { performance } from './real-time.js';
import type { PolicySet, Query, Reply, Subject } from './store.js';
import { NEVER, waitOf } from './verdicts.js';

/** Denials that are remembered, and changes, each per limiter name. */
const MOST = 10_000;

/** A store's clock counts whole milliseconds: it may admit up to one earlier than it said. */
const TICK = 1;

/** What is known of the keys of one limiter name. */
interface Scope {
  readonly denied: DeniedKeys;
  /** When what was charged to a key was last changed, other than by a decision: oldest first. */
  readonly changes: Map<string, number>;
  /** The last change that had to be forgotten: what was asked before it may be older than a change. */
  forgotten: number;
}

/** A policy set: those with equal policies, under one name, are alike. */
interface View {
  readonly scope: Scope;
  readonly policies: string;
}

/**
 * Remembers denials, so that a key which is being denied costs no call. A question is answered from memory only if it is the
 * very one that was denied, of the same policies and cost, and only until the store might admit it: counted from when it was
 * asked, by a monotonic clock. What is given back, reset, banned or unbanned through this process ends the memory at once;
 * what other processes give back, within `longest` ms.
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
    if (!view) {
      const policies = JSON.stringify([
        set.policies.map(({ id, shadow, attempts, params }) => [id, shadow, attempts, params]),
        set.ban,
      ]);
      let scope = this.#scopes.get(set.name);
      if (!scope) {
        scope = { denied: new DeniedKeys(policies, MOST), changes: new Map(), forgotten: -Infinity };
        this.#scopes.set(set.name, scope);
      }
      view = { scope, policies };
      this.#views.set(set, view);
    }
    this.#lastSet = set;
    this.#lastView = view;
    return view;
  }

  /** The answer to a query, if the store is known to deny it now. */
  recall({ set, key, cost, peek }: Query): Reply | undefined {
    const { scope, policies } = this.#view(set);
    const { denied } = scope;
    const slot = peek ? 0 : denied.find(key);
    if (slot === 0) return undefined;
    // Of another cost, and by other policies, the store alone knows when it is admitted.
    return denied.policiesOf(slot) === policies ? denied.reply(slot, cost, this.#clock()) : undefined;
  }

  /** Takes note of what the store answered to a query that was asked at `asked`. */
  learn({ set, key, cost, peek }: Query, reply: Reply, asked: number): void {
    if (peek) return;
    const { scope, policies } = this.#view(set);
    const { denied } = scope;
    const wait = denialOf(set, reply);
    if (wait === 0) {
      // Something was charged: what was denied has to wait longer now.
      denied.delete(denied.find(key));
      return;
    }
    if (asked <= (scope.changes.get(key) ?? scope.forgotten)) return;
    const until = asked + Math.min(this.#longest, wait - TICK);
    const received = this.#clock();
    if (until <= received) return;
    const { now, step } = reply;
    const noted = reply.ban === 0 ? reply : { now, step, ban: Math.abs(reply.ban), verdicts: [] };
    denied.set(key, { policies, cost, reply: noted, received, until });
  }

  /** Forgets a key's denial. To be called before the store is told of a change, and after it has answered or failed. */
  forget({ set, key }: Subject): void {
    const { scope } = this.#view(set);
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

/** For how long a reply denies whatever others do, ms; 0 if it does not, or if the store must hear of each denial. */
function denialOf({ policies, ban }: PolicySet, reply: Reply): number {
  if (reply.ban !== 0) return Math.abs(reply.ban);
  let longest = 0;
  // From then on an attempt is charged somewhere.
  let uncharged = Infinity;
  for (let i = 0; i < policies.length; i++) {
    const wait = waitOf(reply.verdicts, i);
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
