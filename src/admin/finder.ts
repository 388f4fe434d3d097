import { entryInForce, OVERRIDE_TAG } from '../contract/overrides.js';
import { conclude, ofLimiter, type LimiterDecision } from '../limiter/decision.js';
import { compilePolicies } from '../contract/compile-policies.js';
import { visiblePolicies } from '../contract/shares.js';
import { BAN_TAG, escapeName, isLine, isReset, type Hash } from '../stores/keys.js';
import type { CompiledPolicy } from '../contract/policy.js';
import type { PolicySet } from '../contract/store.js';
import { kernelOf, policyNameOf, verdictFind, type Find, type JudgedKey } from './finds.js';
import { limiterOn, readOverrideOfAll, withLimiter } from './limiters.js';
import { ofDimension, type Limits } from './limits.js';
import { whoseState } from './owners.js';
import type { Found, Search, Sealing, State } from './state.js';

/** The subject of a search. */
export interface Wanted {
  /** The scope, or `undefined` for all scopes. */
  readonly name: string | undefined;
  /** The limits by the limiter's name: of requests without a tier, and of each tier. */
  readonly limits: ReadonlyMap<string, readonly TierLimits[]>;
  readonly banned: boolean;
  readonly limited: boolean;
  /** Whether to include keys whose next request would be admitted. */
  readonly admitted: boolean;
  /** Whether to include state that no known limit reads: in all scopes, or only in scopes with unknown limits. */
  readonly states: boolean | 'of unknown scopes';
  /** Whether to search all keys for bans, even if an index is complete. `'never'`: the index, even if it is not complete. */
  readonly scan: boolean | 'never';
}

/** The limits of a tier, or of requests without a tier. */
export interface TierLimits extends Limits {
  readonly tier: string | undefined;
}

/** A limiter with known limits, in one tier. */
interface KnownLimiter {
  readonly name: string;
  readonly tier: string | undefined;
  readonly policies: readonly CompiledPolicy[];
  readonly limits: Limits;
}

type Unreadable = Extract<Find, { kind: 'unreadable' }>;

/** A fact about a key, and its owner text. */
interface Verdict {
  readonly find: JudgedKey | Unreadable;
  readonly owner: string;
}

/** Finds banned, limited and otherwise known keys. The order is that of the store, and each fact is found once. */
export class Finder {
  readonly #state: State;
  readonly #wanted: Wanted;
  /** The limiters in each tier, by their names in Redis keys. */
  readonly #known: ReadonlyMap<string, readonly KnownLimiter[]>;
  readonly #found = new Set<string>();
  /** The number of Headgate's keys that were checked. */
  looked = 0;
  /** Whether only the index of bans was read. */
  isOfIndex = false;
  /** The limiters with state that no verdict is about, because the limits are unknown. */
  readonly unjudged = new Set<string>();

