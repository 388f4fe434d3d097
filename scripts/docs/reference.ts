// Writes docs/limiter.md and docs/decision.md from the docstrings of the sources. `npm run docs:reference` writes the files; a test calls
// `referencePages()` and compares.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { format, resolveConfig } from 'prettier';
import ts from 'typescript';
import type { Reason } from '../../src/index.js';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Each reason: whether it denies or admits, the status over HTTP, and the meaning. */
const REASONS: Readonly<Record<Reason, readonly [kind: string, status: string, meaning: string]>> = {
  'quota-exceeded': ['denial', '429', 'A policy has too few units left, so wait for `retryAfterMs`.'],
  'fair-share': [
    'denial',
    '429',
    "The limit has units, but the tenant's [share](fair-shares.md) has too few.",
  ],
  'cost-exceeds-capacity': [
    'denial',
    '429',
    'The cost is above the limit or the burst, so waiting never helps.',
  ],
  banned: ['denial', '429', 'The key is [banned](bans.md).'],
  'queue-full': ['denial', '503', 'No place is left among the [waiting](queues.md) or held requests.'],
  'wait-timeout': ['denial', '429', 'The request waited for as long as `wait` of an adapter allows.'],
  aborted: ['denial', '', 'The client left, or the `signal` was aborted.'],
  'deny-listed': [
    'denial',
    '403',
    'The client is on the [`denyList`](skip-and-lists.md), so waiting never helps.',
  ],
  'allow-listed': [
    'admission',
    '',
    'The client is on the [`allowList`](skip-and-lists.md), so nothing was charged.',
  ],
  'store-full': [
    'either',
    '503',
    'The [memory store](memory.md#when-the-store-is-full) has no room, so `onFull` decided.',
  ],
  'store-error': ['either', '503', 'The store failed or was late, so [`onStoreError`](failure.md) decided.'],
  'process-late': [
    'either',
    '503',
    'Your process was [too busy](failure.md#a-busy-process-is-not-a-store-that-failed) to ask the store in time.',
  ],
  disabled: ['admission', '', 'The option [`enabled`](skip-and-lists.md#a-switch) turned the limiter off.'],
};

interface Member {
  readonly name: string;
  readonly signature: string;
  readonly sentence: string;
  readonly errors: readonly string[];
}

/** The public members of a class or interface, with the first sentence of their docstrings. */
function membersOf(path: string, type: string): Member[] {
  const file = ts.createSourceFile(path, readFileSync(root + path, 'utf8'), ts.ScriptTarget.Latest, true);
  const owner = file.statements.find(
    (each) => (ts.isClassDeclaration(each) || ts.isInterfaceDeclaration(each)) && each.name?.text === type,
  ) as ts.ClassDeclaration | ts.InterfaceDeclaration;
  const errorsOf = new Map<string, readonly string[]>();
  return owner.members.flatMap((member) => {
    const comment = ts.getJSDocCommentsAndTags(member).find(ts.isJSDoc)?.getText() ?? '';
    const name = member.name?.getText() ?? '';
    if (comment === '' || comment.includes('@internal') || !/^\w+$/.test(name)) return [];
    const text = comment
      .replaceAll(/^\s*\/?\*+\/?|\*\/$/gm, '')
      .replaceAll(/\s+/g, ' ')
      .replaceAll(/\{@link (\w+)\}/g, '`$1`')
      .trim();
    const [described = '', ...tags] = text.split(/ (?=@(?:param|throws|returns|default))/);
    const returned = tags.find((tag) => tag.startsWith('@returns '))?.slice(9);
    const sentence = /^.*?\.(?= [A-Z`0]|$)/.exec(described)?.[0] ?? described;
    const joint = sentence.startsWith('The ') ? ', or ' : ', and returns ';
    const calls = ts.isMethodDeclaration(member) || ts.isMethodSignature(member);
    const parameters = calls
      ? `(${member.parameters.map((each) => each.name.getText() + (each.questionToken || each.initializer ? '?' : '')).join(', ')})`
      : '';
    const [, like = ''] = /as `(\w+)`$/.exec(tags.find((tag) => tag.startsWith('@throws')) ?? '') ?? [];
    const errors = [...new Set([...(text.match(/HEADGATE_\w+/g) ?? []), ...(errorsOf.get(like) ?? [])])];
    errorsOf.set(name, errors);
    return [
      {
        name,
        signature: `\`${name}${parameters}\``,
        sentence: sentence.replace(/\.$/, () => (returned ? joint + returned.replace(/\.?$/, '.') : '.')),
        errors,
      },
    ];
  });
}

