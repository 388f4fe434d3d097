// npm run goals: figures of the house that may only get better, each beside its limit (scripts/goals.json). Fails if a figure is worse.
//   npm run goals -- --record    records the present figures as the limits
//   npm run goals -- --names     lists the functions of src on the path of a request
//   npm run goals -- --english   lists the lines of prose to rewrite
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { Session } from 'node:inspector/promises';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import express from 'express';
import { createLimiter, memoryStore, type Store } from 'headgate';
import { rateLimit } from 'headgate/express';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { startServer } from '../test/support/servers.js';
import { measureClasses } from './lib/classes.js';
import { measureEnglish } from './lib/english.js';
import { ensureBuilt } from './lib/built.mjs';
import { listFiles, root } from './lib/run.mjs';
import { measureStructure } from './lib/structure.js';

const GOALS = new URL('goals.json', import.meta.url);

/** On a busy machine a request takes longer than the default, and the timer's functions would count as part of the path. */
const TIMEOUT = '10s';

/** The requests measured for each path. */
const REQUESTS = 20;

const figures: Record<string, number> = {
  'package, kB unpacked': packageSize(),
  'lines of src (TypeScript, Lua)': linesOf(listFiles('src'), /\.(ts|lua)$/),
  'lines of all packages (TypeScript, Lua)': linesOf(listFiles('src', 'packages/*/src/*'), /\.(ts|lua)$/),
  'lines of scripts': linesOf(listFiles('scripts'), /\.(ts|mjs)$/),
  ...rooms(),
  ...english(),
  ...(await paths()),
};

if (process.argv.includes('--record')) {
  writeFileSync(GOALS, `${JSON.stringify(figures, null, 2)}\n`);
} else {
  const most = JSON.parse(readFileSync(GOALS, 'utf8')) as Record<string, number>;
  for (const [name, figure] of Object.entries(figures)) {
    const worse = !(figure <= (most[name] ?? 0));
    if (worse) process.exitCode = 1;
    console.log(
      `${name.padEnd(90)}${String(figure).padStart(7)}${String(most[name]).padStart(7)}${worse ? '  WORSE' : ''}`,
    );
  }
}

/** The size of the package that `npm pack` makes from the last build. */
function packageSize(): number {
  ensureBuilt();
  const args = ['pack', '--dry-run', '--ignore-scripts', '--json', '--loglevel=silent'];
  const [{ unpackedSize }] = JSON.parse(execFileSync('npm', args, { cwd: root, encoding: 'utf8' })) as [
    { unpackedSize: number },
  ];
  return Math.ceil(unpackedSize / 1000);
}

function linesOf(files: readonly string[], which: RegExp): number {
  const texts = files
    .filter((file) => which.test(file))
    .map((file) => readFileSync(`${root}${file}`, 'utf8'));
  return texts.reduce((sum, text) => sum + text.split('\n').length - 1, 0);
}

/** The largest class, and the files that are too long to overlook. */
function rooms(): Record<string, number> {
  const files = listFiles('src', 'packages/*/src/*').filter((file) => /\.(ts|lua)$/.test(file));
  const classes = measureClasses(files);
  const src = files.filter((file) => file.startsWith('src/'));
  return {
    'largest class: lines': Math.max(...classes.map(({ lines }) => lines)),
    'largest class: methods': Math.max(...classes.map(({ methods }) => methods)),
    'files above 350 lines': files.filter((file) => linesOf([file], /./) > 350).length,
    ...measureStructure(src, files),
  };
}

/** The English of comments and docs. */
function english(): Record<string, number> {
  const code = (...folders: string[]) =>
    listFiles(...folders).filter((file) => /\.(ts|mjs|cjs|js|lua)$/.test(file));
  const groups = {
    src: code('src', 'packages/*/src/*'),
    'tests and scripts': code('test', 'packages/*/test/*', 'scripts', 'examples'),
    docs: listFiles('docs', 'packages', '*.md').filter((file) => /^(?!CHANGELOG).*\.md$/.test(file)),
  };
  const measured = Object.entries(groups).map(([name, files]) => [name, measureEnglish(files)] as const);
  if (process.argv.includes('--english')) for (const [, { lines }] of measured) console.log(lines.join('\n'));
  return Object.fromEntries(
    measured.flatMap(([name, { figures }]) =>
      Object.entries(figures).map(([figure, value]) => [`English of ${name}: ${figure}`, value]),
    ),
  );
}

/** The files of src, functions and calls that one warm request passes, by V8's precise coverage. */
async function paths(): Promise<Record<string, number>> {
  const server = await startServer('redis');
  const redis = new Redis(server.port);
  const limiter = createLimiter({
    name: 'alone',
    store: redisStore(redis),
    timeout: TIMEOUT,
    limit: 1e6,
    window: '1h',
  });
  const found = {
    ...(await passed('limiter.consume, Redis', () => limiter.consume('a'))),
    ...(await overHttp('Express, Redis, admitted', redisStore(redis), 1e6)),
    ...(await overHttp('Express, Redis, denied', redisStore(redis), 1)),
    ...(await overHttp('Express, memory, admitted', memoryStore(), 1e6)),
    ...(await overHttp('Express, memory, denied', memoryStore(), 1)),
  };
  await limiter.close();
  redis.disconnect();
  await server.stop();
  return found;
}

async function overHttp(name: string, store: Store, limit: number): Promise<Record<string, number>> {
  const app = express();
  app.use(rateLimit({ name, store, timeout: TIMEOUT, limit, window: '1h', warnings: false }));
  app.get('/', (_req, res) => void res.end('ok'));
  const server = createServer(app).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const found = await passed(name, async () => (await fetch(`http://127.0.0.1:${port}`)).text());
  server.close().closeAllConnections();
  return found;
}

/** The least of some requests: a timer of another one may run meanwhile. The package lacks `__name`, which names functions. */
async function passed(name: string, request: () => Promise<unknown>): Promise<Record<string, number>> {
  for (let i = 0; i < 1200; i++) await request();
  // Beyond 500 decisions of a second, a store counts the keys of some decisions only, so that the next second begins first.
  await sleep(1200);
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  let least = { files: Infinity, functions: Infinity, calls: Infinity };
  for (let i = 0; i < REQUESTS; i++) {
    await session.post('Profiler.takePreciseCoverage');
    await request();
    const { result } = await session.post('Profiler.takePreciseCoverage');
    const scripts = result
      .filter(({ url }) => url.startsWith(`file://${root}src/`))
      .map(({ url, functions }) => ({ url, used: functions.filter(({ ranges }) => ranges[0]!.count > 0) }))
      .filter(({ used }) => used.length > 0);
    const used = scripts.flatMap((script) => script.used.filter((f) => f.functionName !== '__name'));
    const calls = used.reduce((sum, { ranges }) => sum + ranges[0]!.count, 0);
    if (calls < least.calls) least = { files: scripts.length, functions: used.length, calls };
    if (i === REQUESTS - 1 && process.argv.includes('--names'))
      for (const script of scripts)
        console.log(`${script.url.split('/src/')[1]}: ${script.used.map((f) => f.functionName).join(', ')}`);
  }
  session.disconnect();
  return Object.fromEntries(Object.entries(least).map(([what, count]) => [`${name}: ${what}`, count]));
}
