// Loading Headgate must only define things. Cloudflare Workers refuse random numbers, timers and I/O until the first request, and a process
// should not pay at start for work that may never be needed. Workers also create limiters while loading.
import crypto from 'node:crypto';
import fs from 'node:fs';
import net from 'node:net';
import { createRequire } from 'node:module';
import { performance } from 'node:perf_hooks';
import timers from 'node:timers';
import vm from 'node:vm';
import { expect } from 'chai';
import { build } from 'esbuild';
import { listFiles, root } from '../scripts/lib/run.mjs';
import type * as headgate from '../src/index.js';
import type * as hono from '../src/hono.js';
import type * as outbound from '../src/fetch.js';
import type * as web from '../src/web.js';

const require = createRequire(import.meta.url);

/** The command line runs when it is loaded, and the built package has the texts of the Lua files. */
const modules = listFiles('src').filter(
  (file) => /(?<!\.d)\.ts$/.test(file) && !/^src\/(cli\/|stores\/redis\/lua-files)/.test(file),
);

type Functions = readonly (readonly [owner: object, names: RegExp])[];

/** Functions that Cloudflare Workers refuse until a request comes. */
const REFUSED: Functions = [
  [Math, /^random$/],
  [crypto, /^(random|generate|getRandom)/],
  [crypto.webcrypto, /^(random|getRandom)/],
  [globalThis, /^(set(Timeout|Interval|Immediate)|fetch)$/],
  [timers, /^set/],
  [net, /^(connect|createConnection|createServer)$/],
];

/** The functions that do more than define. */
const WORK: Functions = [
  ...REFUSED,
  [Date, /^now$/],
  [Object.getPrototypeOf(performance) as object, /^(now|mark|measure|eventLoopUtilization)$/],
  [process, /^(on|once|addListener|prependListener|emitWarning|nextTick|getActiveResourcesInfo)$/],
  [globalThis, /^queueMicrotask$/],
  [fs, /Sync$/],
];

/** Runs something while these functions are watched. Returns their calls. @param refuses whether the functions throw */
function callsDuring(run: () => void, functions: Functions, refuses = false): string[] {
  const calls: string[] = [];
  let isOver = false;
  const restore: (() => void)[] = [];
  for (const [target, names] of functions) {
    for (
      let owner: object = target;
      owner !== Object.prototype;
      owner = Object.getPrototypeOf(owner) as object
    ) {
      for (const [name, descriptor] of Object.entries(Object.getOwnPropertyDescriptors(owner))) {
        if (!names.test(name) || typeof descriptor.value !== 'function') continue;
        const work = descriptor.value as (...args: unknown[]) => unknown;
        const value = function (this: unknown, ...args: unknown[]): unknown {
          // The package keeps copies of some functions.
          if (!isOver) calls.push(`${name} in ${callerOf(new Error().stack!)}`);
          if (refuses && !isOver) throw new Error(`${name} is refused`);
          return Reflect.apply(work, this, args);
        };
        Object.defineProperty(owner, name, { ...descriptor, value });
        restore.push(() => Object.defineProperty(owner, name, descriptor));
      }
    }
  }
  try {
    run();
  } finally {
    isOver = true;
    for (const each of restore.reverse()) each();
  }
  return [...new Set(calls)];
}

let code: string;

/** The module of `src` that made a call, by the comment that esbuild writes before each module. */
function callerOf(stack: string): string {
  const line = Number(/bundle\.cjs:(\d+)/.exec(stack)?.[1]);
  const before = code.split('\n').slice(0, line);
  return (
    /\/\/ (src\/.*)/.exec(before.reverse().find((each) => /^\s*\/\/ src\//.test(each)) ?? '')?.[1] ?? stack
  );
}

type Loaded = typeof headgate & { hono: typeof hono; web: typeof web; outbound: typeof outbound };

/** Loads all of `src` anew, and the packages that `src` needs only once. */
function load(): Loaded {
  const module = { exports: {} };
  const run = new vm.Script(`(function (require, module, exports) {${code}\n})`, { filename: 'bundle.cjs' });
  (run.runInThisContext() as (...args: unknown[]) => void)(require, module, module.exports);
  return module.exports as Loaded;
}

before(async function () {
  this.timeout(60_000);
  const doors = ['hono', 'web', 'fetch'].map(
    (door) => `export * as ${door === 'fetch' ? 'outbound' : door} from './src/${door}.js';`,
  );
  const contents = [
    ...modules.map((file) => `import './${file}';`),
    "export * from './src/index.js';",
    ...doors,
  ].join('\n');
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: root, loader: 'ts' },
    ...{
      bundle: true,
      write: false,
      platform: 'node',
      format: 'cjs',
      packages: 'external',
      treeShaking: false,
      logLevel: 'error',
    },
    plugins: [
      {
        name: 'texts of the Lua files',
        setup: ({ onLoad }) =>
          onLoad({ filter: /lua-files\.ts$/ }, () => ({ contents: 'export const luaFiles = {};' })),
      },
    ],
  });
  code = outputFiles[0]!.text;
  load();
});

describe('loading the package', () => {
  it('defines, and does nothing else: no random numbers, timers, clocks, listeners or files', () => {
    expect(modules).to.include.members(['src/index.ts', 'src/nestjs.ts', 'src/common/real-time.ts']);
    expect(callsDuring(load, WORK)).to.deep.equal([]);
  });

  it('and making limiters works where random numbers and timers are refused until a request comes', async () => {
    const ip = () => '192.0.2.1';
    let parts = {} as Loaded;
    let limiter = {} as headgate.Limiter;
    let limit = {} as web.WebRateLimit;
    callsDuring(
      () => {
        parts = load();
        const store = parts.memoryStore({ maxKeys: 100 });
        const slots = { algorithm: 'concurrency', limit: 1, lease: '1m' } as const;
        limiter = parts.createLimiter({
          store,
          overrides: true,
          policies: ['2/1m', slots],
          ban: { after: 5, for: '1m' },
        });
        limit = parts.web.rateLimit({ limit: 1, window: '1m', wait: '1s', partitionKey: true, clientIp: ip });
        parts.hono.rateLimit({ limit: 1, window: '1m', clientIp: ip });
        parts.outbound.limitFetch(fetch, '2/1s');
      },
      REFUSED,
      true,
    );
    const decisions = [await limiter.consume('ada'), await limiter.consume('ada')];
    expect(decisions.map(({ allowed }) => allowed)).to.deep.equal([true, false]);
    await decisions[0]!.release();
    const handler = limit(() => new Response('ok'));
    expect((await handler(new Request('http://localhost/'))).headers.get('ratelimit')).to.match(/r=0.*pk=/);
  });
});
