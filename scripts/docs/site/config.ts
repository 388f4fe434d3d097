// The set-up of VitePress.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import GithubSlugger from 'github-slugger';
import { defineConfig, type MarkdownEnv } from 'vitepress';
import { navigationOf, REPOSITORY, root, SITE } from './sources.js';

const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const { description } = JSON.parse(read('package.json')) as { description: string };

// The pages link to headings as GitHub names them. It numbers the headings of one text, which VitePress does itself.
const slugify = (heading: string): string => new GithubSlugger().slug(heading);

interface Renderer {
  render(source: string, env: MarkdownEnv): string;
}

/** The text of a page for the search, which finds explanations rather than the tables of the reference or a change of last year. */
function searchable(source: string, env: MarkdownEnv, md: Renderer): string {
  const html = md.render(source, env);
  return /^(docs\/api\/|CHANGELOG)/.test(env.relativePath) ? '' : html;
}

/** Screen readers announce a header without a text as an error, so it becomes a cell. */
function emptyHeadersAreCells(tokens: { type: string; tag: string; content: string }[]): void {
  tokens.forEach(({ type, content }, i) => {
    if (type !== 'inline' || content !== '' || tokens[i - 1]?.type !== 'th_open') return;
    tokens[i - 1]!.tag = tokens[i + 1]!.tag = 'td';
  });
}

export default defineConfig({
  title: 'Headgate',
  description,
  base: process.env['SITE_BASE'] ?? '/',
  outDir: SITE,
  cacheDir: join(root, 'node_modules/.cache/vitepress'),
  head: [['meta', { name: 'theme-color', content: '#0b7285' }]],
  // No date of a change, because the folder of the pages is not in the repository.
  lastUpdated: false,
  markdown: {
    anchor: { slugify },
    toc: { slugify },
    headers: { slugify },
    config: (md) => void md.core.ruler.push('empty headers', ({ tokens }) => emptyHeadersAreCells(tokens)),
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
  },
  vue: { template: { compilerOptions: { comments: false } } },
  themeConfig: {
    nav: [
      { text: 'Start', link: '/' },
      { text: 'Playground', link: '/docs/playground' },
      { text: 'Options', link: '/docs/options' },
      { text: 'Errors', link: '/docs/errors' },
      { text: 'Reference', link: '/docs/api/README' },
      { text: 'Changes', link: '/CHANGELOG' },
    ],
    sidebar: [
      {
        text: 'Headgate',
        items: [
          { text: 'Five minutes', link: '/' },
          { text: 'All pages', link: '/docs/README' },
        ],
      },
      ...navigationOf(read('docs/README.md')).map((group) => ({
        ...group,
        items: [...group.items],
      })),
    ],
    outline: [2, 3],
    search: { provider: 'local', options: { detailedView: true, _render: searchable } },
    socialLinks: [{ icon: 'github', link: REPOSITORY }],
    footer: { message: 'MIT License' },
  },
});
