// The pages of the site: the files of the repository at their own paths, so that their links hold, and a page for each error code.
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import GithubSlugger from 'github-slugger';

export const root = new URL('../../../', import.meta.url).pathname;
export const REPOSITORY = 'https://github.com/headgate/headgate';

/** The folder from which VitePress builds. It is made anew, and not in the repository. */
export const SOURCES = join(root, 'dist.site-pages');
export const SITE = join(root, 'dist.site');

/** A page: its path from the root of the repository, and its text. */
export interface SitePage {
  readonly path: string;
  readonly text: string;
}

/** A group of links in the sidebar. */
export interface NavigationGroup {
  readonly text: string;
  readonly items: readonly { readonly text: string; readonly link: string }[];
}

const read = (path: string): string => readFileSync(join(root, path), 'utf8');

/** The pages of the repository. The reference is there if `npm run docs:api` has written it. */
function pagesOfRepository(): string[] {
  const docs = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' });
  return [
    ...readdirSync(root).filter((file) => file.endsWith('.md')),
    ...docs.filter((file) => file.endsWith('.md')).map((file) => `docs/${file}`),
    ...readdirSync(join(root, 'packages')).map((name) => `packages/${name}/README.md`),
  ].sort();
}

const LINK = /(\]\(|src="|srcset="|href=")([^)"\s]+)/g;

/** Rewrites the links of a page. @param rewrite receives the target, returns the new one */
const withLinks = (text: string, rewrite: (target: string) => string): string =>
  text.replace(LINK, (_, before: string, target: string) => before + rewrite(target));

/** Full addresses of pages, which npm and error texts need, lead to the pages of the site; files that are no pages, to the repository. */
export function linkFrom(page: string, target: string, pages: ReadonlySet<string>): string {
  const full = new RegExp(`^${REPOSITORY}/blob/main/([^#]+)(#.*)?$`).exec(target);
  const raw = /^https:\/\/raw\.githubusercontent\.com\/headgate\/headgate\/main\/(.+)$/.exec(target);
  if (raw) return relative(page, raw[1]!);
  if (!full && /^([a-z]+:|#)/.test(target)) return target;
  const [path = '', fragment = ''] = full ? [full[1], full[2]] : split(target);
  const absolute = full ? path : posix.join(dirname(page), path);
  if (absolute === 'README.md') return relative(page, 'index.md') + fragment;
  if (pages.has(absolute)) return relative(page, absolute) + fragment;
  if (/\.(svg|png)$/.test(absolute)) return relative(page, absolute);
  return `${REPOSITORY}/blob/main/${absolute}${fragment}`;
}

const split = (target: string): [string, string] => {
  const at = target.indexOf('#');
  return at < 0 ? [target, ''] : [target.slice(0, at), target.slice(at)];
};

function relative(page: string, target: string): string {
  const path = posix.relative(dirname(page), target);
  return path.startsWith('.') ? path : `./${path}`;
}

/** The frameworks by the sub-paths of their adapters. */
const FRAMEWORKS = new Map([
  ['express', 'Express'],
  ['fastify', 'Fastify'],
  ['nestjs', 'NestJS'],
  ['hono', 'Hono'],
  ['koa', 'Koa'],
  ['web', 'Web'],
]);

const FENCE = /```ts\n[^]*?\n```\n/;
const GROUP = new RegExp(`^(?:${FENCE.source}\\n?){2,}`, 'gm');

/** Blocks that follow each other, each for another framework, become one group with a tab for each. */
export function withCodeGroups(text: string): string {
  return text.replace(GROUP, (group) => {
    const blocks = group.match(new RegExp(FENCE, 'g'))!;
    const names = blocks.map(
      (block) => FRAMEWORKS.get(/from 'headgate\/(\w+)'/.exec(block)?.[1] ?? '') ?? '',
    );
    if (names.includes('') || new Set(names).size < names.length) return group;
    const tabs = blocks.map((block, i) => block.replace('```ts', `\`\`\`ts [${names[i]!}]`));
    return `::: code-group\n\n${tabs.join('\n')}\n:::\n\n`;
  });
}

/** The anchors of typedoc are counted otherwise than headings: a second one may be named that is not there. */
export function withKnownAnchors(text: string): string {
  const slugger = new GithubSlugger();
  const known = new Set([...text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => slugger.slug(heading!)));
  return text.replace(/\]\(#([\w-]+?)(-\d+)\)/g, (link, anchor: string, count: string) =>
    !known.has(anchor + count) && known.has(anchor) ? `](#${anchor})` : link,
  );
}

/** Each error code as a page of its own, from the sections of docs/errors.md. */
export function errorPages(errors: string): SitePage[] {
  return errors
    .split(/^(?=### HEADGATE_)/m)
    .slice(1)
    .map((section) => {
      const [, code, body] = /^### (HEADGATE_\w+)\n([^]*)$/.exec(section)!;
      const own = body!.split(/^#{1,3} /m)[0]!.trim();
      const text = withLinks(own, (target) => (/^([a-z]+:)/.test(target) ? target : atDocs(target)));
      return {
        path: `errors/${code!}.md`,
        text: `# ${code!}\n\n${text}\n\n[All errors](../docs/errors.md)\n`,
      };
    });
}

const atDocs = (target: string): string =>
  target.startsWith('#') ? `../docs/errors.md${target}` : `../docs/${target}`;

/** The navigation: the links of docs/README.md. */
export function navigationOf(index: string): NavigationGroup[] {
  return index
    .split(/^## /m)
    .slice(1)
    .map((section) => ({
      text: section.slice(0, section.indexOf('\n')),
      items: [...section.matchAll(/\[([^\]]+)\]\(([^)]+)\)/g)]
        .filter(([, , link]) => link!.endsWith('.md'))
        .map(([, text, link]) => ({ text: text!, link: `/docs/${link!.replace(/\.md$/, '')}` }))
        .filter(({ link }, i, all) => all.findIndex((other) => other.link === link) === i),
    }));
}

const PLAYGROUND = '<!-- playground -->';

/** The playground stands where GitHub shows nothing, and takes the whole width. */
const withPlayground = (text: string): string =>
  text.includes(PLAYGROUND)
    ? `---\naside: false\npageClass: wide\n---\n\n${text.replace(PLAYGROUND, '<Playground />')}`
    : text;

/** Writes the pages into the folder from which VitePress builds. @returns their paths */
export function writeSources(): string[] {
  rmSync(SOURCES, { recursive: true, force: true });
  const files = pagesOfRepository();
  const errors = errorPages(read('docs/errors.md'));
  const known = new Set([...files, ...errors.map(({ path }) => path)]);
  for (const { path, text } of [...files.map((path) => ({ path, text: read(path) })), ...errors]) {
    const to = join(SOURCES, path === 'README.md' ? 'index.md' : path);
    mkdirSync(dirname(to), { recursive: true });
    writeFileSync(
      to,
      withPlayground(
        withKnownAnchors(withCodeGroups(withLinks(text, (target) => linkFrom(path, target, known)))),
      ),
    );
  }
  cpSync(join(root, 'docs/plots'), join(SOURCES, 'docs/plots'), { recursive: true });
  for (const file of readdirSync(join(root, 'docs')).filter((file) => file.endsWith('.svg')))
    cpSync(join(root, 'docs', file), join(SOURCES, 'docs', file));
  cpSync(join(root, 'llms.txt'), join(SOURCES, 'public/llms.txt'), { recursive: true });
  return [...known];
}
