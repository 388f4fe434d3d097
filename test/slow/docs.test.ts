// Checks of the docs: code compiles, links lead to a page, plots are fresh, every code and option has its section.
import { spawn, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { dirname, join } from 'node:path';
import { expect } from 'chai';
import express from 'express';
import { memoryStore } from 'headgate';
import { rateLimit } from 'headgate/express';
import request from 'supertest';
import ts from 'typescript';
import { TYPESCRIPT } from '../../scripts/lib/run.mjs';
import { plots } from '../../scripts/docs/plots.js';
import { freePort } from '../support/servers.js';

const root = new URL('../../', import.meta.url).pathname;
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

const pages = [
  ...readdirSync(root).filter((file) => file.endsWith('.md')),
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md') && !file.startsWith('api/'))
    .map((file) => `docs/${file}`)
    .sort(),
  ...readdirSync(join(root, 'packages')).map((name) => `packages/${name}/README.md`),
];

/** The code blocks of a page, each with the number of its first line. */
function blocks(page: string): { line: number; code: string }[] {
  return [...read(page).matchAll(/^```ts\n(.*?)^```$/gms)].map(({ 1: code, index }) => ({
    line: read(page).slice(0, index).split('\n').length,
    code: code!,
  }));
}

describe('docs', () => {
  it('code compiles, each block in a separate file', () => {
    const files = new Map<string, string>();
    for (const page of pages) {
      for (const { line, code } of blocks(page)) {
        files.set(join(root, dirname(page), `${page.replaceAll('/', '-')}-line-${line}.ts`), code);
      }
    }
    const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), (file) => ts.sys.readFile(file)) as {
      config: { compilerOptions: object };
    };
    const { options } = ts.convertCompilerOptionsFromJson(
      {
        ...config.compilerOptions,
        noUnusedLocals: false,
        noUnusedParameters: false,
        allowJs: false,
        // NestJS only has legacy decorators.
        experimentalDecorators: true,
      },
      root,
    );
    const host = ts.createCompilerHost(options);
    const { getSourceFile, fileExists, readFile } = host;
    host.getSourceFile = (name, target, ...rest) => {
      const code = files.get(name);
      return code === undefined
        ? getSourceFile(name, target, ...rest)
        : ts.createSourceFile(name, code, target);
    };
    host.fileExists = (name) => files.has(name) || fileExists(name);
    host.readFile = (name) => files.get(name) ?? readFile(name);
    const program = ts.createProgram([...files.keys()], options, host);
    const errors = [...files.keys()]
      .flatMap((name) => {
        const file = program.getSourceFile(name);
        return [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
      })
      .map(({ file, start, messageText }) => {
        const { line } = file!.getLineAndCharacterOfPosition(start ?? 0);
        return `${file!.fileName.slice(root.length)}, line ${line + 1} of it: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`;
      });
    expect(errors).to.deep.equal([]);
    for (const [name, code] of files) expect(code, name).to.match(/^import /m);
    expect(files.size).to.be.greaterThan(10);
  }).timeout(120_000);

  for (const framework of ['express', 'fastify']) {
    it(`the README’s first ${framework} program runs`, async () => {
      const port = await freePort();
      const { code } = blocks('README.md').find((block) => block.code.includes(`from '${framework}'`))!;
      expect(code).to.contain('3000');
      const child = spawn(
        process.execPath,
        [...TYPESCRIPT, '--input-type=module', '--eval', code.replace('3000', String(port))],
        { cwd: root, stdio: ['ignore', 'ignore', 'pipe'] },
      );
      let output = '';
      child.stderr.setEncoding('utf8').on('data', (text: string) => (output += text));
      try {
        let response: Response | undefined;
        while (!response) {
          if (child.exitCode !== null) throw new Error(output);
          response = await fetch(`http://127.0.0.1:${port}/`).catch(() => undefined);
        }
        expect(await response.json()).to.deep.equal({ remaining: 99 });
        expect(response.headers.get('RateLimit-Policy')).to.match(/^"\w+";q=100;w=60$/);
      } finally {
        child.kill();
        await new Promise((resolve) => child.once('close', resolve));
      }
    });
  }

  it('the README shows the 101st answer of its first program', async () => {
    const app = express();
    const store = memoryStore({ clock: () => Date.UTC(2026, 0, 1) });
    app.use(rateLimit({ store, limit: 100, window: '1m' }));
    app.get('/', (_req, res) => void res.send('ok'));
    for (let i = 0; i < 100; i++) await request(app).get('/').expect(200);
    const denied = await request(app).get('/').expect(429);
    const { rawHeaders } = (denied as unknown as { res: IncomingMessage }).res;
    const fields = rawHeaders.flatMap((name, i) => (i % 2 === 0 ? `${name}: ${rawHeaders[i + 1]}` : []));
    const ofExpress = /^(X-Powered-By|Content-Length|Date|Connection|Keep-Alive):/;
    const answer = ['HTTP/1.1 429 Too Many Requests', ...fields.filter((field) => !ofExpress.test(field))];
    const [, shown] = /^```\n(HTTP.*?)^```$/ms.exec(read('README.md'))!;
    expect(shown!.trim().split('\n')).to.deep.equal([...answer, '', denied.text]);
  });

  it('the samples of docs/testing-your-app.md are programs that the tests run', () => {
    const names = readdirSync(join(root, 'test/slow/runners'));
    const samples = names.map((name) => read(`test/slow/runners/${name}`));
    const shown = [...read('docs/testing-your-app.md').matchAll(/^```js\n(?:\/\/ [^\n]*\n)?(.*?)^```$/gms)];
    expect(shown).to.have.length.greaterThan(2);
    for (const [, code] of shown)
      expect(
        samples.some((sample) => sample.includes(code!)),
        code,
      ).to.equal(true);
  });

  it('every link leads to a page or section that exists', () => {
    const args = ['--no-config', '--no-stdout', '--frail', '--use', 'remark-validate-links=repository:false'];
    const { status, stderr } = spawnSync('node_modules/.bin/remark', [...args, ...pages], {
      cwd: root,
      encoding: 'utf8',
    });
    expect(status, stderr).to.equal(0);
  }).timeout(60_000);

  it('every page that code, examples, scripts or tests name exists', () => {
    const named = ['src', 'examples', 'scripts', 'test'].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
        .filter((file) => /\.(ts|mjs|lua|yml)$/.test(file))
        .flatMap((file) => read(join(folder, file)).match(/\bdocs\/[a-z/-]+\.md/g) ?? []),
    );
    expect(named).to.have.length.greaterThan(20);
    expect([...new Set(named)].filter((page) => !pages.includes(page))).to.deep.equal([]);
  });

  it('plots are fresh', async () => {
    for (const [name, content] of Object.entries(await plots())) {
      expect(
        read(`docs/plots/${name}`) === content,
        `docs/plots/${name} is stale: npm run docs:plots`,
      ).to.equal(true);
    }
  });

  it('every error code has its section, and no other', () => {
    const [, union] = /export type ErrorCode =([^;]*);/.exec(read('src/common/errors.ts'))!;
    const codes = [...union!.matchAll(/'(\w+)'/g)].map(([, code]) => code);
    const [page = ''] = read('docs/errors.md').split('\n## Warnings\n');
    const sections = [...page.matchAll(/^### (\w+)$/gm)].map(([, code]) => code);
    expect(sections).to.have.members(codes);
    expect(codes).to.have.length.greaterThan(10);
  });

  it('every example is among the recipes or the frameworks, and every page in the index', () => {
    const recipes = read('docs/recipes.md');
    const compared = readdirSync(join(root, 'examples/compared')).map((name) => `compared/${name}`);
    const examples = [...readdirSync(join(root, 'examples')), ...compared].map(
      (name) => `(../examples/${name}`,
    );
    const linked = recipes + read('docs/migrating.md') + read('docs/hono-koa-web.md');
    expect(examples.filter((link) => !linked.includes(link))).to.deep.equal([]);
    const index = read('docs/README.md');
    const listed = pages.filter((page) => page.startsWith('docs/') && page !== 'docs/README.md');
    expect(listed.filter((page) => !index.includes(`(${page.slice('docs/'.length)})`))).to.deep.equal([]);
  });
});
