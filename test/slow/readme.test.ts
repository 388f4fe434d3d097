// The pages that npm shows, and the files for coding agents: links, names, and the change of one import.
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect } from 'chai';
import { parsePolicy } from 'headgate';
import manifest from '../../package.json' with { type: 'json' };
import { options } from '../../scripts/docs/options.js';
import { root, TYPESCRIPT } from '../../scripts/lib/run.mjs';

const REPOSITORY = 'https://github.com/headgate/headgate';
const PREFIXES = [
  `${REPOSITORY}/blob/main/`,
  `${REPOSITORY}/tree/main/`,
  'https://raw.githubusercontent.com/headgate/headgate/main/',
];

/** The page of a workflow, and its badge. */
const WORKFLOW = new RegExp(`^${REPOSITORY}/actions/workflows/([\\w.]+?)(?:/badge\\.svg)?$`);

const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const folders = readdirSync(join(root, 'packages')).map((name) => `packages/${name}`);
const readmes = ['README.md', ...folders.map((folder) => `${folder}/README.md`)];

/** The targets of links and pictures, in Markdown and in HTML, outside of code. */
function targetsOf(page: string): readonly string[] {
  const prose = read(page)
    .replace(/^```.*?^```$/gms, '')
    .replace(/`[^`\n]*`/g, '');
  const forms = [
    /\]\(([^)\s]+)/g,
    /^\[[^\]]+\]: (\S+)/gm,
    /(?:src|srcset|href)="([^"]+)"/g,
    /<(https?:[^>]+)>/g,
  ];
  return forms.flatMap((form) => [...prose.matchAll(form)].map(([, target]) => target!));
}

/** The anchors of a page, as GitHub and npm make them of its headings. */
function anchorsOf(page: string): ReadonlySet<string> {
  const headings = [...read(page).matchAll(/^#+ (.*)$/gm)].map(([, text]) => text!);
  const slugs = headings.map((text) =>
    text
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-'),
  );
  return new Set(slugs);
}

/** The fault of a link on a page that is shown without the repository. */
function faultOf(page: string, target: string): string | undefined {
  if (target.startsWith('#')) return anchorsOf(page).has(target.slice(1)) ? undefined : 'no such heading';
  if (!/^https?:/.test(target)) return 'relative: npm shows a dead link';
  const [, workflow] = WORKFLOW.exec(target) ?? [];
  if (workflow !== undefined)
    return existsSync(join(root, '.github/workflows', workflow)) ? undefined : 'no such workflow';
  const prefix = PREFIXES.find((each) => target.startsWith(each));
  if (!prefix) return target.startsWith(`${REPOSITORY}/`) ? 'not a file of the branch main' : undefined;
  const [path = '', anchor] = target.slice(prefix.length).split('#');
  if (!existsSync(join(root, path))) return 'no such file';
  return anchor === undefined || anchorsOf(path).has(anchor) ? undefined : 'no such heading';
}

describe('the pages of npm', () => {
  for (const page of [...readmes, 'llms.txt', 'SECURITY.md']) {
    it(`${page}: every link leads to a page when npm shows it`, () => {
      const faults = targetsOf(page).flatMap((target) => {
        const fault = faultOf(page, target);
        return fault === undefined ? [] : `${target}: ${fault}`;
      });
      expect(faults).to.deep.equal([]);
    });
  }

  it('every package names its repository, its page and the place for reports', () => {
    for (const folder of ['.', ...folders]) {
      const { repository, homepage, bugs } = JSON.parse(
        read(join(folder, 'package.json')),
      ) as typeof manifest;
      const directory = folder === '.' ? {} : { directory: folder };
      expect(repository, folder).to.deep.equal({ type: 'git', url: `git+${REPOSITORY}.git`, ...directory });
      expect(homepage, folder).to.match(/^https:\/\/github\.com\/headgate\/headgate.*#readme$/);
      expect(bugs, folder).to.equal(`${REPOSITORY}/issues`);
    }
  });

  it('the README has at most 900 words, and the version of the package', () => {
    expect(read('README.md').trim().split(/\s+/).length).to.be.at.most(900);
    expect(read('README.md')).to.contain(`version ${manifest.version} ·`);
  });
});

describe('the files for coding agents', () => {
  const guide = read('docs/agents.md');

  it('every import of the guide exists', async () => {
    const rows = [...guide.matchAll(/^- [^`\n]*: (.* `headgate[^ `]*`)(?:, as above)?$/gm)].map(
      ([, item]) => item!,
    );
    expect(rows).to.have.length(10);
    const named = new Set<string>();
    for (const row of rows) {
      const names = [...row.matchAll(/`([^`]+)`/g)].map(([, name]) => name!);
      const paths = names.filter((name) => /^headgate(\/|$)/.test(name));
      for (const path of paths) {
        named.add(path);
        const module = (await import(path)) as object;
        for (const name of names) if (!paths.includes(name)) expect(module, path).to.have.property(name);
      }
    }
    const doors = Object.keys(manifest.exports).map((path) => `headgate${path.slice(1)}`);
    expect([...named].filter((path) => !doors.includes(path))).to.deep.equal([]);
  });

  it('every option of the guide exists', () => {
    const [, section = ''] = /^## Option\n(.*?)^## /ms.exec(guide)!;
    const known = new Set(options().map(({ name }) => name));
    const inOptions = [...section.matchAll(/`([a-zA-Z]+)(?::[^`]*)?`/g)].map(([, name]) => name!);
    expect(inOptions).to.have.length.greaterThan(15);
    expect(inOptions.filter((name) => !known.has(name))).to.deep.equal([]);
  });

  it('every policy of the guide is valid', () => {
    const texts = [...guide.matchAll(/'((?:[a-z]+=)?(?:[a-z-]+ )?\d[\d_]*\/[^']+)'/g)].map(
      ([, text]) => text!,
    );
    expect(texts).to.have.length.greaterThan(3);
    for (const text of texts) expect(() => parsePolicy(text), text).not.to.throw();
  });

  it('llms.txt names the guide and the errors first', () => {
    const pages = targetsOf('llms.txt').map((target) => target.slice(target.lastIndexOf('/') + 1));
    expect(pages.slice(0, 2)).to.deep.equal(['agents.md', 'errors.md']);
  });

  it('llms.txt lists every page, first those of the package', () => {
    const listed = targetsOf('llms.txt').map((target) => target.replace(/^.*\/main\//, ''));
    const pages = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.md') && !file.startsWith('api/'))
      .map((file) => `docs/${file}`);
    expect(listed).to.have.members([...pages, 'CHANGELOG.md']);
    const packed = manifest.files.filter((file) => /^docs\/.*\.md$/.test(file));
    expect(listed.slice(0, packed.length)).to.have.members(packed);
  });

  it('the skill links only to files of the package, and has a name and a description', () => {
    const skill = read('SKILL.md');
    expect(skill).to.match(/^---\nname: headgate\ndescription: .{50,1000}\n---\n/);
    const packed = manifest.files.map((file) => file.replace(/^\//, ''));
    const links = [...skill.matchAll(/\]\(([^)]+)\)/g)].map(([, link]) => link!);
    expect(links).to.have.length.greaterThan(5);
    expect(links.filter((link) => !packed.includes(link))).to.deep.equal([]);
  });
});

describe('the change of one import', function () {
  this.timeout(60_000);
  const [, diff = ''] = /^```diff\n(.*?)^```$/ms.exec(read('README.md'))!;
  const lines = diff.trim().split('\n');
  const programs: Record<string, string> = {
    'express-rate-limit': `import express from 'express';
const app = express();
app.use(rateLimit({ windowMs: 60_000, limit: 2, standardHeaders: 'draft-8', legacyHeaders: false, message: 'Slow down' }));
app.get('/', (_req, res) => res.send('hello'));
app.listen(3000, '127.0.0.1');`,
    '@fastify/rate-limit': `import Fastify from 'fastify';
const fastify = Fastify();
await fastify.register(rateLimit, { max: 2, timeWindow: '1 minute' });
fastify.get('/', () => 'hello');
await fastify.listen({ port: 3000 });`,
  };

  it('the README shows it for both packages', () => {
    expect(lines.map((line) => line[0])).to.deep.equal(['-', '+', '-', '+']);
  });

  for (const [i, [name, program]] of Object.entries(programs).entries()) {
    it(`${name}: the same options, the same answers`, async () => {
      const [before, after] = [lines[2 * i]!.slice(1), lines[2 * i + 1]!.slice(1)];
      expect(before).to.contain(`'${name}'`);
      const answers = await Promise.all([before, after].map((line) => answersOf(`${line}\n${program}`)));
      expect(answers[0]!.map(({ status }) => status)).to.deep.equal([200, 200, 429]);
      expect(answers[1]).to.deep.equal(answers[0]);
    });
  }
});

interface Answer {
  status: number;
  body: string;
  headers: readonly string[];
}

/** The answers of a program to three requests. Values of header fields may contain times, so only the names count. */
async function answersOf(code: string): Promise<readonly Answer[]> {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => probe.once('listening', resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  const args = [...TYPESCRIPT, '--input-type=module', '--eval', code.replace('3000', String(port))];
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'ignore', 'pipe'] });
  let output = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output += text));
  try {
    const answers: Answer[] = [];
    while (answers.length < 3) {
      if (child.exitCode !== null) throw new Error(output);
      const response = await fetch(`http://127.0.0.1:${port}/`).catch(() => undefined);
      if (!response) continue;
      const headers = [...response.headers.keys()].filter((field) => field !== 'keep-alive');
      answers.push({ status: response.status, body: await response.text(), headers });
    }
    return answers;
  } finally {
    child.kill();
    await new Promise((resolve) => child.once('close', resolve));
  }
}
