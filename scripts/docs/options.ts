// Writes docs/options.md: every option with its type and default from the option tables, and the first sentence of its docstring. `npm run
// docs:options` writes the file; a test calls `optionsPage()` and compares.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { format, resolveConfig } from 'prettier';
import ts from 'typescript';
import { POLICY_TABLE } from '../../src/algorithms/index.js';
import type { Row } from '../../src/common/options.js';
import { BAN_TABLE } from '../../src/features/bans/contract/ban-options.js';
import { OUTBOUND_TABLE } from '../../src/fetch/outbound-options.js';
import { FASTIFY_TABLE } from '../../src/http/adapters/fastify.js';
import { NEST_TABLE } from '../../src/http/adapters/nestjs/limiters.js';
import { REQUEST_TABLE } from '../../src/http/options.js';
import { LIMITER_TABLE } from '../../src/limiter/options.js';
import { CALL_TABLE } from '../../src/limiter/rate-limited.js';
import { MEMORY_TABLE } from '../../src/stores/memory/memory.js';
import { POSTGRES_TABLE } from '../../src/stores/postgres/postgres.js';
import { SLICE_TABLE } from '../../src/stores/redis/local/slice-options.js';
import { COUNT_TABLE } from '../../src/stores/counts/traffic.js';
import { REDIS_TABLE } from '../../src/stores/redis/redis.js';
import { SQLITE_TABLE } from '../../src/stores/sqlite/sqlite.js';

type Table = Readonly<Record<string, Omit<Row<never>, 'accepts'>>>;

/** A table of options, and the public types with their documentation. */
interface Section {
  readonly title: string;
  readonly text: string;
  readonly table: Table;
  /** The first type with an option documents the option. */
  readonly types: readonly string[];
}

const DATABASE_TYPES = ['DatabaseOptions', 'StreamOptions'];
const LIMITER_TYPES = ['CommonOptions', 'FailureOptions', 'SlotOptions', 'LimiterOptions', 'JointPolicies'];

const SECTIONS: readonly Section[] = [
  {
    title: 'Policies',
    text: 'A policy is inline among the options, or in `policies`. [Algorithms](algorithms.md) shows which algorithm has which fields.',
    table: POLICY_TABLE,
    types: [
      ...[
        'PolicyBase',
        'QuotaPolicy',
        'WindowPolicy',
        'SlidingWindowPolicy',
        'TokenBucketPolicy',
        'LeakyBucketPolicy',
      ],
      ...['CalendarPolicy', 'ConcurrencyPolicy'],
    ],
  },
  {
    title: 'Limiters',
    text: 'Options of `createLimiter` and of all adapters, `limitFetch`, `rateLimited` and `RateLimited`.',
    table: LIMITER_TABLE,
    types: LIMITER_TYPES,
  },
  {
    title: 'Bans',
    text: 'The option `ban`.',
    table: BAN_TABLE,
    types: ['BanOptions'],
  },
  {
    title: 'Requests',
    text: 'Further options of all adapters. Functions of the request may be async. Without a policy, they admit 1,000 requests a minute from each client.',
    table: REQUEST_TABLE,
    types: ['RequestOptions', 'GivenLimiter', ...LIMITER_TYPES],
  },
  {
    title: 'Fastify',
    text: 'Further options of `rateLimitPlugin`, of which a route has only `hook`.',
    table: FASTIFY_TABLE,
    types: ['RateLimitOptions', 'RateLimitPluginOptions'],
  },
  {
    title: 'NestJS',
    text: 'A further option of `RateLimitModule`.',
    table: NEST_TABLE,
    types: ['RateLimitModuleOptions'],
  },
  { title: 'memoryStore', text: '', table: MEMORY_TABLE, types: ['MemoryStoreOptions'] },
  {
    title: 'redisStore',
    text: 'See [Redis and Valkey](redis.md).',
    table: REDIS_TABLE,
    types: ['RedisStoreOptions', 'StreamOptions'],
  },
  { title: 'slices of redisStore', text: '', table: SLICE_TABLE, types: ['SliceOptions'] },
  { title: 'counts of the stores', text: '', table: COUNT_TABLE, types: ['CountOptions'] },
  { title: 'sqliteStore', text: '', table: SQLITE_TABLE, types: ['SqliteStoreOptions', ...DATABASE_TYPES] },
  {
    title: 'postgresStore',
    text: '`postgresSchema` has the first two.',
    table: POSTGRES_TABLE,
    types: ['PostgresSchemaOptions', ...DATABASE_TYPES],
  },
  {
    title: 'limitFetch',
    text: 'Further options of [outbound calls](outbound.md), beside those of limiters.',
    table: OUTBOUND_TABLE,
    types: ['OutboundOptions'],
  },
  {
    title: 'rateLimited and RateLimited',
    text: 'Further options of [functions and methods](decorators.md), beside those of limiters.',
    table: CALL_TABLE,
    types: ['LimitedBy', 'CallOptions', 'Fallback'],
  },
];

const root = fileURLToPath(new URL('../../', import.meta.url));

/** The docstrings of all properties of types in `src`, by type and property. */
const docs = docstrings();

