// Stores with one fault each, built from the memory store. The checks must catch every one.
import { setImmediate as turn } from 'node:timers/promises';
import { memoryStore, type Policy, type Store } from 'headgate';
import type {
  ChargeChange,
  ChangeReply,
  Keys,
  OverridePlace,
  PolicySet,
  Query,
  Reply,
  Subject,
} from 'headgate/stores';
import { stateStore, type StateChange } from 'headgate/stores';
import type { StoreUnderTest } from 'headgate-testing';
import { compilePolicies } from '../../../../src/contract/compile-policies.js';
import { capacityOf } from '../../src/algorithms.js';

/** A wrong store, and a check that detects the error. */
interface WrongStore extends Pick<StoreUnderTest, 'createStore' | 'entries'> {
  readonly caughtBy: readonly [suite: string, check: string];
}

type Fault = (right: Store) => Partial<Store>;

/** The memory store with a fault. */
function but(fault: Fault): WrongStore['createStore'] {
  return (clock) => wrap(memoryStore({ clock }), fault);
}

/** The store as a plain object, which the limiter treats as a store that may go down. */
function wrap(right: Store, fault: Fault): Store {
  return {
    decide: (query) => right.decide(query),
    adjust: (change) => right.adjust(change),
    lease: (change) => right.lease(change),
    reset: (subject) => right.reset(subject),
    ban: (subject, duration) => right.ban(subject, duration),
    checkDimensions: () => {},
    overrides: right.overrides,
    ...fault(right),
  };
}

/** A store that mistakes the subject of every call for another. */
function mistaking(mistake: (subject: Subject) => Partial<Query>): WrongStore['createStore'] {
  const mistaken = <T extends Subject>(subject: T): T => ({ ...subject, ...mistake(subject) });
  return but((right) => ({
    decide: (query) => right.decide(mistaken(query)),
    adjust: (change) => right.adjust(mistaken(change)),
    lease: (change) => right.lease(mistaken(change)),
    reset: (subject) => right.reset(mistaken(subject)),
    ban: (subject, duration) => right.ban(mistaken(subject), duration),
  }));
}

/** A table whose key column considers different keys equal. */
function onColumn(stored: (key: string) => string): WrongStore['createStore'] {
  return (clock) => {
    const table = new Map<string, Uint8Array | undefined>();
    const write = (key: string, { changed, bytes }: StateChange) => changed && table.set(stored(key), bytes);
    const read = (key: string) => table.get(stored(key));
    return stateStore({
      update: (key, change) => void write(key, change(read(key), clock())),
      updateAll: (keys, change) =>
        change(keys.map(read), clock()).forEach((each, i) => write(keys[i]!, each)),
    });
  };
}

/** A table that some methods read and write in two steps. */
function inTwoSteps(isIn: (method: string) => boolean): WrongStore['createStore'] {
  return (clock) => {
    const table = new Map<string, Uint8Array | undefined>();
    const write = (key: string, { changed, bytes }: StateChange) => changed && table.set(key, bytes);
    const storeOf = (wait: () => Promise<void>) =>
      stateStore({
        async update(key, change) {
          const bytes = table.get(key);
          await wait();
          write(key, change(bytes, clock()));
        },
        updateAll: (keys, change) =>
          change(
            keys.map((key) => table.get(key)),
            clock(),
          ).forEach((each, i) => write(keys[i]!, each)),
      });
    const [right, wrong] = [storeOf(async () => {}), storeOf(turn)];
    const of = (method: string) => (isIn(method) ? wrong : right);
    return {
      decide: (query) => right.decide(query),
      adjust: (change) => of('adjust').adjust(change),
      lease: (change) => of('lease').lease(change),
      reset: (subject) => right.reset(subject),
      ban: (subject, duration) => of('ban').ban(subject, duration),
      checkDimensions: () => {},
      overrides: of('override').overrides!,
    };
  };
}

const withoutDimensions = new WeakMap<PolicySet, PolicySet>();

