import { conclude, ofLimiter, type LimiterDecision } from '../limiter/decision.js';
import { BAN_TAG, escapeName } from '../stores/keys.js';
import { ONE_UNIT } from '../contract/costs.js';
import { isUndecided } from '../contract/reply.js';
import { lookOf, type PolicySet } from '../contract/store.js';
import { BanFinder } from './bans/ban-finder.js';
import { DeniedNow } from './denied-now.js';
import { kernelOf, policyNameOf, statesOf, type JudgedKey, type KeyVerdictFind } from './finds.js';
import { knownLimiters, readersOf, sharersOf, type KnownLimiter, type TierLimits } from './known-limiters.js';
import { factsOf, type TierFind } from './likely-tiers.js';
import { decidingBy, overrideOfAll } from './overrides/override-views.js';
import { ofDimension } from './limits.js';
import { isCharge, whoseState } from './owners.js';
import { callable, tenantVerdicts, usesOf, type TenantUse } from './shared-limits.js';
import type { FoundKey, Owner, Search, State } from './state.js';

export interface Wanted {
  readonly name: string | undefined;
  /** The limits by the limiter's name: of requests without a tier, and of each tier. */
  readonly limits: ReadonlyMap<string, readonly TierLimits[]>;
  readonly banned: boolean;
  readonly limited: boolean;
  /** Whether to include keys that would be admitted now. */
  readonly admitted: boolean;
  /** Whether to include state that no known limit reads: in all scopes, or only in scopes with unknown limits. */
  readonly states: boolean | 'of unknown scopes';
}

/** State that one limiter judges, in one tier and dimension. */
interface Group {
  readonly known: KnownLimiter;
  /** Whether the keys are tenants of a shared limit. */
  readonly areTenants: boolean;
  readonly keys: readonly FoundKey[];
}

type Unreadable = Extract<KeyVerdictFind, { kind: 'unreadable' }>;

/** A fact about a key, and its owner text. */
interface Verdict {
  readonly find: TierFind | Unreadable;
  readonly owner: string;
}

/** Finds banned, limited and otherwise known keys. The order is that of the store, and each fact is found once. */
export class KeyFinder {
  readonly #state: State;
  readonly #wanted: Wanted;
  /** The limiters in each tier, by their names in Redis keys. */
  readonly #known: ReadonlyMap<string, readonly KnownLimiter[]>;
  readonly #found = new Set<string>();
  readonly #denied: DeniedNow;
  readonly #bans: BanFinder;
  /** By limiter with several policies or tiers, the owners that were looked at: the states of an owner are on several pages. */
  readonly #judged = new Map<KnownLimiter, Set<string>>();
  /** The number of Headgate's keys that were checked. */
  looked = 0;
  /** The limiters with state that no verdict is about, because the limits are unknown. */
  readonly unjudged = new Set<string>();

  constructor(state: State, wanted: Wanted) {
    this.#state = state;
    this.#wanted = wanted;
    this.#denied = new DeniedNow(state);
    this.#bans = new BanFinder(state);
    this.#known = knownLimiters(wanted.limits);
  }

  /** Bans come first, because they are few, and a user who reads only the first lines must not miss one. */
  async *finds(options: Pick<Search, 'count' | 'progress' | 'signal'> = {}): AsyncGenerator<KeyVerdictFind> {
    const { name, banned, limited, admitted, states } = this.#wanted;
    const others = limited || admitted || states !== false;
    const rounds = Number(banned) + Number(others);
    const round = (done: number): Search => ({
      ...{ ...options, name },
      progress: (share) => options.progress?.((done + share) / rounds),
    });
    if (banned)
      for await (const { keys, isSearched } of this.#bans.pages(round(0))) {
        if (isSearched && !others) this.looked += keys.length;
        yield* (await this.#bans.of(this.#named(keys))).finds;
      }
    if (!others || options.signal?.aborted) return;
    for await (const page of this.#state.search(round(rounds - 1))) {
      this.looked += page.length;
      yield* await this.#examine(this.#named(page));
    }
  }

  /** The keys of state, with the requested name, or the name in the key. */
  #named(page: readonly FoundKey[]): FoundKey[] {
    const { name: asked } = this.#wanted;
    const own = page.filter(({ id }) => id === BAN_TAG || isCharge(id));
    return own.map(({ owner, id }) => {
      const known = this.#known.get(owner.scope) ?? [];
      const isAsked = asked !== undefined && escapeName(asked) === owner.scope;
      const name = isAsked ? asked : (known[0]?.name ?? owner.name);
      // A database hashes the dimension together with the key, but the policy of the state has it.
      const hashed = typeof owner.key === 'string' ? [] : known.flatMap(({ policies }) => policies);
      const by = hashed.find((policy) => policy.id === id)?.by ?? owner.by;
      return { owner: { ...owner, name, by }, id };
    });
  }

