import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { entryInForce, OVERRIDE_TAG } from '../../contract/overrides.js';
import { conclude, ofLimiter, type LimiterDecision } from '../../limiter/decision.js';
import { algorithms, type Kernel } from '../../algorithms/index.js';
import { compilePolicies } from '../../contract/compile-policies.js';
import {
  ALL_KEYS,
  BAN_TAG,
  escapeName,
  isLine,
  isReset,
  recordKey,
  statePattern,
  type Hash,
  type StateKey,
} from '../../stores/keys.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { PolicySet } from '../../contract/store.js';
import { printable } from '../format.js';
import { dimensionJson, showKeyOf, textOrHash, withinJson } from '../keys.js';
import { readOverrideOfAll } from '../limiters.js';
import { ofDimension, type Limits } from '../limits.js';
import { BanIndex, type Sealing } from './ban-index.js';
import { Bans } from './bans.js';
import { scan, type FoundKey, type ScanOptions } from './scan.js';
import { NO_KEY, type Session } from './session.js';

/** One fact that the server has about one key in one scope. */
export type Find = {
  readonly name: string | Hash;
  readonly key: string | Hash;
  /** The dimension. Absent for the default dimension. */
  readonly dimension?: string;
  /** With `slotBy`: the dimension and the key within which the key is counted. */
  readonly within?: string;
} & (
  | {
      readonly kind: 'banned';
      readonly bannedForMs: number;
      readonly bannedUntil: string;
      /** The author of a ban by hand, if there is a note. */
      readonly by: string | null;
      readonly reason: string | null;
    }
  | {
      /** Whether a request of cost 1 would be denied or admitted. */
      readonly kind: 'limited' | 'admitted';
      readonly policy: string | null;
      readonly retryAfterMs: number | null;
      readonly policies: ReturnType<typeof verdictsOf>;
      /** Whether the limits come from an override. */
      readonly overridden: boolean;
    }
  | {
      /** State that no given policy reads. A missing expiry is null, and so is the algorithm of another version's layout. */
      readonly kind: 'state';
      readonly policy: string | null;
      readonly algorithm: string | null;
      readonly expiresInMs: number | null;
    }
  | { readonly kind: 'unreadable'; readonly message: string }
);

/** The subject of a search. */
export interface Wanted {
  /** The scope, or `undefined` for all scopes. */
  readonly name: string | undefined;
  readonly limits: ReadonlyMap<string, Limits>;
  readonly banned: boolean;
  readonly limited: boolean;
  /** Whether to include keys whose next request would be admitted. */
  readonly admitted: boolean;
  /** Whether to include state that no known limit reads: in all scopes, or only in scopes with unknown limits. */
  readonly states: boolean | 'of unknown scopes';
  /** Whether to search all keys for bans, even if the index is complete. */
  readonly scan: boolean;
}

/** A limiter with known limits. */
interface KnownLimiter {
  readonly name: string;
  readonly policies: readonly CompiledPolicy[];
  readonly limits: Limits;
}

/** Finds banned, limited and otherwise known keys of a server. The order is that of SCAN, and each item is found once. */
export class Finder {
  readonly #session: Session;
  readonly #wanted: Wanted;
  /** The limiters by their names in Redis keys. */
  readonly #known: ReadonlyMap<string, KnownLimiter>;
  readonly #found = new Set<string>();
  /** The number of Headgate's keys that were checked. */
  looked = 0;
  /** Whether only the index of bans was read. */
  isOfIndex = false;