/** The set as a store without support for `by` reads it. */
function withoutBy(set: PolicySet): PolicySet {
  let other = withoutDimensions.get(set);
  if (!other) {
    const policies = set.policies.map((policy) => ({ ...policy, by: 'key' }));
    withoutDimensions.set(set, (other = { ...set, policies, dimensions: undefined }));
  }
  return other;
}

function each(keys: Keys, change: (key: string) => string): Keys {
  return typeof keys === 'string' ? change(keys) : keys.map(change);
}

/** A store that mistakes policies for similar policies, in every call. */
function misreading(misread: (policy: Policy) => Policy): WrongStore['createStore'] {
  const sets = new WeakMap<PolicySet, PolicySet>();
  return mistaking(({ set }) => {
    let other = sets.get(set);
    if (!other) {
      const policies = set.policies.flatMap(({ source, name }) =>
        compilePolicies('policies', [{ ...misread(source), name }]),
      );
      other = { ...set, policies };
      sets.set(set, other);
    }
    return { set: other };
  });
}

const without =
  (field: string) =>
  (policy: Policy): Policy =>
    Object.fromEntries(Object.entries(policy).filter(([name]) => name !== field)) as unknown as Policy;

/** For the faults from the time when only fixed windows tested refunds. */
const isFixedWindow = ({ set }: Subject) =>
  set.policies.some(({ algorithm }) => algorithm === 'fixed-window');

const look = (right: Store, { set, key }: Subject) =>
  right.decide({ set, key, cost: 0, peek: true, lease: '' }) as Reply;

/** The reply to a change that is not made. */
const unchanged = (right: Store, change: ChargeChange): ChangeReply => ({
  ...look(right, change),
  ban: 0,
  verdicts: change.set.policies.flatMap((_, i) => look(right, change).verdicts.slice(3 * i, 3 * i + 3)),
  charged: change.units.map((units) => Math.max(0, units)),
});

const admits = ({ ban, verdicts }: Reply) =>
  ban <= 0 && verdicts.every((wait, i) => i % 3 > 0 || wait === 0 || wait < -1);

/** Stores that passed every check in an earlier version. */
export const plausible: Readonly<Record<string, WrongStore>> = {
  'a fixed window that poses as every other quota': {
    createStore: misreading((policy) =>
      policy.algorithm === 'concurrency'
        ? policy
        : {
            algorithm: 'fixed-window',
            limit: capacityOf(policy),
            window: 'window' in policy ? policy.window : '1h',
            shadow: policy.shadow ?? false,
          },
    ),
    caughtBy: ['contract', 'sliding-log: charged units become free at the published times'],
  },
  'a refund that gives back everything, but of a fixed window': {
    createStore: but((right) => ({
      adjust: (change) => {
        if (isFixedWindow(change) || change.units.every((units) => units >= 0)) return right.adjust(change);
        void right.reset(change);
        return unchanged(right, change);
      },
    })),
    caughtBy: ['contract', 'token-bucket: gives a charge back, once, and no more than there is'],
  },
  'adjust that does nothing, but to a fixed window': {
    createStore: but((right) => ({
      adjust: (change) => (isFixedWindow(change) ? right.adjust(change) : unchanged(right, change)),
    })),
    caughtBy: ['contract', 'sliding-window: charges the real cost of a request'],
  },
  'maxDelay that is ignored': {
    createStore: misreading(without('maxDelay')),
    caughtBy: [
      'contract',
      'leaky-bucket: maxDelay holds requests until their turn, and denies requests that would wait longer',
    ],
  },
  'burst that is ignored': {
    createStore: misreading(without('burst')),
    caughtBy: ['contract', 'gcra: burst is the most that can be spent at once'],
  },
  'a reset that a refund undoes': {
    createStore: but((right) => ({
      adjust: (change) =>
        right.adjust(
          change.charged
            ? { ...change, charged: { ...change.charged, step: Number.MAX_SAFE_INTEGER } }
            : change,
        ),
    })),
    caughtBy: [
      'law 13, return',
      'sliding-window: after a reset, a refund gives back nothing of later charges',
    ],
  },
};