  async #examine(keys: readonly FoundKey[]): Promise<KeyVerdictFind[]> {
    const { limited, admitted, states: wanted } = this.#wanted;
    const others: FoundKey[] = [];
    const groups = new Map<string, Group & { keys: FoundKey[] }>();
    for (const key of keys) {
      const { scope, by, name, slot } = key.owner;
      const known = this.#known.get(scope);
      const isBan = key.id === BAN_TAG;
      const sharing = isBan ? [] : sharersOf(known ?? [], key);
      const areTenants = sharing.length > 0;
      const judges = areTenants || isBan ? sharing : readersOf(known ?? [], key);
      for (const each of judges) {
        const group = `${by} ${areTenants ? slot!.by : ''} ${each.tier ?? ''} ${scope}`;
        if (!groups.get(group)?.keys.push(key)) groups.set(group, { known: each, areTenants, keys: [key] });
      }
      if (judges.length > 0) continue;
      if (wanted === true || (wanted && !known)) others.push(key);
      else if (!isBan && !known && this.unjudged.size < MAX_UNJUDGED)
        this.unjudged.add(typeof name === 'string' ? name : name.hash);
    }
    const bans = others.filter(({ id }) => id === BAN_TAG);
    const [{ finds, others: counted }, verdicts, states] = await Promise.all([
      this.#bans.of(bans),
      limited || admitted ? this.#judge([...groups.values()]) : [],
      this.#states(others.filter(({ id }) => id !== BAN_TAG)),
    ]);
    const strikes = counted.length > 0 ? await this.#states(counted) : [];
    return [...finds, ...strikes, ...verdicts, ...states];
  }

  /** Returns true for the first occurrence of a text. */
  #isNew(what: string): boolean {
    return this.#found.size < this.#found.add(what).size;
  }

  /** The verdicts on keys, one for each. A key that is limited in a tier is not admitted in another one, because its tier is unknown. */
  async #judge(groups: readonly Group[]): Promise<KeyVerdictFind[]> {
    const { limited, admitted } = this.#wanted;
    const inOrder = [...groups].sort((a, b) => Number(a.areTenants) - Number(b.areTenants));
    const verdicts = inOrder.map((group) =>
      group.areTenants ? this.#verdictsOnTenants(group) : this.#verdicts(group),
    );
    const all = (await Promise.all(verdicts)).flat();
    const others = all.filter(({ find }) => find.kind === 'unreadable').map(({ find }) => find);
    const byOwner = new Map<string, TierFind[]>();
    for (const { find, owner } of all) {
      if (find.kind === 'unreadable') continue;
      if (!byOwner.get(owner)?.push(find)) byOwner.set(owner, [find]);
    }
    const facts: { readonly owner: string; readonly find: JudgedKey }[] = [];
    for (const [owner, finds] of byOwner) {
      const isOpen = finds.length > 1 && finds.some(({ kind }) => kind === 'limited');
      const denial = isOpen ? await this.#denied.of(finds[0]!) : undefined;
      facts.push(...factsOf(finds, denial).map((find) => ({ owner, find })));
    }
    for (const { find, owner } of facts)
      if (find.kind === 'limited' && find.likely) this.#found.add(`limited ${owner}`);
    const isNew = ({ find, owner }: (typeof facts)[number]): boolean =>
      find.kind === 'limited'
        ? limited && this.#isNew(`is limited ${owner}`)
        : admitted && !this.#found.has(`limited ${owner}`) && this.#isNew(`admitted ${owner}`);
    return [...others, ...facts.filter(isNew).map(({ find }) => find)];
  }

  /** The verdicts on keys of one limiter, tier and dimension, by the policies of this dimension. */
  async #verdicts({ known, keys }: Group): Promise<Verdict[]> {
    const { by } = keys[0]!.owner;
    const { name, limits } = known;
    const all = await overrideOfAll(this.#state, name, limits);
    const set: PolicySet = {
      name,
      policies: known.policies.filter((policy) => policy.by === by),
      timeout: this.#state.timeout,
      overrides: all.applied,
    };
    const judged = this.#judged.get(known) ?? new Set();
    this.#judged.set(known, judged);
    const whole = [...new Map(keys.map((key) => [key.owner.text, key])).values()].filter(
      ({ owner: { text } }) => !judged.has(text),
    );
    const owners = whole.map(({ owner }) => owner);
    const replies = await this.#state.look(set, owners);
    // A look counts for the states of all policies and tiers.
    if (set.policies.length > 1 || this.#known.get(escapeName(name))!.length > 1)
      for (const [i, { text }] of owners.entries()) if (!(replies[i] instanceof Error)) judged.add(text);
    const finds = whole.map(async (key, i): Promise<Verdict['find'][]> => {
      const reply = replies[i]!;
      if (reply instanceof Error) return this.#unreadable(key, reply);
      const isOpen = isUndecided(reply) || all.isOfOtherKind(reply.now);
      const { key: text } = key.owner;
      const who = typeof text === 'string' ? text : text.hash;
      const decision = isOpen
        ? await this.#decisionOf(known, key)
        : conclude(lookOf({ set, key: who }, ONE_UNIT), reply, limits.shadow);
      if (!decision) return this.#unreadable(key, new Error(NOT_READ_HERE));
      return [{ ...findOf(known, key.owner, decision), overridden: isOpen || reply.limits !== undefined }];
    });
    return (await Promise.all(finds)).flatMap((some, i) =>
      some.map((find) => ({ find, owner: whole[i]!.owner.text })),
    );
  }

  /** The verdicts on tenants of a shared limit. A share depends on the other tenants, so only a limiter can compute it. */
  async #verdictsOnTenants({ known, keys }: Group): Promise<Verdict[]> {
    const { name, limits } = known;
    const owners = [...new Map(keys.map(({ owner }) => [owner.text, owner])).values()];
    const own = ofDimension(limits, owners[0]!.slot!.by);
    const uses = await usesOf(this.#state, limits.policies, keys);
    return decidingBy(this.#state, name, own, async (limiter) => {
      const finds = owners.map(async (owner): Promise<Verdict[]> => {
        const [limitKey, tenant] = [owner.slot!.key, owner.key].map((each) => callable(this.#state, each));
        if (limitKey === undefined || tenant === undefined) return [];
        const use = uses.get(owner.text);
        const place = { [owner.slot!.by]: limitKey, [owner.by]: tenant };
        const decision = ofLimiter(await limiter.peek(place, { weight: use?.weight }));
        return [{ owner: owner.text, find: findOf(known, owner, decision, use) }];
      });
      return (await Promise.all(finds)).flat();
    });
  }

  /** A limiter's verdict on a key whose override only a limiter can read, such as another tier. `undefined` if the key is unknown. */
  async #decisionOf(
    { name, limits }: KnownLimiter,
    { owner: { key, by, slot } }: FoundKey,
  ): Promise<LimiterDecision | undefined> {
    if (typeof key !== 'string' || slot) return undefined;
    return decidingBy(this.#state, name, ofDimension(limits, by), async (limiter) =>
      ofLimiter(await limiter.peek({ [by]: key })),
    );
  }

  async #states(keys: readonly FoundKey[]): Promise<KeyVerdictFind[]> {
    const times = await this.#state.lives(keys);
    return keys.flatMap((key, i): KeyVerdictFind[] => {
      const expiresInMs = times[i];
      // The key has been deleted meanwhile.
      if (expiresInMs === undefined || !this.#isNew(idOf(key))) return [];
      const [policy, algorithm] =
        key.id === BAN_TAG ? [null, 'ban'] : [policyNameOf(key.id), kernelOf(key.id) ?? null];
      return [{ kind: 'state', ...whoseState(key.owner), policy, algorithm, expiresInMs }];
    });
  }

  #unreadable(key: FoundKey, { message }: Error): Unreadable[] {
    return this.#isNew(idOf(key)) ? [{ kind: 'unreadable', ...whoseState(key.owner), message }] : [];
  }
}

/** The verdict of a limiter in one tier, before it is compared with those of other tiers. */
function findOf({ tier }: KnownLimiter, owner: Owner, decision: LimiterDecision, use?: TenantUse): TierFind {
  const { allowed, policy = null, retryAfterMs = null } = decision;
  return {
    ...whoseState(owner),
    ...(tier !== undefined && { tier }),
    ...{ certain: true, likely: true, kind: allowed ? 'admitted' : 'limited', policy, retryAfterMs },
    ...{ policies: tenantVerdicts(decision, use), overridden: false, states: statesOf(decision) },
  };
}

/** The most names that are kept of limiters with unknown limits. */
const MAX_UNJUDGED = 100;

/** A text that differs for any two states. */
const idOf = ({ owner, id }: FoundKey): string => `${owner.text}}${id}`;

const NOT_READ_HERE =
  'an override gives it another window or tier, which cannot be computed from a hashed or inner key';