const linkOf = (code: string): string => `[\`${code}\`](errors.md#${code.toLowerCase()})`;

/** The members as a list in Markdown. */
const listOf = (members: readonly Member[]): string =>
  members.map(({ signature, sentence }) => `- **${signature}**: ${sentence}`).join('\n');

/** Errors of wrong arguments, which nearly every method has. */
const OF_ARGUMENTS =
  /^HEADGATE_(?:CLOSED|INVALID_(?:KEY|COST|OPTION)|UNKNOWN_(?:DIMENSION|POLICY|TIER|OPTION))$/;

/** The methods as a list, each with its errors beside those of arguments, or the first method with the same ones. */
function methodList(methods: readonly Member[]): string {
  const first = new Map<string, string>();
  const items = methods.map(({ name, signature, sentence, errors }) => {
    const links = errors
      .filter((code) => !OF_ARGUMENTS.test(code))
      .map(linkOf)
      .join(', ');
    const like = first.get(links);
    if (like === undefined) first.set(links, name);
    const thrown = links === '' ? '' : ` (${like === undefined ? links : `errors as \`${like}\``})`;
    return `- **${signature}**${thrown}: ${sentence}`;
  });
  return items.join('\n');
}

/** The members that features add to a type of the core, by its name in `src/contract/features.ts`. */
function membersOfFeatures(parts: string): Member[] {
  const text = readFileSync(`${root}src/contract/features.ts`, 'utf8');
  const types = new RegExp(`export type ${parts} = ([\\w &]+);`).exec(text)?.[1];
  if (types === undefined) throw new Error(`src/contract/features.ts has no type ${parts}.`);
  return types.split(' & ').flatMap((type) => {
    const path = new RegExp(`import type \\{[^}]*\\b${type}\\b[^}]*\\} from '\\.\\./(.*)\\.js'`).exec(
      text,
    )?.[1];
    return membersOf(`src/${path}.ts`, type);
  });
}

/** The interfaces of options, with the methods that take them, and the types of the features' options. */
const OPTIONS = [
  ['`consume`, `peek`, `acquire`, `wait`', 'src/limiter/options.ts', 'ConsumeOptions', 'AskingOptions'],
  ['the same and `refund`, `reset`, `usage`', 'src/limiter/options.ts', 'TierOption'],
  ['`consume`', 'src/limiter/options.ts', 'RequestOptions', 'ChargingOptions'],
  ['`wait`', 'src/limiter/options.ts', 'WaitOptions'],
  ['`hold`', 'src/limiter/options.ts', 'HoldOptions'],
  ['`override`, `overrideAll`', 'src/limiter/overrides/override.ts', 'OverrideNote'],
  [
    '`ban`, `unban`, `override`, `overrideAll`, `removeOverride`',
    'src/contract/change-note.ts',
    'ChangeNoteOptions',
  ],
  ['`unban`', 'src/features/bans/contract/ban-options.ts', 'UnbanOptions'],
] as const;

/** The classes from which a limiter inherits the methods of features, in the order of the page. */
const FEATURE_METHODS = [
  ['src/limiter/bans.ts', 'BannableLimiter'],
  ['src/limiter/overrides/overridable-limiter.ts', 'OverridableLimiter'],
] as const;

function limiterPage(): string {
  const members = membersOf('src/limiter/limiter.ts', 'Limiter');
  const own = members.filter(({ signature }) => signature.includes('('));
  const inherited = FEATURE_METHODS.flatMap(([path, type]) => membersOf(path, type));
  const at = own.findIndex(({ name }) => name === 'compile');
  const methods = [...own.slice(0, at), ...inherited, ...own.slice(at)];
  const fields = members.filter(({ signature }) => !signature.includes('('));
  return `# A limiter: every method