const FOREVER = 366 * 24 * 3_600_000;

const ALL_AT_ONCE = 'simultaneous charges, refunds and bans all take effect';

/** One fault each. */
export const faulty: Readonly<Record<string, WrongStore>> = {
  'bans in two steps': {
    createStore: inTwoSteps((method) => method === 'ban'),
    caughtBy: ['law 7, race', `gcra: ${ALL_AT_ONCE}`],
  },
  'refunds in two steps': {
    createStore: inTwoSteps((method) => method === 'adjust'),
    caughtBy: ['law 7, race', `token-bucket: ${ALL_AT_ONCE}`],
  },
  'releases in two steps': {
    createStore: inTwoSteps((method) => method === 'lease'),
    caughtBy: ['law 7, race', `concurrency: ${ALL_AT_ONCE}`],
  },
  'overrides in two steps': {
    createStore: inTwoSteps((method) => method === 'override'),
    caughtBy: ['law 16, live', 'gcra: another limit is in force at once, and spent units stay spent'],
  },
  'overrides of another kind that are not reported': {
    createStore: but((right) => ({
      async decide(query) {
        const reply = await right.decide(query);
        return reply.clientChanges
          ? right.decide({ ...query, set: { ...query.set, overrides: undefined } })
          : reply;
      },
    })),
    caughtBy: ['law 16, live', 'an override of another window, or to another tier, is in force at once'],
  },
  'overrides of all keys that end after a year': {
    createStore: but(({ overrides }) => ({
      overrides: {
        read: (place) => overrides!.read(place),
        change: (place, change) =>
          overrides!.change(place, 'set' in place ? { ...change, duration: 366 * 86_400_000 } : change),
      },
    })),
    caughtBy: ['law 16, live', 'an override of all keys can be read back, and is of one limiter'],
  },
  'an anchor that is ignored': {
    createStore: misreading(without('anchor')),
    caughtBy: ['law 4, identity', 'calendar: random traces on a clock that jumps'],
  },
  'names in lower case': {
    createStore: mistaking(({ set }) => ({ set: { ...set, name: set.name.toLowerCase() } })),
    caughtBy: ['law 9, keys', 'a name and a key do not pose as another name and key'],
  },
  'names that are cut at 255 characters': {
    createStore: mistaking(({ set }) => ({ set: { ...set, name: set.name.slice(0, 255) } })),
    caughtBy: ['law 9, keys', 'a name and a key do not pose as another name and key'],
  },
  'names of policies in lower case': {
    createStore: mistaking(({ set }) => {
      const policies = set.policies.map((policy) => ({ ...policy, id: policy.id.toLowerCase() }));
      return { set: { ...set, policies } };
    }),
    caughtBy: ['law 9, keys', 'policies of different names do not share, even if only their case differs'],
  },
  'overrides that are stored, and not obeyed': {
    createStore: but((right) => ({
      decide: (query) => right.decide({ ...query, set: { ...query.set, overrides: undefined } }),
    })),
    caughtBy: ['law 16, live', 'gcra: another limit is in force at once, and spent units stay spent'],
  },
  'overrides that cannot be read back': {
    createStore: but(({ overrides }) => ({
      overrides: {
        read: async (place) => ['', (await overrides!.read(place))[1]] as const,
        change: (place, change) => overrides!.change(place, change),
      },
    })),
    caughtBy: ['law 16, live', 'an override of all keys can be read back, and is of one limiter'],
  },
  'overrides of all keys of all limiters': {
    createStore: but(({ overrides }) => {
      const of = (place: OverridePlace) => ('set' in place ? { set: { ...place.set, name: 'x' } } : place);
      return {
        overrides: {
          read: (place) => overrides!.read(of(place)),
          change: (place, change) => overrides!.change(of(place), change),
        },
      };
    }),
    caughtBy: ['law 16, live', 'an override of all keys can be read back, and is of one limiter'],
  },
  'a reset that ends an override': {
    createStore: but((right) => {
      const places: OverridePlace[] = [];
      const { overrides } = right;
      const end = { entry: '', duration: 0, life: 0, note: {} };
      return {
        overrides: {
          read: (place) => overrides!.read(place),
          change: (place, change) => {
            places.push(place);
            return overrides!.change(place, change);
          },
        },
        reset: async (subject) => {
          await right.reset(subject);
          for (const place of places) await overrides!.change(place, end);
        },
      };
    }),
    caughtBy: ['law 16, live', 'a reset leaves an override as it is'],
  },
  'overrides that never end': {
    createStore: but(({ overrides }) => ({
      overrides: {
        read: (place) => overrides!.read(place),
        change: (place, change) => overrides!.change(place, { ...change, duration: 0 }),
      },
    })),
    caughtBy: ['law 16, live', 'fixed-window: an override ends at its time'],
  },
  'a peek that charges': {
    createStore: but((right) => ({ decide: (query) => right.decide({ ...query, peek: false }) })),
    caughtBy: ['contract', 'fixed-window: peeks without writing'],
  },
  'a cost that is ignored': {
    createStore: but((right) => ({
      decide: (query) => right.decide({ ...query, cost: Math.min(query.cost, 1) }),
    })),
    caughtBy: ['contract', 'gcra: charges a cost whole, or not at all'],
  },
  'a denial that charges': {
    createStore: but((right) => ({
      async decide(query) {
        const reply = await right.decide(query);
        const units = query.set.policies.map(() => 1);
        const { set, key } = query;
        if (!query.peek && !admits(reply))
          await right.adjust({ set, key, units, charged: undefined, degraded: undefined });
        return reply;
      },
    })),
    caughtBy: ['law 3, charge', 'after a denial, every policy is as it was'],
  },
  'policies that are decided one after the other': {
    createStore: but((right) => {
      const parts = new WeakMap<PolicySet, PolicySet[]>();
      return {
        decide(query) {
          const { set } = query;
          const each = parts.get(set) ?? set.policies.map((policy) => ({ ...set, policies: [policy] }));
          parts.set(set, each);
          const replies = each.map((part) => right.decide({ ...query, set: part }) as Reply);
          const verdicts = replies.flatMap((reply) => reply.verdicts);
          return replies.find(({ ban }) => ban !== 0) ?? { ...replies.at(-1)!, verdicts };
        },
      };
    }),
    caughtBy: ['contract', 'decides several policies together: all are charged, or none is'],
  },
  'a shadow that denies': {
    createStore: misreading((policy) => ({ ...policy, shadow: false })),
    caughtBy: ['contract', 'lets a shadow report, but not deny'],
  },
  'segments that are ignored': {
    createStore: misreading(without('segments')),
    caughtBy: ['law 4, identity', 'sliding-window: random traces'],
  },
  'looking and charging in two steps': {
    createStore: but((right) => ({
      async decide(query) {
        if (query.peek) return right.decide(query);
        const reply = await right.decide({ ...query, peek: true });
        await turn();
        const { set, key, cost } = query;
        if (!admits(reply)) return right.decide(query);
        const units = set.policies.map(() => cost);
        if (query.lease !== '') return right.decide(query);
        return right.adjust({ set, key, units, charged: undefined, degraded: undefined });
      },
    })),
    caughtBy: [
      'law 7, race',
      'sliding-log: simultaneous requests: exactly the limit is admitted, and each gets its own remaining',
    ],
  },
  'a limit that keeps a count of its own': {
    createStore: mistaking(({ set, key }) => ({
      key: `${set.policies.map(({ limit }) => limit).join()}:${String(key)}`,
    })),
    caughtBy: [
      'law 12, change',
      'fixed-window: a denial by a smaller tier gives nothing back to a larger one',
    ],
  },
  'a refund of a window that is over': {
    createStore: but((right) => ({
      adjust: (change) => right.adjust({ ...change, charged: undefined }),
    })),
    caughtBy: ['contract', 'token-bucket: gives back nothing of a window that is over'],
  },
  'debt that is forgotten': {
    createStore: but((right) => ({
      adjust(change) {
        const { verdicts } = look(right, change);
        const units = change.units.map((each, i) => Math.min(each, verdicts[3 * i + 1] ?? each));
        return right.adjust({ ...change, units });
      },
    })),
    caughtBy: ['law 4, identity', 'fixed-window: random traces'],
  },
  'a slot that is never released': {
    createStore: but((right) => ({
      lease: (change) => change.action === 'release' || right.lease(change),
    })),
    caughtBy: ['contract', 'concurrency: holds slots until they are released or their lease ends'],
  },
  'a lease that is not renewed': {
    createStore: but((right) => ({
      lease: (change) => change.action === 'renew' || right.lease(change),
    })),
    caughtBy: ['contract', 'concurrency: holds slots until they are released or their lease ends'],
  },
  'a lease that has ended, and is not taken again': {
    createStore: but((right) => ({
      lease: (change) => right.lease(change.action === 'hold' ? { ...change, action: 'renew' } : change),
    })),
    caughtBy: ['law 4, identity', 'concurrency: random traces'],
  },
  'a lease that never ends': {
    createStore: misreading((policy) =>
      policy.algorithm === 'concurrency' ? { ...policy, lease: FOREVER } : policy,
    ),
    caughtBy: ['contract', 'concurrency: charged units become free at the published times'],
  },
  'one lease for all': {
    createStore: but((right) => ({
      decide: (query) => right.decide({ ...query, lease: query.lease && 'lease' }),
      lease: (change) => right.lease({ ...change, lease: 'lease' }),
    })),
    caughtBy: ['contract', 'concurrency: releases the slots of one request, and no others'],
  },
  'a reset that forgets nothing': {
    createStore: but(() => ({ reset: () => {} })),
    caughtBy: ['contract', 'sliding-log: resets one key, and no other'],
  },
  'a reset of all keys': {
    createStore: (clock) => {
      let right = memoryStore({ clock });
      const wrong = wrap(right, () => ({ reset: () => void (right = memoryStore({ clock })) }));
      return {
        ...wrong,
        decide: (query) => right.decide(query),
        adjust: (change) => right.adjust(change),
      };
    },
    caughtBy: ['contract', 'gcra: resets one key, and no other'],
  },
  'a ban that never ends': {
    createStore: but((right) => ({
      ban: (subject, duration) => right.ban(subject, duration > 0 ? FOREVER : 0),
    })),
    caughtBy: ['contract', 'bans one key by hand, for the given time'],
  },
  'a ban that never becomes shorter': {
    createStore: but((right) => {
      let longest = 0;
      return {
        ban: (subject, duration) => {
          longest = duration > 0 ? Math.max(longest, duration) : 0;
          return right.ban(subject, longest);
        },
      };
    }),
    caughtBy: ['contract', 'a ban by hand replaces an earlier one, even a longer one'],
  },
  'a ban that lasts a day at most': {
    createStore: but((right) => ({
      ban: (subject, duration) => right.ban(subject, Math.min(duration, 86_400_000)),
    })),
    caughtBy: ['contract', 'bans one key by hand, for as long as a year'],
  },
  'unban that does nothing': {
    createStore: but((right) => ({
      ban: (subject, duration) => (duration > 0 ? right.ban(subject, duration) : undefined),
    })),
    caughtBy: ['contract', 'bans after repeated denials, longer each time, and forgives after unban'],
  },
  'denials that are never forgotten': {
    createStore: mistakingBan((ban) => ({ ...ban, within: FOREVER })),
    caughtBy: ['contract', 'counts denials only for `within`: older ones do not lead to a ban'],
  },
  'bans that do not grow': {
    createStore: mistakingBan((ban) => ({ ...ban, factor: 1 })),
    caughtBy: ['contract', 'bans after repeated denials, longer each time, and forgives after unban'],
  },
  'policies by another dimension that count the first key': {
    createStore: mistaking(({ set, key }) => ({
      set: withoutBy(set),
      key: typeof key === 'string' ? key : key[0]!,
    })),
    caughtBy: ['law 4, identity', 'keys of several dimensions: random traces'],
  },
  'keys in lower case': {
    createStore: mistaking(({ key }) => ({ key: each(key, (text) => text.toLowerCase()) })),
    caughtBy: ['contract', 'keeps awkward keys apart'],
  },
  'keys that are cut at 1,000 characters': {
    createStore: mistaking(({ key }) => ({ key: each(key, (text) => text.slice(0, 1_000)) })),
    caughtBy: ['contract', 'keeps awkward keys apart'],
  },
  'a key column without case': {
    createStore: onColumn((key) => key.toLowerCase()),
    caughtBy: ['contract', 'keeps awkward keys apart'],
  },
  'a key column of 255 characters': {
    createStore: onColumn((key) => key.slice(0, 255)),
    caughtBy: ['contract', 'keeps long keys apart, whatever their length'],
  },
  'names that are ignored': {
    createStore: mistaking(({ set }) => ({ set: sameName(set) })),
    caughtBy: ['contract', 'shares state within a name, and with no other name or key'],
  },
  'names and keys that are joined by a colon': {
    createStore: mistaking(({ set, key }) => ({ set: sameName(set), key: `${set.name}:${String(key)}` })),
    caughtBy: ['law 9, keys', 'a name and a key do not pose as another name and key'],
  },
  'waits in whole seconds': {
    createStore: but((right) => ({
      async decide(query) {
        const reply = await right.decide(query);
        const rounded = (value: number, i: number) =>
          i % 3 === 0 && value > 0 ? Math.ceil(value / 1_000) * 1_000 : value;
        return { ...reply, verdicts: reply.verdicts.map(rounded) };
      },
    })),
    caughtBy: ['contract', 'fixed-window: admits the limit, then denies until retryAfter'],
  },
  'remaining as it was before': {
    createStore: but((right) => ({
      async decide(query) {
        const { verdicts } = await right.decide({ ...query, peek: true });
        return { ...(await right.decide(query)), verdicts };
      },
    })),
    caughtBy: ['contract', 'concurrency: admits the limit, then denies until retryAfter'],
  },
  'a clock of its own': {
    createStore: () => wrap(memoryStore(), () => ({})),
    caughtBy: [
      'contract',
      'sliding-window: has its full quota after resetAfter, as if nothing had been charged',
    ],
  },
  'a clock that the store follows, wherever it jumps': {
    createStore(clock) {
      let last = 0;
      return wrap(memoryStore({ clock: () => (last = Math.max(last, clock())) }), () => ({}));
    },
    caughtBy: ['law 4, identity', 'fixed-window: random traces on a clock that jumps'],
  },
  'a clock that never goes back': {
    createStore(clock) {
      let last = 0;
      return wrap(memoryStore({ clock: () => (last = Math.max(last, clock())) }), () => ({}));
    },
    caughtBy: ['law 6, clock', 'fixed-window: whatever the clock does, a unit is free within one window'],
  },
  'entries without an end': {
    createStore: but(() => ({})),
    entries: () => [{ name: 'key', expiresAt: undefined }],
    caughtBy: [
      'law 5, life',
      'state has an expiry after every operation, and is kept until the quota is full',
    ],
  },
  'entries that end before the quota is full': {
    createStore: but(() => ({})),
    entries: () => [{ name: 'key', expiresAt: Date.now() }],
    caughtBy: [
      'law 5, life',
      'state has an expiry after every operation, and is kept until the quota is full',
    ],
  },
};

function sameName(set: PolicySet): PolicySet {
  return { ...set, name: 'same' };
}

function mistakingBan(
  mistake: (ban: NonNullable<PolicySet['ban']>) => PolicySet['ban'],
): WrongStore['createStore'] {
  return mistaking(({ set }) => ({ set: { ...set, ban: set.ban && mistake(set.ban) } }));
}
