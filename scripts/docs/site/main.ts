// npm run docs:site: the documentation as a site in dist.site, with a search that needs no server and the playground. SITE_BASE is the path at which the site is
// served, `/` by default. `-- --serve` shows the site on this machine.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { build, serve } from 'vitepress';
import { bundlePlayground } from '../playground/bundle.js';
import { root, SITE, SOURCES, writeSources } from './sources.js';

/** VitePress finds its set-up beside the pages. */
const SETUP = {
  'config.ts': "export { default } from '../../scripts/docs/site/config.js';\n",
  'theme/index.ts': `import theme from 'vitepress/theme-without-fonts';
import '../../../scripts/docs/site/theme.css';
import '../../../scripts/docs/playground/playground.css';
import Playground from '../../../scripts/docs/playground/Playground.vue';
export default { extends: theme, enhanceApp: ({ app }) => app.component('Playground', Playground) };
`,
};

if (!existsSync(join(root, 'docs/api/README.md')))
  throw new Error('docs/api is missing: run npm run docs:api first.');
const pages = writeSources();
for (const [file, text] of Object.entries(SETUP)) {
  mkdirSync(join(SOURCES, '.vitepress', dirname(file)), { recursive: true });
  writeFileSync(join(SOURCES, '.vitepress', file), text);
}
await bundlePlayground(join(SOURCES, 'public/playground'));
await build(SOURCES);
console.log(`${pages.length} pages in ${SITE}`);
if (process.argv.includes('--serve')) await serve({ root: SOURCES });