  constructor(session: Session, wanted: Wanted) {
    this.#session = session;
    this.#wanted = wanted;
    this.#known = new Map(
      [...wanted.limits].map(([name, limits]) => {
        return [escapeName(name), { name, limits, policies: compilePolicies('--policies', limits.policies) }];
      }),
    );
  }

  /** Bans come first, because they are few, and a user who reads only the first lines must not miss one. */
  async *finds(options: ScanOptions = {}): AsyncGenerator<Find> {
    const { name, banned, limited, admitted, states } = this.#wanted;
    const others = limited || admitted || states !== false;
    const rounds = Number(banned) + Number(others);
    const round = (id: string, done: number): AsyncGenerator<FoundKey[]> => {
      const pattern = statePattern(this.#session.prefix, name, undefined, id);
      const progress = (share: number): void => options.progress?.((done + share) / rounds);
      return scan(this.#session, pattern, { ...options, progress });
    };
    if (banned) {
      const index = new BanIndex(this.#session);
      this.isOfIndex = !others && !this.#wanted.scan && (await index.isWhole());
      // A search of one scope is not evidence about other scopes.
      const isOfAll = !this.isOfIndex && !others && name === undefined;
      const sealing = isOfAll ? await index.beginSeal() : undefined;
      for await (const page of this.isOfIndex ? index.keys(name, options) : round(BAN_TAG, 0)) {
        if (!others) this.looked += page.length;
        yield* await this.#bans(this.#named(page), false, sealing);
      }
      if (!options.signal?.aborted) await sealing?.end();
    }
    if (!others || options.signal?.aborted) return;
    for await (const page of round('*', rounds - 1)) {
      this.looked += page.length;
      yield* await this.#examine(this.#named(page));
    }
  }

  /** The keys of state, with the requested name, or the name in the key. */
  #named(page: readonly FoundKey[]): FoundKey[] {
    const { name: asked } = this.#wanted;
    const nameOf = ({ scope, name }: FoundKey): string | Hash =>
      asked !== undefined && escapeName(asked) === scope ? asked : (this.#known.get(scope)?.name ?? name);
    const own = page.filter((key) => !isReset(key) && !isLine(key.id) && key.id !== OVERRIDE_TAG);
    return own.map((key) => ({ ...key, name: nameOf(key) }));
  }

  async #examine(keys: readonly FoundKey[]): Promise<Find[]> {
    const { limited, admitted, states } = this.#wanted;
    const bans: FoundKey[] = [];
    /** By limiter and dimension. */
    const judged = new Map<string, FoundKey[]>();
    const others: FoundKey[] = [];
    for (const key of keys) {
      const known = this.#known.get(key.scope);
      const group = `${key.by} ${key.scope}`;
      const isBan = key.id === BAN_TAG;
      // An override of another kind, such as another window, has its own policies.
      const isLive = known?.limits.overrides ?? false;
      if (isBan || !known?.policies.some(({ id, by }) => (isLive || id === key.id) && by === key.by)) {
        if (states === true || (states && !known)) (isBan ? bans : others).push(key);
      } else if (!judged.get(group)?.push(key)) judged.set(group, [key]);
    }
    const finds = [
      ...(bans.length > 0 ? [this.#bans(bans, true)] : []),
      ...(limited || admitted ? [...judged.values()].map((some) => this.#verdicts(some)) : []),
      this.#states(others),
    ];
    return (await Promise.all(finds)).flat();
  }

  /** Returns true for the first occurrence of a text. */
  #isNew(what: string): boolean {
    return this.#found.size < this.#found.add(what).size;
  }

  /** @param withDenials whether to include keys that are not banned, but have denials that count */
  async #bans(keys: readonly FoundKey[], withDenials: boolean, sealing?: Sealing): Promise<Find[]> {
    const bans = new Bans(this.#session);
    const heads = keys.map(({ head }) => head);
    const [replies, notes] = await Promise.all([bans.look(heads), bans.notes(heads)]);
    const lefts = replies.map((reply) => (reply instanceof Error ? 0 : reply.ban));
    await sealing?.note(heads.flatMap((head, i) => (lefts[i]! > 0 ? [{ head, duration: lefts[i]! }] : [])));
    const others: FoundKey[] = [];
    const finds = keys.flatMap((key, i): Find[] => {
      const [reply, bannedForMs] = [replies[i]!, lefts[i]!];
      if (reply instanceof Error) return this.#unreadable(key, reply);
      if (bannedForMs === 0) others.push(key);
      else if (this.#isNew(key.redisKey)) {
        const bannedUntil = new Date(Date.now() + bannedForMs).toISOString();
        const note = notes[i] ?? { by: null, reason: null };
        return [{ kind: 'banned', ...whose(key), bannedForMs, bannedUntil, ...note }];
      }
      return [];
    });
    return withDenials ? [...finds, ...(await this.#states(others))] : finds;
  }

  /** The verdicts on keys of one limiter and one dimension, by the policies of this dimension. */
  async #verdicts(keys: readonly FoundKey[]): Promise<Find[]> {
    const { limited, admitted } = this.#wanted;
    const { scope, by } = keys[0]!;
    const known = this.#known.get(scope)!;
    const { name, limits } = known;
    const ofAll = recordKey(this.#session.prefix, `${scope}:${ALL_KEYS}`);
    const all = limits.overrides && (await this.#session.call('GET', ofAll));
    // Another window or tier for all keys, too, only a limiter can read.
    const isOfOtherKind = (entryInForce(all, Date.now())?.revision ?? '') !== '';
    const set: PolicySet = {
      name,
      policies: known.policies.filter((policy) => policy.by === by),
      ban: undefined,
      timeout: this.#session.target.timeout,
      overrides: limits.overrides ? { revisions: {}, all: typeof all === 'string' ? all : '' } : undefined,
    };
    const whole = [...new Map(keys.map((key) => [key.head, key])).values()];
    const heads = whole.map(({ head }) => head);
    const replies = await this.#session.look(set, heads);
    const finds = whole.map(async (key, i): Promise<Find[]> => {
      const reply = replies[i]!;
      if (reply instanceof Error) return this.#unreadable(key, reply);
      const who = typeof key.key === 'string' ? key.key : key.key.hash;
      const decision =
        reply.clientChanges || isOfOtherKind
          ? await this.#decisionOf(known, key)
          : conclude(undefined, { set, key: who, cost: 1, peek: true, lease: '' }, reply, limits.shadow);
      if (!decision) return this.#unreadable(key, new Error(NOT_READ_HERE));
      const find = verdictFind(
        decision,
        isOfOtherKind || reply.clientChanges !== undefined || reply.limits !== undefined,
      );
      const { kind } = find;
      if (!(kind === 'limited' ? limited : admitted) || !this.#isNew(`${kind} ${key.head}`)) return [];
      return [{ ...whose(key), ...find }];
    });
    return (await Promise.all(finds)).flat();
  }

  /** A limiter's verdict on a key whose override only a limiter can read, such as another tier. `undefined` if the key is unknown. */
  async #decisionOf(
    { name, limits }: KnownLimiter,
    { key, by, slot }: FoundKey,
  ): Promise<LimiterDecision | undefined> {
    if (typeof key !== 'string' || slot) return undefined;
    const limiter = this.#session.limiters.liveLimiter(name, ofDimension(limits, by));
    try {
      await readOverrideOfAll(limiter);
      return ofLimiter(await limiter.peek({ [by]: key }));
    } finally {
      await limiter.close();
    }
  }

  async #states(keys: readonly FoundKey[]): Promise<Find[]> {
    const times = await Promise.all(keys.map(({ redisKey }) => this.#session.call('PTTL', redisKey)));
    return keys.flatMap((key, i): Find[] => {
      const expiresInMs = Number(times[i]);
      // The key has been deleted meanwhile.
      if (expiresInMs === NO_KEY || !this.#isNew(key.redisKey)) return [];
      const [policy, algorithm] =
        key.id === BAN_TAG ? [null, 'ban'] : [policyNameOf(key.id), kernelOf(key.id) ?? null];
      const time = expiresInMs < 0 ? null : expiresInMs;
      return [{ kind: 'state', ...whose(key), policy, algorithm, expiresInMs: time }];
    });
  }

  #unreadable(key: FoundKey, { message }: Error): Find[] {
    return this.#isNew(key.redisKey) ? [{ kind: 'unreadable', ...whose(key), message }] : [];
  }
}

const NOT_READ_HERE =
  'an override gives it another window or tier, which cannot be told of a hashed or inner key';

/** The verdicts with their policies, for JSON. Absent values are null. */
export const verdictsOf = ({ policies, set }: LimiterDecision) =>
  policies.map(({ name, key, allowed, limit, remaining, retryAfterMs = null, resetAfterMs }, i) => {
    const { algorithm, window: windowMs, shadow } = set.policies[i]!;
    return { name, key, algorithm, limit, windowMs, shadow, allowed, remaining, retryAfterMs, resetAfterMs };
  });

/** The facts in a decision about a key. */
export function verdictFind(decision: LimiterDecision, overridden: boolean) {
  const { allowed, policy = null, retryAfterMs = null } = decision;
  const kind = allowed ? 'admitted' : 'limited';
  return { kind, policy, retryAfterMs, policies: verdictsOf(decision), overridden } as const;
}

/** The owner of the state. */
export function whose({
  name,
  key,
  by,
  slot,
}: Pick<StateKey, 'name' | 'key' | 'by' | 'slot'>): Pick<Find, 'name' | 'key' | 'dimension' | 'within'> {
  return { name, key, ...dimensionJson(by), ...withinJson(slot) };
}

/** For people: a key, with its dimension unless it is the default one. */
export function showKey({ key, dimension: by = DEFAULT_DIMENSION, within }: Omit<Find, 'name'>): string {
  return showKeyOf({ key, by }) + (within === undefined ? '' : ` in ${printable(within)}`);
}

/** For programs: `name` and `key`, or `nameHash` and `keyHash` if only the hash is known; then the rest. */
export function findJson({ kind, name, key, ...rest }: Find): object {
  return { kind, ...textOrHash('name', name), ...textOrHash('key', key), ...rest };
}

const KERNELS = new Map(
  Object.entries(algorithms).map(([kernel, { tag }]) => [tag, kernel as Kernel] as const),
);

/** The algorithm of the state with this id. Undefined: the layout belongs to another version. */
export function kernelOf(id: string): Kernel | undefined {
  return KERNELS.get(/^\w+/.exec(id)![0]);
}

/** The name of the policy of the state with this id. */
export function policyNameOf(id: string): string {
  const colon = id.indexOf(':');
  return colon === -1 ? 'default' : id.slice(colon + 1);
}
