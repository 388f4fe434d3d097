// The promises of CONTRIBUTING.md and docs/contributing/algorithms.md.
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import ts from 'typescript';
import { root } from '../../scripts/lib/run.mjs';
import { algorithms } from '../../src/algorithms/index.js';
import { ALGORITHMS } from '../../src/contract/compile-policies.js';
import { startServer, type TestServer } from '../support/servers.js';

/** The environment of a machine without the servers, where nothing may be installed. */
const bare = {
  ...{ REDIS_SERVER: '/nowhere', VALKEY_SERVER: '/nowhere', HEADGATE_APT: 'no' },
  // The files must run; their random searches are not the subject here.
  HEADGATE_RUNS: '0.1',
};

function node(args: readonly string[], env: NodeJS.ProcessEnv) {
  return new Promise<{ passed: boolean; output: string }>((resolve) => {
    execFile(
      process.execPath,
      args,
      { cwd: root, env: { ...process.env, ...env } },
      (error, stdout, stderr) => resolve({ passed: error === null, output: stdout + stderr }),
    );
  });
}

const mocha = (file: string, env: NodeJS.ProcessEnv) => node(['node_modules/mocha/bin/mocha.js', file], env);

describe('without servers', function () {
  this.timeout(180_000);

  it('a test file that needs no server runs', async () => {
    const { passed, output } = await mocha('test/http/client-key.test.ts', bare);
    expect(passed, output).to.be.true;
  });

  it('the tests of a file that loops over servers run in memory', async () => {
    const { passed, output } = await mocha('test/laws/charge.test.ts', { ...bare, HEADGATE_SERVERS: 'none' });
    expect(passed, output).to.be.true;
    expect(output).to.contain('on memory').and.not.contain('on redis');
  });

  it('npm run test:all lists every missing program at once', async () => {
    const { passed, output } = await node(['scripts/test.mjs', '--slow'], {
      ...bare,
      CHROMIUM: '/nowhere',
      PROMETHEUS: '/nowhere',
    });
    expect(passed).to.be.false;
    for (const variable of ['REDIS_SERVER', 'VALKEY_SERVER', 'CHROMIUM', 'PROMETHEUS'])
      expect(output).to.contain(`${variable}=/nowhere is not an executable file`);
  });

  it('a test that needs a server reports it', async () => {
    const { passed, output } = await mocha('test/features/slices/slices.test.ts', {
      HEADGATE_SERVERS: 'none',
    });
    expect(passed).to.be.false;
    expect(output).to.contain('This test needs a redis server');
  });
});

describe('REDIS_URL and VALKEY_URL', function () {
  this.timeout(180_000);
  let server: TestServer;
  before(async () => (server = await startServer('redis')));
  after(() => server.stop());

  const environment = () => ({ ...bare, REDIS_URL: server.url, VALKEY_URL: server.url });

  it('name the servers that the tests use', async () => {
    const { passed, output } = await mocha('test/laws/charge.test.ts', environment());
    expect(passed, output).to.be.true;
    expect(output).to.contain('on redis');
  });

  it('are refused if the server holds keys, and the keys stay', async () => {
    const client = new Redis(server.port);
    await client.set('key', 'value', 'EX', 60);
    const { passed, output } = await mocha('test/laws/charge.test.ts', environment());
    const remaining = await client.get('key');
    client.disconnect();
    expect(passed).to.be.false;
    expect(output).to.contain('this server holds keys');
    expect(remaining).to.equal('value');
  });

  it('are refused if the server is on another machine or does not answer', async () => {
    const urls = ['redis://example.com', 'redis://127.0.0.1:6379/3', 'redis://127.0.0.1:1'];
    const runs = urls.map(async (url) => {
      const { passed, output } = await mocha('test/laws/charge.test.ts', {
        ...environment(),
        REDIS_URL: url,
      });
      expect(passed, url).to.be.false;
      expect(output).to.contain(`REDIS_URL=${url}: `);
    });
    await Promise.all(runs);
  });
});

describe('code asks for the traits of an algorithm, not for its name', () => {
  const names = new Set<string>([...ALGORITHMS, ...Object.keys(algorithms)]);
  /** The folder that may name an algorithm, and the table of the features that go together. */
  const mayName = /^src\/(algorithms\/|contract\/together\.ts)/;
  const sources = (readdirSync(join(root, 'src'), { recursive: true }) as string[])
    .map((file) => `src/${file}`)
    .filter((file) => !mayName.test(file));
  const read = (file: string) => readFileSync(join(root, file), 'utf8');

  /** The lines where a TypeScript file asks for an algorithm's name. A policy as data may name one: `{ algorithm: 'fixed-window', ... }`. */
  function asksIn(file: string): string[] {
    const source = ts.createSourceFile(file, read(file), ts.ScriptTarget.Latest, true);
    const lines: string[] = [];
    const visit = (node: ts.Node): void => {
      const { parent } = node;
      const isData = parent && ts.isPropertyAssignment(parent) && parent.name.getText() === 'algorithm';
      if (ts.isStringLiteralLike(node) && names.has(node.text) && !isData)
        lines.push(`${file}:${source.getLineAndCharacterOfPosition(node.pos).line + 1}`);
      ts.forEachChild(node, visit);
    };
    visit(source);
    return lines;
  }

  it('no file outside of src/algorithms asks for a name', () => {
    const files = sources.filter((file) => file.endsWith('.ts'));
    expect(files).to.include('src/limiter/limiter.ts');
    expect(files.flatMap(asksIn)).to.deep.equal([]);
  });

  it('no Lua script asks for a name', () => {
    const locals = [...names].map((name) => name.replaceAll('-', '_'));
    const files = sources.filter((file) => file.endsWith('.lua'));
    expect(files).to.include('src/stores/redis/lua/evaluate.lua');
    const asking = files.filter((file) => {
      const code = read(file).replace(/--.*$/gm, '');
      return locals.some((name) => new RegExp(`\\b${name}\\b`).test(code));
    });
    expect(asking).to.deep.equal([]);
  });

  it('no file outside of src/contract/verdicts.ts knows the positions of the values in verdicts', () => {
    const files = sources.filter((file) => file.endsWith('.ts') && file !== 'src/contract/verdicts.ts');
    const asking = files.filter((file) => /verdicts\[|\[3 \* /.test(read(file)));
    expect(asking).to.deep.equal([]);
  });
});

describe('an adapter on the toolkit is short', () => {
  for (const name of ['hono', 'koa', 'web']) {
    it(`${name} has fewer than 60 lines of code`, () => {
      const lines = readFileSync(join(root, `src/http/adapters/${name}.ts`), 'utf8').split('\n');
      const code = lines.filter((line) => !/^\s*(\/\/|\/?\*|$)/.test(line));
      expect(code.length).to.be.within(20, 59);
    });
  }
});
