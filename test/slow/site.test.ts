// The site: every link and anchor leads somewhere, errors have addresses, and ten pages can be read by everybody.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { expect } from 'chai';
import type { Browser, Page } from 'playwright-core';
import { startBrowser } from '../../packages/dashboard/test/page.js';
import { serveSite, type SiteServer } from '../../scripts/docs/site/serve.js';
import {
  errorPages,
  linkFrom,
  navigationOf,
  SITE,
  withCodeGroups,
  withKnownAnchors,
} from '../../scripts/docs/site/sources.js';
import { axe, playgroundPage, VIOLATIONS } from './site/playground-page.js';

const root = new URL('../../', import.meta.url).pathname;

const TEN = [
  ...['index', 'docs/README', 'docs/queues', 'docs/options', 'docs/errors', 'docs/failure', 'docs/redis'],
  ...['docs/api/README', 'CHANGELOG', 'errors/HEADGATE_INVALID_OPTION'],
];

/** Questions of newcomers and words of other libraries, and the page with the answer. */
const QUESTIONS = [
  ['throttle', 'docs/migrating'],
  ['debounce', 'docs/concepts'],
  ['quota', 'docs/concepts'],
  ['burst', 'docs/algorithms'],
  ['penalty box', 'docs/concepts'],
  ['leaky bucket as a queue', 'docs/queues'],
  ['adaptive', 'docs/concepts'],
  ['points', 'docs/migrating/rate-limiter-flexible'],
  ['hits', 'docs/concepts'],
  ['behind a proxy', 'docs/proxies'],
  ['Redis Cluster', 'docs/redis'],
  ['hashKeys', 'docs/redis'],
  ['HEADGATE_NO_CLIENT_IP', 'docs/errors'],
  ['Retry-After', 'docs/headers'],
  ['express-slow-down', 'docs/migrating'],
  ['sliding window', 'docs/algorithms'],
  ['local count', 'docs/failure'],
  ['concurrency', 'docs/concurrency'],
  ['Prometheus', 'docs/observability'],
] as const;

/** The files that were sent, except for those that pages fetch ahead. */
const files = new Map<string, Buffer>();

