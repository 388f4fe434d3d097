// Writes docs/together.md: which features go together, from src/contract/together.ts and the fields of the algorithms. `npm run docs:together`
// writes the file; a test calls `togetherPage()` and compares.
import { writeFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { format, resolveConfig } from 'prettier';
import { algorithmsWith, ALGORITHMS } from '../../src/contract/compile-policies.js';
import { FEATURE_NAMES, REFUSALS, type FeatureName, type Refusal } from '../../src/contract/together.js';

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
  policy: 'On one policy',
  limiter: 'In one limiter',
  cluster: 'On a Redis Cluster',
  adapter: 'In the options of an adapter',
};

const list = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(', ');

/** The refusals, by their scope and code. */
function refusalList(): string {
  const rows = Object.values<Refusal>(REFUSALS);
  const titleOf = ({ within, code }: Refusal): string => `${WITHIN[within]} (\`${code}\`):`;
  const itemOf = ({ features, beside, reason }: Refusal): string =>
    `- ${list(features)} with ${list(beside)}: ${reason}`;
  const itemsOf = (title: string): string =>
    rows
      .filter((row) => titleOf(row) === title)
      .map(itemOf)
      .join('\n');
  return [...new Set(rows.map(titleOf))].map((title) => `${title}\n\n${itemsOf(title)}`).join('\n\n');
}

/** The algorithms that have a field. */
const fieldItem = ([field]: (typeof FIELDS)[number]): string =>
  `- \`${field}\`: only ${list(ALGORITHMS.filter((name) => algorithmsWith(field).includes(name)))}`;

/** The page. */
export async function togetherPage(): Promise<string> {
  const pairs = (FEATURE_NAMES.length * (FEATURE_NAMES.length - 1)) / 2;
  const text = `# Features together

You can combine any features of a limiter, and each keeps its promises beside every other, on every store. If two features contradict each other,
Headgate refuses them when you create the limiter, and the error names the reason and the fix.

A test tries each of the ${pairs} pairs of [${FEATURE_NAMES.length} features](../src/contract/together.ts), in both orders, on memory and on Redis. The ${refusedPairs().size} refused pairs are below. Two
features that are refused on one policy can be on two policies of one limiter.

${refusalList()}

A field beside an algorithm that lacks the field (\`HEADGATE_UNKNOWN_OPTION\`):

${FIELDS.map(fieldItem).join('\n')}

A call refuses an id if its policies hold slots, or if a cluster would have to decide key by key, because the id arrives with the call. An adapter refuses \`requestId\` at its creation.
`;
  const options = await resolveConfig(FILE);
  return format(text, { ...options, parser: 'markdown' });
}

if (process.argv[1] && pathToFileURL(process.argv[1]).href === import.meta.url)
  writeFileSync(FILE, await togetherPage());