You get a limiter from \`createLimiter(options)\`, \`rateLimit(options).limiter\` of an adapter, or \`fastify.rateLimit(options).limiter\`. A key is a text, or an object with a key for each
[dimension](several-limits.md).

\`\`\`ts
import { createLimiter } from 'headgate';

const limiter = createLimiter({ name: 'api', limit: 100, window: '1m' });

const decision = await limiter.consume('ada', { cost: 3 });
console.log(decision.allowed, decision.remaining); // true 97
\`\`\`

Every method returns a promise, except \`decide\` and \`compile\`. A denial is a [decision](decision.md), not an error, except for \`wait\`. Wrong arguments throw
[coded errors](errors.md#at-run-time-arguments), and after \`close\`, each method throws ${linkOf('HEADGATE_CLOSED')}.

## Methods

${methodList(methods)}

## Options of the methods

${OPTIONS.map(([of, path, type, parts]) => `Of ${of}:\n\n${listOf([...membersOf(path, type), ...(parts ? membersOfFeatures(parts) : [])])}`).join('\n\n')}

The change of a limiter with several policies names them: \`override(key, { minute: '1000/1m', day: false })\`.

## Fields

${listOf(fields)}
`;
}

/** The reasons by kind: denials, admissions, and those that may be either. */
function reasonList(): string {
  const kinds = [
    ['denial', 'Of a denial, with the status over HTTP:'],
    ['admission', 'Of an admission that was not counted:'],
    ['either', 'Of either; the status is that of a denial:'],
  ] as const;
  return kinds
    .map(([kind, title]) => {
      const items = Object.entries(REASONS)
        .filter(([, [of]]) => of === kind)
        .map(
          ([reason, [, status, meaning]]) =>
            `- **\`'${reason}'\`**${status === '' ? '' : ` (${status})`}: ${meaning}`,
        );
      return `${title}\n\n${items.join('\n')}`;
    })
    .join('\n\n');
}

function decisionPage(): string {
  const members = membersOf('src/common/decision.ts', 'DecisionFields');
  const alike = new Set(['allowed', 'limit', 'remaining', 'retryAfterMs', 'resetAfterMs']);
  const verdict = membersOf('src/common/decision.ts', 'Verdict').filter(({ name }) => !alike.has(name));
  const isMethod = ({ signature }: Member): boolean => signature.includes('(');
  return `# A decision: every field and every reason

\`consume\`, \`peek\` and the adapters (\`req.rateLimit\`) give you a decision, of which you usually need three fields:

\`\`\`ts
import { createLimiter } from 'headgate';

const limiter = createLimiter({ limit: 10, window: '1s' });
const { allowed, reason, retryAfterMs } = await limiter.consume('ada');
if (!allowed) console.log(\`Denied (\${reason}). Come back in \${retryAfterMs} ms.\`);
\`\`\`

TypeScript narrows a decision: after \`!allowed\`, \`retryAfterMs\` is a number, unless the reason is \`'cost-exceeds-capacity'\` or \`'deny-listed'\`, for which waiting never helps.

## Fields

${listOf(members.filter((each) => !isMethod(each)))}

## Methods

${listOf(members.filter(isMethod))}

## Verdicts

\`policies\` has a verdict of each policy, with ${[...alike].map((name) => `\`${name}\``).join(', ')} of this policy, and:

${listOf(verdict)}

## Reasons

\`reason\` is undefined for a plain admission, while a shadow admits the request with the reason of a denial.

${reasonList()}

The option \`statusCode\` replaces 429. If \`degraded\` is true, the store did not decide, but with \`'local'\` this process did, by the same policies.
`;
}

/** The contents of the pages, by path. */
export async function referencePages(): Promise<Readonly<Record<string, string>>> {
  const options = { ...(await resolveConfig(`${root}docs/limiter.md`)), parser: 'markdown' };
  return {
    'docs/limiter.md': await format(limiterPage(), options),
    'docs/decision.md': await format(decisionPage(), options),
  };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  for (const [path, text] of Object.entries(await referencePages())) writeFileSync(root + path, text);