describe('the site of the documentation', function () {
  this.timeout(600_000);
  let site: SiteServer;
  let browser: Browser;
  const htmlOf = new Map<string, string>();

  before(async () => {
    const { status, stdout, stderr } = spawnSync('npm', ['run', 'docs:site'], {
      cwd: root,
      encoding: 'utf8',
    });
    expect(status, stdout + stderr).to.equal(0);
    for (const file of readdirSync(SITE, { recursive: true, encoding: 'utf8' }))
      if (file.endsWith('.html')) htmlOf.set(file, readFileSync(join(SITE, file), 'utf8'));
    site = await serveSite((file, bytes, { headers }) => {
      if (!String(headers['sec-purpose']).includes('prefetch')) files.set(file, bytes);
    });
    browser = await startBrowser();
  });

  after(async () => {
    await site?.close();
  });

  async function open(path: string, options: Parameters<Browser['newPage']>[0] = {}): Promise<Page> {
    const page = await browser.newPage(options);
    await page.goto(`${site.url}/${path}.html`);
    return page;
  }

  it('every link and anchor leads somewhere', () => {
    expect(htmlOf.size).to.be.above(100);
    const broken: string[] = [];
    for (const [page, html] of htmlOf) {
      for (const [, target] of html.matchAll(/\b(?:href|src)="([^"]+)"/g)) {
        if (/^([a-z]+:|\/\/)/.test(target!)) continue;
        const [path = '', fragment] = decodeURI(target!.replaceAll('&amp;', '&')).split('#');
        const file =
          path === '' ? page : posix.join(path.startsWith('/') ? '' : dirname(page), path).replace(/^\//, '');
        const found = [file, posix.join(file, 'index.html'), `${file}.html`].find(
          (each) => existsSync(join(SITE, each)) && statSync(join(SITE, each)).isFile(),
        );
        if (!found) broken.push(`${page}: ${target!}`);
        else if (fragment && !htmlOf.get(found)?.includes(`id="${fragment}"`))
          broken.push(`${page}: no ${target!}`);
      }
    }
    expect(broken).to.deep.equal([]);
  });

  it('every error code has an address of its own', () => {
    const errors = readFileSync(join(root, 'docs/errors.md'), 'utf8');
    const codes = [...errors.matchAll(/^### (HEADGATE_\w+)$/gm)].map(([, code]) => code!);
    expect(codes.length).to.be.above(30);
    for (const code of codes)
      expect(htmlOf.get(`errors/${code}.html`), code).to.include(`${code} | Headgate`);
  });

  it('a group of programs has a tab for each framework', () => {
    const html = htmlOf.get('docs/agents.html')!;
    for (const name of ['Express', 'Fastify', 'NestJS', 'Hono'])
      expect(html).to.include(`data-title="${name}"`);
  });

  for (const path of TEN)
    it(`${path}: axe finds nothing, 390 pixels are enough, and it can be read without scripts`, async () => {
      const page = await open(path, { colorScheme: 'light', viewport: { width: 390, height: 800 } });
      const widths = await page.evaluate<number[]>('[document.documentElement.scrollWidth, innerWidth]');
      expect(widths[0]).to.be.at.most(widths[1]!);
      await page.addScriptTag({ path: axe });
      for (const scheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme: scheme });
        expect(await page.evaluate(VIOLATIONS), scheme).to.deep.equal([]);
      }
      await page.close();
      const plain = await open(path, { javaScriptEnabled: false });
      expect((await plain.textContent('main'))!.length).to.be.above(100);
      expect(await plain.isVisible('main h1')).to.equal(true);
      await plain.close();
    });

  playgroundPage(() => ({ url: site.url, browser, files }));

  it('the search answers newcomers within three results, without a server', async () => {
    const page = await open('index');
    await page.waitForFunction('document.querySelector("#app").__vue_app__');
    for (const [question, answer] of QUESTIONS) {
      await page.click('#local-search button');
      await page.waitForSelector('#localsearch-input');
      // The page remembers the last question, whose results must be gone.
      await page.fill('#localsearch-input', '');
      await page.waitForSelector('.result', { state: 'detached' });
      await page.fill('#localsearch-input', question);
      await page.waitForSelector('.result');
      const links = await page.evaluate<string[]>(
        "[...document.querySelectorAll('.result')].slice(0, 3).map((each) => each.getAttribute('href'))",
      );
      expect(links.join(), question).to.include(answer);
      await page.keyboard.press('Escape');
    }
    await page.close();
  });

  it('addresses of the repository lead to pages of the site, and files to the repository', () => {
    const pages = new Set(['README.md', 'docs/keys.md', 'docs/redis.md']);
    const repository = 'https://github.com/headgate/headgate/blob/main';
    expect(linkFrom('README.md', `${repository}/docs/keys.md#proxies`, pages)).to.equal(
      './docs/keys.md#proxies',
    );
    expect(linkFrom('docs/keys.md', 'redis.md', pages)).to.equal('./redis.md');
    expect(linkFrom('docs/keys.md', '../src/index.ts', pages)).to.equal(`${repository}/src/index.ts`);
    expect(linkFrom('docs/keys.md', 'https://example.com/a', pages)).to.equal('https://example.com/a');
    expect(linkFrom('docs/keys.md', '#here', pages)).to.equal('#here');
  });

  it('errors, navigation and groups are read from the pages', () => {
    const [first, ...rest] = errorPages(
      '# Errors\n\n### HEADGATE_A\n\nSee [b](failure.md#c).\n\n## Later\n\n### HEADGATE_B\n\nText.\n',
    );
    expect(first).to.deep.equal({
      path: 'errors/HEADGATE_A.md',
      text: '# HEADGATE_A\n\nSee [b](../docs/failure.md#c).\n\n[All errors](../docs/errors.md)\n',
    });
    expect(rest).to.have.length(1);
    expect(
      navigationOf('# x\n\n## Start\n\n| a | [A](a.md), [again](a.md), [text](../llms.txt) |\n'),
    ).to.deep.equal([{ text: 'Start', items: [{ text: 'A', link: '/docs/a' }] }]);
    expect(withKnownAnchors('## One\n\n[a](#one-1) [b](#two-1)\n')).to.equal(
      '## One\n\n[a](#one) [b](#two-1)\n',
    );
    const block = (name: string): string => `\`\`\`ts\nimport {} from 'headgate/${name}';\n\`\`\`\n`;
    expect(withCodeGroups(`${block('express')}\n${block('koa')}`)).to.include('ts [Koa]');
    const alone = `${block('express')}\n${block('express')}`;
    expect(withCodeGroups(alone)).to.equal(alone);
  });
});