function docstrings(): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const parts = ['algorithms', 'contract', 'features', 'limiter', 'http', 'fetch', 'stores'];
  const paths = parts.flatMap((part) =>
    readdirSync(`${root}src/${part}`, { recursive: true, encoding: 'utf8' }).map((path) => `${part}/${path}`),
  );
  for (const path of paths.filter((each) => each.endsWith('.ts')).sort()) {
    const text = readFileSync(`${root}src/${path}`, 'utf8');
    const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
    const visit = (node: ts.Node, type?: string): void => {
      const isType = ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node);
      const owner = isType ? node.name.text : type;
      const [comment] = ts.getJSDocCommentsAndTags(node).filter(ts.isJSDoc);
      if (owner !== undefined && comment && ts.isPropertySignature(node)) {
        const id = `${owner}.${node.name.getText()}`;
        if (!found.has(id)) found.set(id, comment.getText());
      }
      ts.forEachChild(node, (child) => visit(child, owner));
    };
    visit(file);
  }
  return found;
}

/** An option as the page shows it. */
export interface Documented {
  readonly section: string;
  readonly name: string;
  readonly type: string;
  /** The default in the table. */
  readonly otherwise: unknown;
  /** The default in the docstring. */
  readonly documented: string | undefined;
  /** The first sentence of the docstring. */
  readonly sentence: string;
}

/** All options, in the order of the page. */
export function options(): readonly Documented[] {
  return SECTIONS.flatMap(({ title, table, types }) =>
    Object.entries(table).map(([name, row]): Documented => {
      const type = types.find((each) => docs.has(`${each}.${name}`));
      const lines = (docs.get(`${type}.${name}`) ?? '').replace(/^\/\*\*|\*\/$/g, '').split('\n');
      const [text = '', documented] = lines
        .map((line) => line.replace(/^\s*\* ?/, '').trim())
        .join(' ')
        .split(/\s*@default\s*/);
      const sentence = /^.*?\.(?=\s+[A-Z`]|\s*$)/.exec(text.trim())?.[0] ?? text.trim();
      return {
        ...{ section: title, name, type: row.type, otherwise: row.default, documented: documented?.trim() },
        sentence,
      };
    }),
  );
}

/** Groups the digits of long numbers. */
const grouped = (text: string): string =>
  text.replace(/\b0d\b/, '0').replace(/\b\d{4,}\b/g, (digits) => Number(digits).toLocaleString('en-US'));

/** A default as text: the docstring's words, or the table's value. */
function defaultText({ otherwise, documented }: Documented): string {
  if (otherwise === undefined) return documented?.replace(/^('[^']*'|true|false)$/, '`$1`') ?? '';
  if (typeof otherwise === 'number') return grouped(String(otherwise));
  return `\`${JSON.stringify(otherwise).replaceAll('"', "'").replaceAll(',', ', ')}\``;
}

/** A sentence without the range of values at its end, which has a column of its own. */
const withoutRange = (sentence: string): string =>
  sentence.replace(/[,:] (?:(?:at least )?`?'?\d(?!\d* characters)|ms\b|a whole number\b)[^:{}]*\.$/, '.');

/** Whether another section shows the option already. */
const isRepeated = ({ section, name }: Documented): boolean =>
  section === 'Requests' && name in LIMITER_TABLE;

/** Defaults that are nothing. */
const OFF = /^(?:none|no \w+|requests do not wait|the limit is not shared)$/;

/** An option as an item of the list: its name, values, default and meaning. */
function itemOf(option: Documented): string {
  const otherwise = defaultText(option);
  const isOff =
    otherwise === '' || OFF.test(otherwise) || (option.type === 'boolean' && option.otherwise === false);
  const type = grouped(option.type.replace(', 1ms to 366d', ''));
  const facts = isOff ? type : `${type}; ${otherwise}`;
  return `- **\`${option.name}\`** (${facts}): ${withoutRange(option.sentence)}`;
}

/** The content of docs/options.md. */
export async function optionsPage(): Promise<string> {
  const all = options();
  /** The section in which an item was shown first. */
  const shown = new Map<string, string>();
  const parts = SECTIONS.map(({ title, text }) => {
    const repeated = new Map<string, string[]>();
    const items: string[] = [];
    for (const option of all.filter((each) => each.section === title && !isRepeated(each))) {
      const item = itemOf(option);
      const first = shown.get(item);
      if (first === undefined) items.push(item);
      else repeated.set(first, [...(repeated.get(first) ?? []), `\`${option.name}\``]);
      shown.set(item, first ?? title);
    }
    const also = [...repeated].map(([first, names]) => `As for \`${first}\`: ${names.join(', ')}.`);
    return `## ${title}\n\n${text}\n\n${items.join('\n')}\n\n${also.join(' ')}`;
  });
  const intro = `# Options

<!-- npm run docs:options writes this page from the option tables and the docstrings of src. -->

\`\`\`ts
import { createLimiter } from 'headgate';

const limiter = createLimiter({ name: 'api', limit: 100, window: '1m', ban: { after: 50 } });
\`\`\`

The brackets contain the values and, after the semicolon, the default; a boolean without one is \`false\`, and \`undefined\` counts as omitted (not for \`hashKeys\`). A duration is a number
of milliseconds, or a number with a unit: \`'500ms'\`, \`'10s'\`, \`'15m'\`, \`'1h'\`, \`'30d'\`, \`'1w'\` (no months), up to 366 days. Every option is checked when the limiter is made, and an [error](errors.md) contains a
correct value. Your editor shows the complete descriptions.`;
  const path = `${root}docs/options.md`;
  return format([intro, ...parts].join('\n\n'), { ...(await resolveConfig(path)), filepath: path });
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href)
  writeFileSync(`${root}docs/options.md`, await optionsPage());
