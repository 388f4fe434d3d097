// Writes docs/together.md: which features go together, from src/contract/together.ts and the fields of the algorithms. `npm run docs:together`
// writes the file; a test calls `togetherPage()` and compares.
import { writeFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { format, resolveConfig } from 'prettier';
import { algorithmsWith, ALGORITHMS } from '../../src/contract/compile-policies.js';
import { FEATURES, REFUSALS, type FeatureName, type Refusal } from '../../src/contract/together.js';

const FILE = fileURLToPath(new URL('../../docs/together.md', import.meta.url));

/** The fields that not every algorithm has, and their features. */
const FIELDS: readonly [string, readonly FeatureName[]][] = [
  ['share', ['shares of units', 'shares of slots']],
  ['count', ['attempts']],
  ['maxDelay', ['maxDelay']],
];

/** A feature that belongs to the algorithms with a field is refused beside the others. */
function refusalsOfFields(): Refusal[] {
  const slots = ['shares of slots'] as const;
  return FIELDS.map(([field, beside]) => ({
    features: [
      ...ALGORITHMS.filter((name) => !algorithmsWith(field).includes(name)),
      ...(beside.includes('attempts') ? slots : []),
    ],
    ...{ beside, within: 'policy', code: 'HEADGATE_UNKNOWN_OPTION' },
    reason: `'${field}' is not a field of the algorithm`,
  }));
}

const ROWS: readonly Refusal[] = [...Object.values<Refusal>(REFUSALS), ...refusalsOfFields()];

/** The refused pairs, by their sorted names. */
export function refusedPairs(): Map<string, Refusal> {
  const pairs = ROWS.flatMap((row) =>
    row.features.flatMap((one) => row.beside.map((other) => [[one, other].sort().join(' + '), row] as const)),
  );
  return new Map(pairs);
}

const WITHIN: Record<Refusal['within'], string> = {
  policy: 'on one policy',
  limiter: 'in one limiter',
  cluster: 'on a Redis Cluster',
  adapter: 'in the options of an adapter',
};

const list = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(', ');

/** The page. */
export async function togetherPage(): Promise<string> {
  const pairs = (FEATURES.length * (FEATURES.length - 1)) / 2;
  const rows = ROWS.map(
    ({ features, beside, within, code, reason }) =>
      `| ${list(features)} | ${list(beside)} | ${WITHIN[within]} | \`${code}\` | ${reason} |`,
  );
  const text = `# Features together

You can combine any features of a limiter. Every pair keeps the same promises as each feature alone, on every store. If two features contradict each other,
Headgate refuses them when you create the limiter, and the error names the reason. You never find out in production.

There are ${FEATURES.length} features and ${pairs} pairs, of which ${refusedPairs().size} are refused. Each pair is tried by a test, in both orders, on memory and on Redis.

## The features

${list(FEATURES)}.

## The refused pairs

Each feature of the first column is refused beside each feature of the second one. "On one policy" means that two policies of one limiter can still have
one feature each.

| feature | beside | where | code | reason |
|---|---|---|---|---|
${rows.join('\n')}

A call refuses an id if its policies hold slots, or if a cluster would have to decide key by key, because the id arrives with the call. The option \`requestId\`
is refused when the adapter is created.
`;
  const options = await resolveConfig(FILE);
  return format(text, { ...options, parser: 'markdown' });
}

if (process.argv[1] && pathToFileURL(process.argv[1]).href === import.meta.url)
  writeFileSync(FILE, await togetherPage());
