// The triples of features that a run has met.
import type { FeatureName } from '../../src/contract/together.js';
import type { Both } from './actions.js';
import type { DrawnLimiter } from './draw.js';
import { textOf, TRIPLES, triplesOf } from './rows.js';

const met = new Set<number>();

/** The features that a limiter's options have. */
function featuresOf({ policies, ban, onStoreError }: DrawnLimiter): FeatureName[] {
  const some = (is: (policy: (typeof policies)[number]) => unknown, name: FeatureName) =>
    policies.some(is) ? [name] : [];
  return [
    ...policies.map(({ algorithm }) => algorithm),
    ...(policies.length > 1 ? (['several policies'] as const) : []),
    ...some(({ by }) => by !== policies[0]!.by, 'dimensions'),
    ...some(({ attempts }) => attempts, 'attempts'),
    ...some(({ shadow }) => shadow, 'shadow'),
    ...some(({ share, algorithm }) => share && algorithm !== 'concurrency', 'shares of units'),
    ...some(({ share, algorithm }) => share && algorithm === 'concurrency', 'shares of slots'),
    ...some(({ thresholds }) => thresholds, 'thresholds'),
    ...some(({ maxDelay }) => maxDelay, 'maxDelay'),
    ...(ban?.after === undefined ? [] : (['bans by denials'] as const)),
    ...(ban?.after !== undefined && ban.fresh ? (['fresh bans'] as const) : []),
    `onStoreError: '${onStoreError}'` as FeatureName,
  ];
}

/** Notes what the trace of a limiter used. @param ofStore the features that the options of the store have */
export function meet({ drawn, used }: Both, ofStore: readonly FeatureName[]): void {
  const all = [...featuresOf(drawn), ...used, ...ofStore];
  for (const triple of triplesOf(all)) if (TRIPLES.has(triple)) met.add(triple);
}

export const metText = (rows: number): string =>
  `${met.size} of ${TRIPLES.size} triples of features met (${rows} rows hold all), ${TRIPLES.size - met.size} left`;

/** Triples that were not met yet, as text. */
export const leftTriples = (): string[] => [...TRIPLES].filter((triple) => !met.has(triple)).map(textOf);
