// A sample of each feature of src/contract/together.ts: its options, and one use of it. Two samples together make a limiter.
import { expect } from 'chai';
import { createLimiter, type Decision, type Key, type Limiter, type Policy, type Store } from 'headgate';
import { rateLimited } from 'headgate/decorators';
import { FEATURE_NAMES, type FeatureName } from '../../src/contract/together.js';

/** A limiter's parts while samples are merged. */
export interface Site {
  readonly policies: readonly Policy[];
  readonly limiter: Record<string, unknown>;
  readonly store: Record<string, unknown>;
}

export interface Sample {
  /** The feature's fields of the policy `main`. */
  readonly main?: Record<string, unknown>;
  /** The algorithm that the feature needs, with its fields. */
  readonly algorithm?: Record<string, unknown>;
  /** Further policies. */
  readonly others?: readonly object[];
  readonly limiter?: Record<string, unknown>;
  readonly store?: Record<string, unknown>;
  /** The feature's calls, after a decision that admitted a request. */
  readonly use?: (limiter: Limiter, key: Key, decision: Decision, site: Site) => Promise<unknown>;
}

const ACCOUNT = { name: 'account', limit: 50, window: '1m', by: 'account' };
const SECOND = { name: 'second', limit: 200, window: '1h' };
const SHARED = { by: 'provider', share: 'tenant' };
const TIERS = { tiers: { pro: ['base=5000/1m'] } };
const OVERRIDES = { overrides: true };

const WINDOWS: Record<string, object> = { calendar: { period: 'day' }, concurrency: { lease: '30s' } };

const algorithm = (name: string): Sample => ({
  algorithm: { algorithm: name, ...(WINDOWS[name] ?? { window: '1m' }) },
});

const onStoreError = (mode: string): Sample => ({ limiter: { onStoreError: mode } });

const SAMPLES: Record<FeatureName, Sample> = {
  'sliding-window': algorithm('sliding-window'),
  'fixed-window': algorithm('fixed-window'),
  'sliding-log': algorithm('sliding-log'),
  'token-bucket': algorithm('token-bucket'),
  'leaky-bucket': algorithm('leaky-bucket'),
  gcra: algorithm('gcra'),
  calendar: algorithm('calendar'),
  concurrency: algorithm('concurrency'),
  'several policies': { others: [SECOND] },
  dimensions: { others: [ACCOUNT] },
  tiers: { limiter: TIERS, use: (limiter, key) => limiter.consume(key, { tier: 'pro' }) },
  'costs by policy': { use: (limiter, key) => limiter.consume(key, { cost: { base: 2 } }) },
  attempts: { main: { count: 'attempts' } },
  shadow: { main: { shadow: true } },
  'shares of units': { main: SHARED, ...algorithm('sliding-window') },
  'shares of slots': { main: SHARED, ...algorithm('concurrency') },
  weights: { use: (limiter, key) => limiter.consume(key, { weight: 3 }) },
  thresholds: { main: { thresholds: [0.1, 1] }, limiter: { onThreshold: () => {} } },
  'thresholds as a stream': { main: { thresholds: [0.1, 1] }, store: { thresholds: 'stream' } },
  'request ids': {
    use: async (limiter, key) => {
      await limiter.consume(key, { id: 'a' });
      const { repeated } = await limiter.consume(key, { id: 'a' });
      if (!repeated) throw new Error('The second request with the id was not a repetition.');
    },
  },
  'bans by denials': { limiter: { ban: { after: 3 } } },
  'bans by hand': {
    limiter: { ban: {} },
    use: async (limiter) => {
      await limiter.ban('ada', '1m');
      await limiter.unban('ada');
    },
  },
  'fresh bans': { limiter: { ban: { after: 3, fresh: true } } },
  'overrides of a key': {
    limiter: OVERRIDES,
    use: (limiter) => limiter.override('ada', { base: { limit: 900 } }, { for: '1h' }),
  },
  'overrides of a dimension': {
    others: [ACCOUNT],
    limiter: OVERRIDES,
    // With slotBy, a change names the slot's key, too.
    use: (limiter, _key, _decision, { limiter: { slotBy } }) =>
      limiter.override(
        { account: 'ada', ...(slotBy === 'key' && { key: 'ada' }) },
        { account: { limit: 40 } },
      ),
  },
  'overrides of all keys': {
    limiter: OVERRIDES,
    use: (limiter) => limiter.overrideAll({ base: { limit: 800 } }, { for: '1h' }),
  },
  'overrides by tier': {
    limiter: { ...TIERS, ...OVERRIDES },
    use: (limiter) => limiter.override('ada', { tier: 'pro' }),
  },
  'overrides of a window': {
    limiter: OVERRIDES,
    use: (limiter) => limiter.override('ada', { base: { window: '2m' } }),
  },
  refund: { use: (_limiter, _key, decision) => decision.refund() },
  settle: { use: (_limiter, _key, decision) => decision.settle({ base: 0 }) },
  cancel: { use: (_limiter, _key, decision) => decision.cancel() },
  wait: { use: (limiter, key) => limiter.wait(key, { timeout: '5s' }) },
  'wrapped functions': { use: (limiter, key) => rateLimited(async () => 1, { limiter, key: () => key })() },
  maxDelay: { main: { maxDelay: '5s' }, ...algorithm('leaky-bucket') },
  slices: { store: { slices: true } },
  localDenials: { store: { localDenials: '1s' } },
  acrossSlots: { others: [ACCOUNT], limiter: { acrossSlots: true } },
  slotBy: { limiter: { slotBy: 'key' } },
  hashKeys: { store: { hashKeys: 'a secret of more than sixteen characters' } },
  "onStoreError: 'local'": onStoreError('local'),
  "onStoreError: 'allow'": onStoreError('allow'),
  "onStoreError: 'deny'": onStoreError('deny'),
  "onStoreError: 'throw'": onStoreError('throw'),
  usage: { use: (limiter, key) => limiter.usage(key) },
  peek: { use: (limiter, key) => limiter.peek(key) },
  reset: { use: (limiter, key) => limiter.reset(key) },
};