  constructor(state: State, wanted: Wanted) {
    this.#state = state;
    this.#wanted = wanted;
    this.#known = new Map(
      [...wanted.limits].map(([name, sets]) => {
        const inTiers = sets.map((limits) => {
          // A search finds limits without tenants, so the whole limit is judged.
          const policies = visiblePolicies(compilePolicies('policies', limits.policies)).map((policy) => ({
            ...policy,
            share: undefined,
          }));
          return { name, tier: limits.tier, limits, policies };
        });
        return [escapeName(name), inTiers];
      }),
    );
  }

  /** Bans come first, because they are few, and a user who reads only the first lines must not miss one. */
  async *finds(options: Pick<Search, 'count' | 'progress' | 'signal'> = {}): AsyncGenerator<Find> {
    const { name, banned, limited, admitted, states } = this.#wanted;
    const others = limited || admitted || states !== false;
    const rounds = Number(banned) + Number(others);
    const round = (id: string | undefined, done: number): AsyncIterable<readonly Found[]> => {
      const progress = (share: number): void => options.progress?.((done + share) / rounds);
      return this.#state.search({ ...options, name, id, progress });
    };
    if (banned) {
      const { index } = this.#state;
      const { scan } = this.#wanted;
      const usesIndex = !others && scan !== true && index !== undefined;
      this.isOfIndex = usesIndex && (scan === 'never' || (await index.isWhole()));
      // A search of one scope is not evidence about other scopes.
      const isOfAll = !this.isOfIndex && !others && name === undefined;
      const sealing = isOfAll ? await index?.beginSeal() : undefined;
      for await (const page of this.isOfIndex ? index!.keys({ name, ...options }) : round(BAN_TAG, 0)) {
        if (!others) this.looked += page.length;
        yield* await this.#bans(this.#named(page), false, sealing);
      }
      if (!options.signal?.aborted) await sealing?.end();
    }
    if (!others || options.signal?.aborted) return;
    for await (const page of round(undefined, rounds - 1)) {
      this.looked += page.length;
      yield* await this.#examine(this.#named(page));
    }
  }

  /** The keys of state, with the requested name, or the name in the key. */
  #named(page: readonly Found[]): Found[] {
    const { name: asked } = this.#wanted;
    const nameOf = ({ scope, name }: Found['owner']): string | Hash =>
      asked !== undefined && escapeName(asked) === scope
        ? asked
        : (this.#known.get(scope)?.[0]?.name ?? name);
    const own = page.filter(({ id }) => !isReset({ id }) && !isLine(id) && id !== OVERRIDE_TAG);
    return own.map(({ owner, id }) => ({ owner: { ...owner, name: nameOf(owner) }, id }));
  }

  async #examine(keys: readonly Found[]): Promise<Find[]> {
    const { limited, admitted, states } = this.#wanted;
    const bans: Found[] = [];
    /** By limiter, tier and dimension. */
    const judged = new Map<string, { known: KnownLimiter; keys: Found[] }>();
    const others: Found[] = [];
    for (const key of keys) {
      const { scope, by, name } = key.owner;
      const known = this.#known.get(scope);
      const isBan = key.id === BAN_TAG;
      const readers = isBan ? [] : readersOf(known ?? [], key);
      for (const each of readers) {
        const group = `${by} ${each.tier ?? ''} ${scope}`;
        if (!judged.get(group)?.keys.push(key)) judged.set(group, { known: each, keys: [key] });
      }
      if (readers.length > 0) continue;
      if (states === true || (states && !known)) (isBan ? bans : others).push(key);
      else if (!isBan && !known && this.unjudged.size < MAX_UNJUDGED)
        this.unjudged.add(typeof name === 'string' ? name : name.hash);
    }
    const finds = [
      ...(bans.length > 0 ? [this.#bans(bans, true)] : []),
      ...(limited || admitted ? [this.#judge([...judged.values()])] : []),
      this.#states(others),
    ];
    return (await Promise.all(finds)).flat();
  }

  /** Returns true for the first occurrence of a text. */
  #isNew(what: string): boolean {
    return this.#found.size < this.#found.add(what).size;
  }

  /** @param withDenials whether to include keys that are not banned, but have denials that count */
  async #bans(keys: readonly Found[], withDenials: boolean, sealing?: Sealing): Promise<Find[]> {
    const owners = keys.map(({ owner }) => owner);
    const [replies, notes] = await Promise.all([this.#state.bans(owners), this.#state.log.notesOf(owners)]);
    const lefts = replies.map((reply) => (reply instanceof Error ? 0 : reply));
    await sealing?.note(
      owners.flatMap((owner, i) => (lefts[i]! > 0 ? [{ owner, duration: lefts[i]! }] : [])),
    );
    const others: Found[] = [];
    const finds = keys.flatMap((key, i): Find[] => {
      const [reply, bannedForMs] = [replies[i]!, lefts[i]!];
      if (reply instanceof Error) return this.#unreadable(key, reply);
      if (bannedForMs === 0) others.push(key);
      else if (this.#isNew(idOf(key))) {
        const bannedUntil = new Date(Date.now() + bannedForMs).toISOString();
        const note = notes[i] ?? { by: null, reason: null };
        return [{ kind: 'banned', ...whoseState(key.owner), bannedForMs, bannedUntil, ...note }];
      }
      return [];
    });
    return withDenials ? [...finds, ...(await this.#states(others))] : finds;
  }

  /** The verdicts on keys. A key that is limited in a tier is not admitted in another one, because its tier is unknown. */
  async #judge(groups: readonly { known: KnownLimiter; keys: readonly Found[] }[]): Promise<Find[]> {
    const { limited, admitted } = this.#wanted;
    const all = (await Promise.all(groups.map(({ known, keys }) => this.#verdicts(known, keys)))).flat();
    const others = all.filter(({ find }) => find.kind === 'unreadable').map(({ find }) => find);
    const denials = all.filter(({ find }) => find.kind === 'limited');
    for (const { owner } of denials) this.#found.add(`limited ${owner}`);
    const isNew = ({ find, owner }: Verdict): boolean =>
      find.kind === 'limited'
        ? limited && this.#isNew(`limited ${find.tier ?? ''} ${owner}`)
        : admitted && !this.#found.has(`limited ${owner}`) && this.#isNew(`admitted ${owner}`);
    const admissions = all.filter(({ find }) => find.kind === 'admitted');
    return [...others, ...[...denials, ...admissions].filter(isNew).map(({ find }) => find)];
  }

  /** The verdicts on keys of one limiter, tier and dimension, by the policies of this dimension. */
  async #verdicts(known: KnownLimiter, keys: readonly Found[]): Promise<Verdict[]> {
    const { by } = keys[0]!.owner;
    const { name, limits, tier } = known;
    const all = limits.overrides && (await this.#state.recordOfAll(name));
    // Another window or tier for all keys, too, only a limiter can read.
    const isOfOtherKind = (entryInForce(all, Date.now())?.revision ?? '') !== '';
    const set: PolicySet = {
      name,
      policies: known.policies.filter((policy) => policy.by === by),
      ban: undefined,
      timeout: this.#state.timeout,
      overrides: limits.overrides ? { revisions: {}, all: typeof all === 'string' ? all : '' } : undefined,
    };
    const whole = [...new Map(keys.map((key) => [key.owner.text, key])).values()];
    const owners = whole.map(({ owner }) => owner);
    const replies = await this.#state.look(set, owners);
    const finds = whole.map(async (key, i): Promise<Verdict['find'][]> => {
      const reply = replies[i]!;
      if (reply instanceof Error) return this.#unreadable(key, reply);
      const { key: text } = key.owner;
      const who = typeof text === 'string' ? text : text.hash;
      const decision =
        reply.clientChanges || isOfOtherKind
          ? await this.#decisionOf(known, key)
          : conclude(undefined, { set, key: who, cost: 1, peek: true, lease: '' }, reply, limits.shadow);
      if (!decision) return this.#unreadable(key, new Error(NOT_READ_HERE));
      const find = verdictFind(
        decision,
        isOfOtherKind || reply.clientChanges !== undefined || reply.limits !== undefined,
      );
      return [{ ...whoseState(key.owner), ...(tier !== undefined && { tier }), ...find }];
    });
    return (await Promise.all(finds)).flatMap((some, i) =>
      some.map((find) => ({ find, owner: whole[i]!.owner.text })),
    );
  }

  /** A limiter's verdict on a key whose override only a limiter can read, such as another tier. `undefined` if the key is unknown. */
  async #decisionOf(
    { name, limits }: KnownLimiter,
    { owner: { key, by, slot } }: Found,
  ): Promise<LimiterDecision | undefined> {
    if (typeof key !== 'string' || slot) return undefined;
    return withLimiter(limiterOn(this.#state, name, ofDimension(limits, by)), async (limiter) => {
      await readOverrideOfAll(limiter);
      return ofLimiter(await limiter.peek({ [by]: key }));
    });
  }

  async #states(keys: readonly Found[]): Promise<Find[]> {
    const times = await this.#state.lives(keys);
    return keys.flatMap((key, i): Find[] => {
      const expiresInMs = times[i];
      // The key has been deleted meanwhile.
      if (expiresInMs === undefined || !this.#isNew(idOf(key))) return [];
      const [policy, algorithm] =
        key.id === BAN_TAG ? [null, 'ban'] : [policyNameOf(key.id), kernelOf(key.id) ?? null];
      return [{ kind: 'state', ...whoseState(key.owner), policy, algorithm, expiresInMs }];
    });
  }

  #unreadable(key: Found, { message }: Error): Unreadable[] {
    return this.#isNew(idOf(key)) ? [{ kind: 'unreadable', ...whoseState(key.owner), message }] : [];
  }
}

/** The most limiters whose names are kept because their limits are unknown. */
const MAX_UNJUDGED = 100;

/** The limiters that read a state. An override of another kind, such as another window, has its own policies, which all limiters may read. */
function readersOf(known: readonly KnownLimiter[], { owner: { by }, id }: Found): readonly KnownLimiter[] {
  const ofDimension = known.filter(({ policies }) => policies.some((policy) => policy.by === by));
  const exact = ofDimension.filter(({ policies }) =>
    policies.some((policy) => policy.id === id && policy.by === by),
  );
  return exact.length > 0 ? exact : ofDimension.filter(({ limits }) => limits.overrides);
}

/** A text that differs for any two states. */
const idOf = ({ owner, id }: Found): string => `${owner.text}}${id}`;

const NOT_READ_HERE =
  'an override gives it another window or tier, which cannot be computed from a hashed or inner key';
