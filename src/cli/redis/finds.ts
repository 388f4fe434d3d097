import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { compileBan } from '../../contract/ban-options.js';
import { OVERRIDE_TAG } from '../../contract/overrides.js';
import { conclude, ofLimiter, type LimiterDecision } from '../../limiter/decision.js';
import { compilePolicies } from '../../contract/compile-policies.js';
import {
  BAN_TAG,
  escapeName,
  isReset,
  recordKey,
  statePattern,
  whoOfPlace,
  type Hash,
  type StateKey,
} from '../../stores/keys.js';
import type { PolicySet, Reply } from '../../contract/store.js';
import { dimensionJson } from '../keys.js';
import { showKeyOf, showText, textOrHash } from '../whose.js';
import { ofDimension, type Limits } from '../limits.js';
import { verdictsOf, type PolicyVerdict } from '../verdicts.js';
import { BanIndex, type Sealing } from './ban-index.js';
import { Bans } from './bans.js';
import { kernelOf, policyNameOf } from './layouts.js';
import { Looker } from './look.js';
import { scan, type FoundKey, type ScanOptions } from './scan.js';
import { NO_KEY, type Session } from './session.js';

/** One item that the server has about one key in one scope. */
export type Find = {
  readonly name: string | Hash;
  readonly key: string | Hash;
  /** Absent for the default dimension. */
  readonly dimension?: string;
  /** With `slotBy`: the dimension and the key within which the key is counted. */
  readonly within?: string;
} & (
  | {
      readonly kind: 'banned';
      readonly bannedForMs: number;
      readonly bannedUntil: string;
      /** Who made a ban by hand, if it was noted. */
      readonly by: string | null;
      readonly reason: string | null;
    }
  | {
      /** Whether a request of cost 1 would be denied or admitted. */
      readonly kind: 'limited' | 'admitted';
      readonly policy: string | null;
      readonly retryAfterMs: number | null;
      readonly policies: readonly PolicyVerdict[];
      /** Whether an override gives the key these limits. */
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

/** What to look for. */
export interface Wanted {
  /** Undefined: in all scopes. */
  readonly name: string | undefined;
  readonly limits: ReadonlyMap<string, Limits>;
  readonly banned: boolean;
  readonly limited: boolean;
  /** Whether to find keys whose next request would be admitted. */
  readonly admitted: boolean;
  /** Whether to find state that none of the limits reads: in all scopes, or only in those whose limits are unknown. */
  readonly states: boolean | 'of unknown scopes';
  /** Whether to look for bans among all keys, even if their index is complete. */
  readonly scan: boolean;
}

/** Finds only bans. */
export const BANS_ALONE: Wanted = {
  name: undefined,
  limits: new Map(),
  banned: true,
  limited: false,
  admitted: false,
  states: false,
  scan: false,
};

interface Scope {
  readonly name: string;
  readonly set: PolicySet;
  readonly limits: Limits;
}

/** Finds who is banned, limited or otherwise known to a server. The order is that of SCAN, and each item is found once. */
export class Finder {
  readonly #session: Session;
  readonly #wanted: Wanted;
  readonly #looker: Looker;
  /** The scopes by their names in Redis keys. */
  readonly #scopes: ReadonlyMap<string, Scope>;
  readonly #found = new Set<string>();
  /** How many keys of Headgate were checked. */
  looked = 0;
  /** Whether only the index of bans was read. */
  isOfIndex = false;

  constructor(session: Session, wanted: Wanted) {
    this.#session = session;
    this.#wanted = wanted;
    this.#looker = new Looker(session);
    const { timeout } = session.target;
    this.#scopes = new Map(
      [...wanted.limits].map(([name, limits]) => {
        const policies = compilePolicies('--policies', limits.policies);
        const set = { name, policies, ban: undefined, timeout };
        return [escapeName(name), { name, set, limits }];
      }),
    );
  }

  /** Bans come first, because they are few, and a user who reads only the first lines must not miss one. */
  async *finds(options: ScanOptions = {}): AsyncGenerator<Find> {
    const { banned, limited, admitted, states } = this.#wanted;
    const others = limited || admitted || states !== false;
    const index = new BanIndex(this.#session);
    if (!others && !this.#wanted.scan && (await index.isWhole())) {
      yield* this.#indexed(index, options);
      return;
    }
    const rounds = Number(banned) + Number(others);
    const round = (id: string, done: number): AsyncGenerator<FoundKey[]> => {
      const pattern = statePattern(this.#session.prefix, this.#wanted.name, undefined, id);
      const progress = (share: number): void => options.progress?.((done + share) / rounds);
      return scan(this.#session, pattern, { ...options, progress });
    };
    if (banned) yield* this.#scanned(round(BAN_TAG, 0), !others, options.signal);
    if (!others || options.signal?.aborted) return;
    for await (const page of round('*', rounds - 1)) {
      this.looked += page.length;
      yield* await this.#examine(this.#named(page));
    }
  }

  /** Searches all keys for bans. A search of one scope says nothing about the others. */
  async *#scanned(
    pages: AsyncGenerator<FoundKey[]>,
    isAlone: boolean,
    signal?: AbortSignal,
  ): AsyncGenerator<Find> {
    const isAll = isAlone && this.#wanted.name === undefined;
    const sealing = isAll ? await new BanIndex(this.#session).beginSeal() : undefined;
    for await (const page of pages) {
      if (isAlone) this.looked += page.length;
      yield* await this.#bans(this.#named(page), false, sealing);
    }
    if (!signal?.aborted) await sealing?.end();
  }

  /** The bans in the index. Their details are looked up in the state itself. */
  async *#indexed(index: BanIndex, options: ScanOptions): AsyncGenerator<Find> {
    this.isOfIndex = true;
    for await (const heads of index.heads(options)) {
      const keys = heads
        .filter((state) => this.#isWanted(state))
        .map((state) => ({ ...state, id: BAN_TAG, redisKey: `${state.head}}${BAN_TAG}` }));
      this.looked += keys.length;
      yield* await this.#bans(this.#named(keys), false);
    }
  }

  #isWanted({ scope }: Pick<StateKey, 'scope'>): boolean {
    const { name } = this.#wanted;
    return name === undefined || scope === escapeName(name);
  }

  #named(page: readonly FoundKey[]): FoundKey[] {
    return page.flatMap((key) =>
      isReset(key) || key.id === OVERRIDE_TAG ? [] : [{ ...key, name: this.#nameOf(key) }],
    );
  }

  async #examine(named: readonly FoundKey[]): Promise<Find[]> {
    const bans = named.filter(({ id }) => id === BAN_TAG);
    const judged = new Map<Scope, FoundKey[]>();
    const states: FoundKey[] = [];
    for (const key of named) {
      if (key.id === BAN_TAG) continue;
      const scope = this.#scopes.get(key.scope);
      if (!scope?.set.policies.some(({ id, by }) => id === key.id && by === key.by)) {
        if (this.#wanted.states === true || !scope) states.push(key);
      } else {
        const keys = judged.get(scope);
        if (keys) keys.push(key);
        else judged.set(scope, [key]);
      }
    }
    const finds = [
      ...(this.#wanted.states === true ? [this.#bans(bans, true)] : []),
      ...[...judged].map(([scope, keys]) => this.#verdicts(scope, keys)),
      this.#states(states),
    ];
    return (await Promise.all(finds)).flat();
  }

  /** The name in the key, or the name that was asked for. */
  #nameOf({ name, scope }: FoundKey): string | Hash {
    const { name: asked } = this.#wanted;
    return asked !== undefined && escapeName(asked) === scope
      ? asked
      : (this.#scopes.get(scope)?.name ?? name);
  }

  /** Returns true for the first occurrence of a text. */
  #isNew(what: string): boolean {
    return this.#found.size < this.#found.add(what).size;
  }

  /** @param states whether to include keys that are not banned, but have denials that count */
  async #bans(keys: readonly FoundKey[], states: boolean, sealing?: Sealing): Promise<Find[]> {
    const set: PolicySet = {
      name: '',
      policies: [],
      ban: compileBan({}),
      timeout: this.#session.target.timeout,
    };
    const [replies, notes] = await Promise.all([
      this.#lookAt(set, keys),
      new Bans(this.#session).notes(keys.map(({ head }) => head)),
    ]);
    const others: FoundKey[] = [];
    const lefts = replies.map((reply) => (reply instanceof Error ? 0 : reply.ban));
    await sealing?.note(
      keys.flatMap(({ head }, i) => (lefts[i]! > 0 ? [{ head, duration: lefts[i]! }] : [])),
    );
    const finds = keys.flatMap((key, i): Find[] => {
      const reply = replies[i]!;
      if (reply instanceof Error) return this.#unreadable(key, reply);
      if (reply.ban === 0) others.push(key);
      else if (this.#isNew(key.redisKey)) {
        const bannedUntil = new Date(Date.now() + reply.ban).toISOString();
        const note = notes[i] ?? { by: null, reason: null };
        return [{ kind: 'banned', ...whose(key), bannedForMs: reply.ban, bannedUntil, ...note }];
      }
      return [];
    });
    return states ? [...finds, ...(await this.#states(others))] : finds;
  }

  async #verdicts(scope: Scope, keys: readonly FoundKey[]): Promise<Find[]> {
    const { limited, admitted } = this.#wanted;
    if (!limited && !admitted) return [];
    const all = await this.#ofAllKeys(scope);
    const finds = [...new Set(keys.map(({ by }) => by))].map((by) => {
      const policies = scope.set.policies.filter((policy) => policy.by === by);
      const overrides = all === undefined ? undefined : { rules: {}, all };
      const its = keys.filter((key) => key.by === by);
      return this.#verdictsBy({ ...scope, set: { ...scope.set, policies, overrides } }, its);
    });
    return (await Promise.all(finds)).flat();
  }

  /** The record of overrides of all keys. Undefined: the limiter has none. */
  async #ofAllKeys({ set, limits }: Scope): Promise<string | undefined> {
    if (!limits.overrides) return undefined;
    const key = recordKey(this.#session.prefix, whoOfPlace({ set }, this.#session.keyText));
    const record = await this.#session.call('GET', key);
    return typeof record === 'string' ? record : '';
  }

  /** The verdicts on keys of one dimension, by the policies of this dimension. */
  async #verdictsBy(scope: Scope, keys: readonly FoundKey[]): Promise<Find[]> {
    const { limited, admitted } = this.#wanted;
    const { set, limits } = scope;
    const whole = [...new Map(keys.map((key) => [key.head, key])).values()];
    const replies = await this.#lookAt(set, whole);
    const finds = whole.map(async (key, i): Promise<Find[]> => {
      const reply = replies[i]!;
      if (reply instanceof Error) return this.#unreadable(key, reply);
      const who = typeof key.key === 'string' ? key.key : key.key.hash;
      const decision = reply.rules
        ? await this.#decisionOf(scope, key)
        : conclude(undefined, { set, key: who, cost: 1, peek: true, lease: '' }, reply, limits.shadow);
      if (!decision) return this.#unreadable(key, new Error(NOT_READ_HERE));
      const find = verdictFind(decision, reply.rules !== undefined || reply.limits !== undefined);
      const { kind } = find;
      if (!(kind === 'limited' ? limited : admitted) || !this.#isNew(`${kind} ${key.head}`)) return [];
      return [{ ...whose(key), ...find }];
    });
    return (await Promise.all(finds)).flat();
  }

  /** What a limiter says of a key whose override only a limiter can read, such as another tier. Undefined: its key is not known. */
  async #decisionOf(
    { name, limits }: Scope,
    { key, by, slot }: FoundKey,
  ): Promise<LimiterDecision | undefined> {
    if (typeof key !== 'string' || slot) return undefined;
    const limiter = this.#session.liveLimiter(name, ofDimension(limits, by));
    try {
      return ofLimiter(await limiter.peek({ [by]: key }));
    } finally {
      await limiter.close();
    }
  }

  async #states(keys: readonly FoundKey[]): Promise<Find[]> {
    if (!this.#wanted.states) return [];
    const times = await Promise.all(keys.map(({ redisKey }) => this.#session.call('PTTL', redisKey)));
    return keys.flatMap((key, i): Find[] => {
      const expiresInMs = Number(times[i]);
      // The key has been deleted meanwhile.
      if (expiresInMs === NO_KEY || !this.#isNew(key.redisKey)) return [];
      const isBan = key.id === BAN_TAG;
      return [
        {
          kind: 'state',
          ...whose(key),
          policy: isBan ? null : policyNameOf(key.id),
          algorithm: isBan ? 'ban' : (kernelOf(key.id) ?? null),
          expiresInMs: expiresInMs < 0 ? null : expiresInMs,
        },
      ];
    });
  }

  #lookAt(set: PolicySet, keys: readonly FoundKey[]): Promise<(Reply | Error)[]> {
    return this.#looker.look(
      set,
      keys.map(({ head }) => head),
    );
  }

  #unreadable(key: FoundKey, { message }: Error): Find[] {
    return this.#isNew(key.redisKey) ? [{ kind: 'unreadable', ...whose(key), message }] : [];
  }
}

const NOT_READ_HERE =
  'an override gives it another window or tier, which cannot be told of a hashed or inner key';

/** What a decision about a key says of it. */
export function verdictFind(decision: LimiterDecision, overridden: boolean) {
  const { allowed, policy = null, retryAfterMs = null } = decision;
  const kind = allowed ? 'admitted' : 'limited';
  return { kind, policy, retryAfterMs, policies: verdictsOf(decision), overridden } as const;
}

/** Whose state it is. */
export function whose({
  name,
  key,
  by,
  slot,
}: Pick<StateKey, 'name' | 'key' | 'by' | 'slot'>): Pick<Find, 'name' | 'key' | 'dimension' | 'within'> {
  const within = slot && { within: `${slot.by} ${slot.key === undefined ? '-' : showText(slot.key)}` };
  return { name, key, ...dimensionJson(by), ...within };
}

/** For people: a key, with its dimension unless it is the default one. */
export function showKey({ key, dimension: by = DEFAULT_DIMENSION, within }: Omit<Find, 'name'>): string {
  return showKeyOf({ key, by }) + (within === undefined ? '' : ` in ${within}`);
}

/** For programs: `name` and `key`, or `nameHash` and `keyHash` if only the hash is known; then the rest. */
export function findJson({ kind, name, key, ...rest }: Find): object {
  return { kind, ...textOrHash('name', name), ...textOrHash('key', key), ...rest };
}