const isAlgorithm = (name: FeatureName): boolean => FEATURE_NAMES.indexOf(name) < 8;

/** The policies that a pair's features are on: one, or one each if their algorithms differ. A plain algorithm goes before a needed one. */
function policiesOfPair([a, b]: readonly [FeatureName, FeatureName]): object[] {
  const [one, other] = [SAMPLES[a], SAMPLES[b]];
  const base = { limit: 20, ...algorithm('sliding-window').algorithm };
  const areDifferent = one.algorithm && other.algorithm && one.algorithm !== other.algorithm;
  if (areDifferent && isAlgorithm(a) === isAlgorithm(b))
    return [
      { name: 'main', limit: 20, ...one.algorithm, ...one.main },
      { name: 'beside', limit: 20, ...other.algorithm, ...other.main },
    ];
  const plain = [a, b].find(isAlgorithm);
  const needed = plain ? SAMPLES[plain].algorithm : (one.algorithm ?? other.algorithm);
  return [{ name: 'main', ...(needed ? { limit: 20, ...needed } : base), ...one.main, ...other.main }];
}

/** The limiter of two features, in this order. */
function siteOf(pair: readonly [FeatureName, FeatureName]): Site {
  const [first, second] = pair.map((name) => SAMPLES[name]) as [Sample, Sample];
  const others = new Set([first, second].flatMap((sample) => sample.others ?? []));
  const ban = first.limiter?.['ban'] || second.limiter?.['ban'];
  return {
    policies: [...policiesOfPair(pair), { name: 'base', limit: 1000, window: '1m' }, ...others] as Policy[],
    limiter: {
      ...{ ...first.limiter, ...second.limiter },
      ...(ban
        ? { ban: { ...(first.limiter?.['ban'] as object), ...(second.limiter?.['ban'] as object) } }
        : {}),
    },
    store: { ...first.store, ...second.store },
  };
}

/** The request's keys of all dimensions of a site. */
function keyOf({ policies }: Site): Key {
  const names = policies.flatMap(({ by, ...policy }) => [by, (policy as { share?: string }).share]);
  const used = names.filter((name): name is string => name !== undefined);
  return { key: 'ada', ...Object.fromEntries(used.map((name) => [name, 'ada'])) };
}

/** Makes the limiter of a pair on a store, and uses both features. */
export async function tryOut(
  pair: readonly [FeatureName, FeatureName],
  storeOf: (site: Site) => Store,
): Promise<void> {
  const site = siteOf(pair);
  const store = storeOf(site);
  const limiter = createLimiter({ ...site.limiter, store, timeout: '20s', policies: site.policies });
  try {
    const key = keyOf(site);
    for (const name of pair) {
      const decision = await limiter.consume(key);
      expect(decision).to.include({ allowed: true, degraded: false });
      await SAMPLES[name].use?.(limiter, key, decision, site);
      await decision.cancel();
    }
  } finally {
    await limiter.close();
    await store.close?.();
  }
}
