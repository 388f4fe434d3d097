import { execFile } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify, stripVTControlCharacters } from 'node:util';
import { expect } from 'chai';
import { build } from 'esbuild';
import manifest from '../../package.json' with { type: 'json' };
import { pack, type Packed } from '../../scripts/lib/pack.js';
import { root } from '../../scripts/lib/run.mjs';
import { compile } from './package/compile.js';
import { undocumented } from './package/undocumented.js';
import { servers } from '../support/shared-servers.js';

const execute = promisify(execFile);
const subpaths = Object.keys(manifest.exports).filter((path) => path !== './package.json');
/** The sub-paths that import a peer dependency. They load only where the peer is installed. */
const needingTheirPeer = ['./opentelemetry', './prometheus', './nestjs'];
const installed = (name: string) => join(root, 'node_modules', name);

interface Answer {
  status: number;
  headers: string[][];
  body: string;
}

describe('the packed packages', function () {
  this.timeout(300_000);

  let directory: string;
  let packed: readonly Packed[];
  let headgate: Packed;
  /** A project with only headgate installed. */
  let bare: string;
  /** A project with all packages of the repository installed. */
  let all: string;

  /** Nest by its major version, from npm. Missing packages are fetched while the first tests run. */
  const nests = new Map<number, Promise<string>>();

  before(async () => {
    for (const major of [11, 12]) nests.set(major, fetchNest(major));
    for (const fetched of nests.values()) fetched.catch(() => {});
    directory = mkdtempSync(join(tmpdir(), 'headgate-package-'));
    packed = [headgate] = pack(directory);
    bare = await install('bare', [headgate]);
    all = await install('all', packed);
  });

  async function install(name: string, packages: readonly Packed[]): Promise<string> {
    const project = join(directory, name);
    mkdirSync(project);
    writeFileSync(join(project, 'package.json'), '{ "private": true }');
    const tarballs = packages.map(({ tarball }) => tarball);
    await execute('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', ...tarballs], {
      cwd: project,
    });
    return project;
  }

  after(async () => {
    await Promise.allSettled(nests.values());
    rmSync(directory, { recursive: true, force: true });
  });

  it('are those of the repository, of one version, each with its README and its licence', () => {
    const folders = readdirSync(join(root, 'packages')).map((folder) => `headgate-${folder}`);
    expect(packed.map(({ name }) => name)).to.have.members(['headgate', ...folders]);
    for (const { name, version, files } of packed) {
      expect(version, name).to.equal(manifest.version);
      expect(files, name).to.include.members(['README.md', 'LICENSE', 'package.json']);
      const range = dependenciesOf(name)['headgate'];
      if (name !== 'headgate') expect(range?.replace('^', ''), name).to.equal(manifest.version);
    }
  });

  it('share one headgate, in a project that has all of them', () => {
    const inside = packed.map(({ name }) => join(all, 'node_modules', name, 'node_modules/headgate'));
    expect(inside.filter((path) => existsSync(path))).to.deep.equal([]);
  });

  /** The dependencies and peers of an installed package. */
  function dependenciesOf(name: string): Record<string, string> {
    const path = join(all, 'node_modules', name, 'package.json');
    const { dependencies, peerDependencies } = JSON.parse(readFileSync(path, 'utf8')) as typeof manifest;
    return { ...peerDependencies, ...dependencies };
  }

  it('headgate holds the files that are needed to run, and nothing else', () => {
    const { files } = headgate;
    const documents = files.filter((file) => !file.startsWith('dist/'));
    expect(documents).to.have.members([
      'package.json',
      'LICENSE',
      ...['README.md', 'SECURITY.md'],
      // For agents, and for errors, which name the page by its path.
      ...['llms.txt', 'SKILL.md', 'docs/agents.md', 'docs/errors.md'],
      ...['docs/decision.md', 'docs/limiter.md', 'docs/options.md'],
      ...['examples/observability/alerts.yml', 'examples/observability/dashboard.json'],
    ]);
    const compiled = files.filter((file) => file.startsWith('dist/'));
    const other = compiled.filter((file) => !/^dist\/(esm|cjs|edge)\/.*(\.js|\.d\.ts)$/.test(file));
    const modules = compiled.filter((file) => /^dist\/esm\/.*\.js$/.test(file));
    expect(modules).to.have.length(subpaths.length);
    expect(other).to.deep.equal(['dist/cjs/package.json']);
  });

  it('holds the texts of the Redis scripts once, for Node and for edge runtimes', () => {
    const holding = headgate.files.filter((file) =>
      readFileSync(join(bare, 'node_modules/headgate', file), 'utf8').includes('headgate_life(stop - now)'),
    );
    expect(holding).to.deep.equal(['dist/cjs/shared/lua-files.js']);
  });

  it('every page that code or hover texts name is in the package, or has an address', () => {
    const installed = join(bare, 'node_modules/headgate');
    const named = headgate.files.flatMap((file) =>
      /\.(js|d\.ts)$/.test(file)
        ? (readFileSync(join(installed, file), 'utf8').match(/\S*docs\/[a-z/-]+\.md/g) ?? [])
        : [],
    );
    expect(named).to.have.length.greaterThan(10);
    const isReachable = (page: string) =>
      page.startsWith('https://') || headgate.files.includes(page.slice(page.indexOf('docs/')));
    expect([...new Set(named)].filter((page) => !isReachable(page))).to.deep.equal([]);
  });

  it('headgate has no conformance suites, and does not install fast-check', () => {
    expect(headgate.files.filter((file) => /testing/.test(file))).to.have.members([
      ...['cjs/testing.js', 'cjs/testing.d.ts'].map((file) => `dist/${file}`),
      ...['esm/testing.js', 'esm/testing.d.ts'].map((file) => `dist/${file}`),
    ]);
    expect(existsSync(join(bare, 'node_modules/fast-check'))).to.equal(false);
  });

  it('headgate-testing holds its modules and declarations, and loads by import and by require', async () => {
    const { files } = packed.find(({ name }) => name === 'headgate-testing')!;
    const modules = files.filter((file) => file.endsWith('.js'));
    expect(modules).to.have.members(['dist/cjs/index.js', 'dist/esm/index.js']);
    for (const how of ['import', 'require'])
      await execute(process.execPath, ['-e', `${how}('headgate-testing')`], { cwd: all });
  });

  it('headgate-dashboard holds its modules, declarations and page, and loads by import and by require', async () => {
    const { files } = packed.find(({ name }) => name === 'headgate-dashboard')!;
    const other = files.filter((file) => !/^dist\/(cjs|esm)\/.*(\.js|\.d\.ts)$/.test(file));
    expect(other).to.have.members(['package.json', 'README.md', 'LICENSE', 'dist/cjs/package.json']);
    const script = `const { dashboard } = require('headgate-dashboard');
      const page = dashboard({ store: require('headgate').memoryStore(), auth: 'none' });
      page(new Request('http://127.0.0.1/')).then((response) => response.text()).then((text) => console.log(text));`;
    const { stdout } = await execute(process.execPath, ['-e', script], { cwd: all });
    expect(stdout)
      .to.match(/^<!doctype html>/)
      .and.to.contain('preactHooks');
    for (const path of ['', '/express', '/fastify'])
      await execute(process.execPath, ['-e', `import('headgate-dashboard${path}')`], { cwd: all });
  });

  it('loads by import and by require without express, fastify and ioredis', async () => {
    for (const name of ['express', 'fastify', 'ioredis']) {
      expect(existsSync(join(bare, 'node_modules', name)), name).to.equal(false);
    }
    const loadable = subpaths.filter((path) => !needingTheirPeer.includes(path));
    await load(bare, loadable);
  });

  it('loads no Redis scripts for sub-paths of other stores', async () => {
    const scripted = ['./redis', './upstash', './admin', './compat/fastify-rate-limit'];
    const paths = subpaths.filter((each) => !needingTheirPeer.includes(each));
    const script = `const scripts = [];
      for (const path of ${JSON.stringify(paths)}) {
        for (const file of Object.keys(require.cache)) delete require.cache[file];
        require('headgate' + path.slice(1));
        const sources = Object.keys(require.cache).map((file) => require('node:fs').readFileSync(file, 'utf8'));
        if (sources.some((source) => source.includes('redis.call('))) scripts.push(path);
      }
      console.log(JSON.stringify(scripts));`;
    const { stdout } = await execute(process.execPath, ['-e', script], { cwd: bare });
    const found = JSON.parse(stdout) as string[];
    expect(found).to.have.members(scripted);
  });

  it('headgate has no program, and none of the libraries of the command line', () => {
    expect(manifest).to.not.have.property('bin');
    expect(existsSync(join(bare, 'node_modules/.bin/headgate'))).to.equal(false);
    for (const name of ['commander', 'uplot'])
      expect(existsSync(join(bare, 'node_modules', name)), name).to.equal(false);
  });

  it('headgate-cli holds its program and the page of its reports', () => {
    const { files } = packed.find(({ name }) => name === 'headgate-cli')!;
    expect(files.filter((file) => file.startsWith('dist/'))).to.have.members([
      'dist/headgate.js',
      ...['dist/page/page.css', 'dist/page/page.js'],
    ]);
  });

  it('headgate-cli runs by npx, by both of its names, with the Redis client of the project where it runs', async () => {
    for (const name of ['headgate-cli', 'headgate']) {
      const { stdout } = await execute('npx', ['--no-install', name, '--version'], { cwd: all });
      expect(stdout).to.equal(`${manifest.version}\n`);
    }

    // The program that npx starts. npx itself takes longer.
    const headgate = (cwd: string, ...args: string[]) =>
      execute(join(cwd, 'node_modules/.bin/headgate-cli'), args, { cwd });
    expect((await headgate(all, '--help')).stdout).to.match(/^Usage: headgate .*peek.*unban/s);
    const log = '203.0.113.7 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 2 "-" "-"\n';
    writeFileSync(join(all, 'access.log'), log);
    await headgate(all, 'replay', 'access.log', '--policy', '1/1m', '--report', 'report.html');
    expect(readFileSync(join(all, 'report.html'), 'utf8')).to.contain('uPlot');

    const ban = ['ban', 'someone', '1h', '--name', 'api', '--redis', servers.redis.url, '--json', '--force'];
    const without = (await headgate(all, ...ban).catch((error: unknown) => error)) as {
      code: number;
      stderr: string;
    };
    expect(without.code).to.equal(1);
    expect(without.stderr).to.contain('npx -p headgate-cli -p ioredis');

    const service = join(directory, 'service');
    cpSync(join(all, 'node_modules'), join(service, 'node_modules'), { recursive: true });
    symlinkSync(installed('ioredis'), join(service, 'node_modules/ioredis'));
    expect(JSON.parse((await headgate(service, ...ban)).stdout)).to.include({ name: 'api', key: 'someone' });
  });

  it('a stand-in for another limiter is called as require returns it', async () => {
    const standIns = subpaths.filter((path) => path.startsWith('./compat/'));
    expect(standIns).to.have.length.greaterThan(0);
    const script = `for (const path of ${JSON.stringify(standIns)}) {
      const found = require('headgate' + path.slice(1));
      if (typeof found !== 'function' || found.default !== found) throw new Error(path);
    }`;
    await execute(process.execPath, ['-e', script], { cwd: bare });
  });

  it('takes the place of a transitive express-rate-limit by overrides, without a code change', async () => {
    const { tarball: standIn } = packed.find(({ name }) => name === 'headgate-express-rate-limit')!;
    const answersOf = async (name: string, overrides: object): Promise<Answer[]> => {
      const app = join(directory, name);
      mkdirSync(app);
      const sdk = manifest.devDependencies['@modelcontextprotocol/sdk'];
      const dependencies = {
        '@modelcontextprotocol/sdk': sdk,
        express: '^5.0.0',
        headgate: headgate.tarball,
      };
      writeFileSync(
        join(app, 'package.json'),
        JSON.stringify({ private: true, dependencies, overrides, type: 'module' }),
      );
      await execute('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund'], { cwd: app });
      copyFileSync(join(root, 'test/slow/package/mcp-router.mjs'), join(app, 'main.mjs'));
      const ran = await execute(process.execPath, ['main.mjs'], { cwd: app });
      return JSON.parse(ran.stdout) as Answer[];
    };
    const [theirs, ours] = await Promise.all([
      answersOf('without-override', {}),
      answersOf('with-override', { 'express-rate-limit': `file:${standIn}` }),
    ]);
    const installedName = (app: string) =>
      (
        JSON.parse(
          readFileSync(join(directory, app, 'node_modules/express-rate-limit/package.json'), 'utf8'),
        ) as { name: string }
      ).name;
    expect(installedName('without-override')).to.equal('express-rate-limit');
    expect(installedName('with-override')).to.equal('headgate-express-rate-limit');
    expect(ours.map(({ status }) => status)).to.deep.equal([
      ...Array<number>(20).fill(400),
      ...Array<number>(2).fill(429),
    ]);
    // Time passes between requests, so the fields that count seconds are compared by their names only.
    const steady = (answers: Answer[]) =>
      answers.map(({ headers, ...answer }) => ({
        ...answer,
        headers: headers.map(([name, value]) => [name, /reset|retry/.test(name!) ? 'seconds' : value]),
      }));
    expect(steady(ours)).to.deep.equal(steady(theirs));
  });

  /** The module settings of each TypeScript version. The oldest and the newest have those that differ most. */
  const typescripts: Record<string, readonly object[]> = {
    'typescript-5.4': [
      { module: 'node16' },
      { module: 'esnext', moduleResolution: 'bundler' },
      { module: 'commonjs', moduleResolution: 'node10' },
    ],
    'typescript-5.9': [{ module: 'nodenext' }],
    // Versions 5.9 and 7 read the types by the other settings.
    typescript: [{ module: 'commonjs', moduleResolution: 'node10', ignoreDeprecations: '6.0' }],
    'typescript-7': [
      { module: 'nodenext' },
      { module: 'commonjs', moduleResolution: 'bundler', exactOptionalPropertyTypes: true },
    ],
  };
  for (const [name, all] of Object.entries(typescripts)) {
    it(`has types for ${name}, for every sub-path in each module setting`, async () => {
      const used = readFileSync(join(root, 'test/slow/package/every-door.ts'), 'utf8');
      for (const path of subpaths) expect(used).to.contain(`'headgate${path.slice(1)}'`);
      expect(used).to.contain("'headgate-testing'");
      const project = typesProject();
      for (const [i, settings] of all.entries()) {
        const byExtension = !('moduleResolution' in settings);
        const files = byExtension ? ['every-door.mts', 'every-door.cts'] : ['every-door.ts'];
        const compilerOptions = { ...strict, ...settings, esModuleInterop: true, skipLibCheck: true };
        await tsc(project, `${name}-${i}`, compilerOptions, files, name);
      }
    });
  }

  it('has types that agree with those of @fastify/rate-limit in one app, and refuse options that throw', async () => {
    const files = ['side-by-side.mts', 'doors.mts'];
    await tsc(typesProject(), 'side-by-side', { ...strict, module: 'nodenext' }, files);
  });

  it('has types without errors of their own, for a project that checks libraries', async () => {
    const settings = { ...strict, module: 'nodenext', esModuleInterop: true, skipLibCheck: false };
    const report = await tsc(typesProject(), 'checked', settings, ['every-door.mts']).catch(String);
    // Packages of others may have errors.
    expect(String(report).match(/^.*node_modules\/headgate.*$/gm)).to.equal(null);
  });

  it('has types that do not need esModuleInterop', async () => {
    const project = typesProject();
    writeFileSync(join(project, 'plain.ts'), "import 'headgate/http';");
    const settings = { module: 'commonjs', moduleResolution: 'node10', esModuleInterop: false };
    await tsc(project, 'plain', { ...strict, ...settings }, ['plain.ts'], 'typescript-5.9');
  });

  it('has types that refuse options that throw in a route of Fastify', async () => {
    const project = typesProject();
    const quotas = ["{ limit: 5, window: '1m', burst: 9 }", '{ limit: 5 }', "{ limit: 5, windw: '1m' }"];
    const routes = quotas.map((quota) => `Fastify().get('/', { config: { rateLimit: ${quota} } }, () => 0);`);
    const lines = ["import Fastify from 'fastify'; import 'headgate/fastify';", ...routes];
    writeFileSync(join(project, 'routes.mts'), lines.join('\n'));
    const options = { ...strict, module: 'nodenext', skipLibCheck: true };
    const report = await tsc(project, 'routes', options, ['routes.mts']).catch(String);
    const wrong = [...String(report).matchAll(/^routes\.mts\((\d+)/gm)].map(([, line]) => Number(line));
    expect(wrong).to.deep.equal([2, 3, 4]);
  });

  it('has a file of types for each sub-path, for tools that do not read `exports`', () => {
    const { typesVersions } = manifest;
    expect(Object.keys(typesVersions['*'])).to.have.members(
      subpaths.flatMap((path) => (path === '.' ? [] : path.slice(2))),
    );
    for (const [target] of Object.values(typesVersions['*']))
      expect(headgate.files).to.include(target!.slice(2));
  });

  it('documents its functions, options and fields for editors, in either module system', () => {
    const entries = subpaths.flatMap((path) => Object.values(manifest.exports[path as '.']));
    const silentIn = (name: string, entries: readonly string[]) => {
      const folder = join(all, 'node_modules', name);
      const declarations = entries.map((entry) => join(folder, entry.replace(/\.js$/, '.d.ts')));
      const { count, silent } = undocumented(declarations, folder);
      expect(silent).to.deep.equal([]);
      return count;
    };
    expect(silentIn('headgate', entries)).to.be.greaterThan(1000);
    expect(silentIn('headgate-testing', ['dist/cjs/index.js', 'dist/esm/index.js'])).to.be.greaterThan(30);
  });

  const consumers = [
    { express: 'express', types: '@types/express', ioredis: 'ioredis' },
    { express: 'express4', types: '@types/express4', ioredis: 'ioredis5' },
  ];

  for (const { express, types, ioredis } of consumers) {
    it(`is used from TypeScript as ESM, as CommonJS, as both and bundled, with ${express}, fastify and ${ioredis}`, async () => {
      const consumer = join(directory, express);
      cpSync(join(all, 'node_modules'), join(consumer, 'node_modules'), { recursive: true });
      linkPeers(consumer, { express, '@types/express': types, ioredis });
      await load(consumer, subpaths);
      await compileConsumer(consumer);
      for (const kind of ['mjs', 'cjs']) await works(join(consumer, `consumer.${kind}`));
      await works(
        join(consumer, 'both-loaders.mjs'),
        subpaths.map((path) => `headgate${path.slice(1)}`),
      );

      // A directory far from the package's own files.
      const outfile = join(directory, `${express}-bundle/consumer.cjs`);
      const entry = join(consumer, 'consumer.mjs');
      await build({ entryPoints: [entry], outfile, bundle: true, platform: 'node', logLevel: 'error' });
      await works(outfile);
    });
  }

  for (const major of [11, 12]) {
    it(`limits Nest ${major} on Express and on Fastify, as ESM and as CommonJS`, async () => {
      const app = await nestProject(major);
      for (const format of ['esm', 'cjs'] as const) {
        const outfile = join(app, `nest.${format === 'esm' ? 'mjs' : 'cjs'}`);
        const options = { bundle: true, platform: 'node', packages: 'external', logLevel: 'error' } as const;
        const tsconfigRaw = { compilerOptions: { target: 'es2022' as const } };
        await build({ ...options, entryPoints: ['test/slow/package/nest.ts'], format, outfile, tsconfigRaw });
        await works(outfile);
      }
    });

    it(`limits GraphQL and gateways of Nest ${major}, on Express and on Fastify`, async () => {
      const app = await nestProject(major);
      const file = join(app, 'nest-beyond-http.mjs');
      copyFileSync(join(root, 'test/slow/package/nest-beyond-http.mjs'), file);
      await works(file);
    });
  }

  /** A project with this Nest and the packed package. */
  async function nestProject(major: number): Promise<string> {
    const project = join(directory, `nest-${major}`);
    if (existsSync(project)) return project;
    cpSync(join(all, 'node_modules'), join(project, 'node_modules'), { recursive: true });
    const packages = join((await nests.get(major))!, 'node_modules');
    for (const name of readdirSync(packages)) {
      const link = join(project, 'node_modules', name);
      if (!existsSync(link)) symlinkSync(join(packages, name), link);
    }
    return project;
  }

  /** Installs this Nest, once. */
  async function fetchNest(major: number): Promise<string> {
    const cache = join(root, `node_modules/.cache/nest-${major}`);
    if (existsSync(join(cache, 'node_modules/@nestjs/graphql'))) return cache;
    const platforms = ['platform-express', 'platform-fastify', 'platform-socket.io', 'platform-ws'];
    const names = ['common', 'core', 'websockets', ...platforms].map((name) => `${name}@${major}`);
    // The major version of these packages is two ahead.
    names.push(...['apollo', 'graphql', 'mercurius'].map((name) => `${name}@${major + 2}`));
    const servers = [
      '@apollo/server@5',
      '@as-integrations/express5@1',
      '@as-integrations/fastify@3',
      'mercurius@16',
    ];
    const fixed = ['graphql@16', 'reflect-metadata@0.2', 'rxjs@7', 'socket.io-client@4', 'ws@8'];
    const packages = [...names.map((name) => `@nestjs/${name}`), ...servers, ...fixed];
    const quiet = ['--no-save', '--no-audit', '--no-fund', '--loglevel=error'];
    await execute('npm', ['install', '--prefix', cache, ...quiet, ...packages], { cwd: root });
    return cache;
  }

  // The runners' default timeouts are a few seconds, which a busy machine needs to start.
  const runners = {
    jest: ['jest/bin/jest.js', '--testTimeout=20000', '--config', '{ "testMatch": ["**/jest*.test.cjs"] }'],
    vitest: [
      'vitest/vitest.mjs',
      'run',
      'vitest.test.mjs',
      'vitest-waiting.test.mjs',
      'vitest-redis.test.mjs',
      '--testTimeout=20000',
    ],
    mocha: [
      'mocha/bin/mocha.js',
      'mocha.test.mjs',
      'mocha-waiting.test.mjs',
      'mocha-redis.test.mjs',
      '--timeout=20000',
    ],
    'node:test': [],
  };

  for (const [runner, [program, ...args]] of Object.entries(runners)) {
    it(`works in users' tests with ${runner}`, async () => {
      const app = join(directory, 'runners');
      if (!existsSync(app)) {
        cpSync(join(root, 'test/slow/runners'), app, { recursive: true });
        cpSync(join(bare, 'node_modules'), join(app, 'node_modules'), { recursive: true });
        for (const name of ['express', 'ioredis', 'jest', 'mocha', 'sinon', 'supertest', 'vitest'])
          symlinkSync(installed(name), join(app, 'node_modules', name));
      }
      const command =
        program === undefined
          ? ['--test', 'node.test.mjs', 'node-waiting.test.mjs', 'node-redis.test.mjs']
          : [installed(program), ...args];
      const env = { ...process.env, REDIS_URL: servers.redis.url };
      const { stdout, stderr } = await execute(process.execPath, command, { cwd: app, env }).catch(
        showOutput,
      );
      expect(stripVTControlCharacters(stdout + stderr)).to.match(/\b4 pass|pass 4\b/);
    });
  }

  /** Links the peers, and the types of Node, into a project. */
  function linkPeers(project: string, others: Record<string, string>): void {
    const names = [
      'fastify',
      '@nestjs/common',
      '@nestjs/core',
      '@opentelemetry/api',
      'prom-client',
      '@types/node',
    ];
    const peers = { ...Object.fromEntries(names.map((name) => [name, name])), ...others };
    for (const [name, source] of Object.entries(peers)) {
      const link = join(project, 'node_modules', name);
      mkdirSync(dirname(link), { recursive: true });
      rmSync(link, { recursive: true, force: true });
      symlinkSync(installed(source), link);
    }
  }

  /** A project with all peers, and the files to compile only. */
  function typesProject(): string {
    const project = join(directory, 'types');
    if (existsSync(project)) return project;
    cpSync(join(all, 'node_modules'), join(project, 'node_modules'), { recursive: true });
    const names = [
      'express',
      '@types/express',
      'ioredis',
      '@fastify/rate-limit',
      'hono',
      'koa',
      '@types/koa',
      '@types/pg',
    ];
    linkPeers(project, Object.fromEntries(names.map((name) => [name, name])));
    for (const name of ['every-door', 'side-by-side', 'doors']) {
      for (const extension of ['ts', 'mts', 'cts'])
        copyFileSync(join(root, `test/slow/package/${name}.ts`), join(project, `${name}.${extension}`));
    }
    return project;
  }

  async function load(cwd: string, paths: string[]) {
    for (const how of ['import', 'require']) {
      const script = `(async () => {
        for (const path of ${JSON.stringify(paths)}) await ${how}('headgate' + path.slice(1));
      })();`;
      await execute(process.execPath, ['-e', script], { cwd });
    }
  }

  /** Compiles a program that uses the types of both module systems. */
  async function compileConsumer(consumer: string) {
    const sources = {
      'consumer.mts': 'consumer',
      'consumer.cts': 'consumer',
      'both-loaders.mts': 'both-loaders',
    };
    for (const [file, source] of Object.entries(sources)) {
      copyFileSync(join(root, `test/slow/package/${source}.ts`), join(consumer, file));
    }
    await tsc(consumer, 'tsconfig', { ...strict, noEmit: false, module: 'nodenext' }, Object.keys(sources));
  }

  async function tsc(
    project: string,
    name: string,
    compilerOptions: object,
    files: string[],
    typescript = 'typescript-7',
  ) {
    const config = join(project, `${name}.json`);
    writeFileSync(config, JSON.stringify({ compilerOptions, files }));
    if (typescript !== 'typescript-7') {
      const errors = compile(typescript, config);
      if (errors) throw new Error(`\n${errors}`);
      return;
    }
    // TypeScript's compiler runs as a program, because version 7 has no library.
    const program = installed(`${typescript}/bin/tsc`);
    await execute(process.execPath, [program, '-p', config], { cwd: project }).catch(showOutput);
  }

  async function works(file: string, args: string[] = []) {
    const env = { ...process.env, REDIS_URL: servers.redis.url };
    const { stdout } = await execute(process.execPath, [file, ...args], { cwd: dirname(file), env });
    expect(stdout).to.equal('works\n');
  }
});

const strict = {
  ...{ target: 'es2022', lib: ['es2022', 'esnext.disposable'], types: ['node'] },
  ...{ strict: true, noEmit: true },
};

/** Adds the standard output to the error, because tsc reports there. */
function showOutput(error: Error & { stdout?: string }): never {
  throw new Error(`${error.message}\n${error.stdout}`, { cause: error });
}
