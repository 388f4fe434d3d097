// Counts the hidden classes of the objects that decisions read, for limiters of many options. Runs with node --allow-natives-syntax.
import { createLimiter, memoryStore, type CreateLimiterOptions, type Store } from 'headgate';

// eslint-disable-next-line @typescript-eslint/no-implied-eval -- only a text can contain V8's own syntax
const haveSameMap = new Function('a', 'b', 'return %HaveSameMap(a, b)') as (a: object, b: object) => boolean;

/** Every combination of some options. */
const combinations = (parts: readonly object[]): object[] =>
  parts.reduce<object[]>((all, part) => [...all, ...all.map((each) => ({ ...each, ...part }))], [{}]);

const options = combinations([
  { name: 'api' },
  { ban: { after: 3 } },
  { overrides: true },
  { idsFor: '1m' },
  { timeout: '50ms' },
  { tiers: { pro: '50/1m' } },
  { shadow: true, onDecision: () => {} },
  { thresholds: [1], onThreshold: () => {} },
]);

const classes: Record<string, object[]> = {};

function count(name: string, value: object): void {
  const known = (classes[name] ??= []);
  if (!known.some((each) => haveSameMap(each, value))) known.push(value);
}

/** A memory store that counts the classes of its questions. */
function countingStore(): Store {
  const store = memoryStore() as Store;
  const methods = {
    decide: (query: Parameters<Store['decide']>[0]) => {
      count('query', query);
      count('set', query.set);
      for (const policy of query.set.policies) count('policy', policy);
      return store.decide(query);
    },
  };
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get({ ...methods }, name) ?? Reflect.get(target, name);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

for (const each of options) {
  const given = { limit: 5, window: '1m', ...each, store: countingStore() } as CreateLimiterOptions;
  const limiter = createLimiter(given);
  for (const tier of 'tiers' in each ? [undefined, 'pro'] : [undefined]) {
    const decision = await limiter.consume('k', tier === undefined ? {} : { tier });
    count('decision', decision);
  }
  count('limiter', limiter);
}

const counts = Object.fromEntries(Object.entries(classes).map(([name, known]) => [name, known.length]));
process.send!({ limiters: options.length, counts });
