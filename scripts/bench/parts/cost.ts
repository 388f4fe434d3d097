import { atMost, redisPart, spreads, tableOf, type Bench, type Section } from '../lib/part.js';
import { BUCKET, compareRigs, DEFAULT, FIXED, MINUTE, SECOND } from '../lib/redis-rigs.js';
import { count, fixed } from '../lib/figures.js';
import type { RedisOptions, RedisSubject } from '../rigs/redis.js';

const MONTH = 30 * 86_400_000;
const HOT = 10_000;

/** The load of each algorithm: the limit, its window, the number of keys, and the expected answer. */
const loads: Readonly<Record<string, readonly [number, number, number, boolean | 'any']>> = {
  '100,000 a minute, hot keys': [1e5, MINUTE, HOT, true],
  '100 a minute, keys that come a few times': [100, MINUTE, 50_000, 'any'],
  '100,000 a second, hot keys': [1e5, SECOND, HOT, true],
  '100 a second, hot keys': [100, SECOND, HOT, 'any'],
  '100,000 a minute, cold keys': [1e5, MINUTE, 1_000_000, true],
  '100 a second, half denied': [100, SECOND, 1000, 'any'],
  '1 a minute, denied': [1, MINUTE, HOT, 'any'],
};

/** Redis' CPU per decision: each algorithm compared with the fixed window, which is one INCRBY. Every denial asks the server. */
export const cost = redisPart('cost', async (bench, port) => {
  const compare = comparer(bench, port);
  const sections: Section[] = [];
  for (const [what, [limit, window, keys, admitted]] of Object.entries(loads)) {
    const of = (subject: RedisSubject, most?: number) => ({
      subject,
      limit,
      window,
      keys,
      remote: true,
      most,
    });
    const sliding = of(DEFAULT, window === SECOND ? 2.2 : 1.5);
    const cases = { [FIXED]: of(FIXED), [DEFAULT]: sliding, [BUCKET]: of(BUCKET, 1.3) };
    sections.push(await compare(`${what} (${count(keys)} keys)`, cases, admitted));
  }
  sections.push(
    await compare('fixed window, large limits and long windows', {
      '100,000 a minute': { subject: FIXED },
      '4,000,000 a minute': { subject: FIXED, limit: 4e6, most: 1.6 },
      '100,000 in 30 days': { subject: FIXED, window: MONTH, most: 1.6 },
    }),
  );
  for (const subject of [DEFAULT, FIXED])
    sections.push(
      await compare(`policies per decision, ${subject}, 100,000 a minute`, {
        one: { subject },
        two: { subject, policies: 2, most: 1.7 },
        four: { subject, policies: 4, most: 3 },
      }),
    );
  return sections;
});

/** The cost of overrides on Redis. */
export const overrides = redisPart('overrides', async (bench, port) => {
  const sections: Section[] = [];
  for (const subject of [FIXED, DEFAULT, BUCKET]) {
    const options = { subject, remote: true };
    sections.push(
      await comparer(bench, port)(`overrides, ${subject}, 100,000 a minute`, {
        'without the option': options,
        'no key has one': { ...options, overrides: 0, most: 1.15 },
        'one key in a hundred has one': { ...options, overrides: 100, most: 1.2 },
        'each key has one': { ...options, overrides: 1, most: 1.2 },
      }),
    );
  }
  return sections;
});

/** The options of a case, and the largest allowed multiple of the first case's cost. */
type Case = Partial<RedisOptions> & { readonly most?: number | undefined };

/** Compares Redis' CPU per decision, us. */
const comparer =
  (bench: Bench, port: number) =>
  async (title: string, cases: Readonly<Record<string, Case>>, admitted: boolean | 'any' = true) => {
    const base = { subject: FIXED, port, limit: 1e5, window: MINUTE, keys: HOT };
    const results = await compareRigs(bench, title, base, cases, admitted);
    const [first = ''] = results.keys();
    const of = (name: string): number => results.get(name)!.redis.median;
    return tableOf(
      `Redis CPU, 64 in flight: ${title}`,
      results,
      [spreads('Redis us', 'redis', 2), ['ratio', (_, name) => fixed(of(name) / of(first), 2)]],
      {
        bars: Object.entries(cases).flatMap(([name, { most }]) =>
          most === undefined ? [] : [atMost(`${name}: <= ${most}x ${first}`, of(name), of(first), most)],
        ),
      },
    );
  };
