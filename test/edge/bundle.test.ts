// The bundle for edge runtimes: its size, and its work without any module or global of Node.
import { createContext, runInContext } from 'node:vm';
import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import { build } from 'esbuild';
import { EDGE_SETTINGS } from '../../scripts/lib/edge.js';
import { root } from '../../scripts/lib/run.mjs';
import type { RestServer } from '../support/rest-server.js';
import { useRest } from '../support/rest-subject.js';
import { freshPrefix } from '../support/stores.js';

/** The largest gzipped bundles, kB: what an application loads that imports this. */
const LIMITS = {
  'createLimiter and memoryStore': [`export { createLimiter, memoryStore } from './index.js';`, 82],
  'headgate/web': [`export { rateLimit } from './web.js';`, 100],
  'headgate/web and headgate/upstash': [
    `export { rateLimit } from './web.js'; export { redisStore, upstashRedis } from './upstash.js';`,
    160,
  ],
} as const;

/** The globals that every runtime with `fetch` has. */
const WEB = [
  ...[
    'fetch',
    'Request',
    'Response',
    'Headers',
    'URL',
    'URLSearchParams',
    'TextEncoder',
    'TextDecoder',
    'crypto',
  ],
  ...[
    'AbortController',
    'AbortSignal',
    'performance',
    'queueMicrotask',
    'setTimeout',
    'clearTimeout',
    'atob',
  ],
  ...['btoa', 'setInterval', 'clearInterval', 'console'],
] as const;

async function bundle(contents: string) {
  const { outputFiles, metafile } = await build({
    ...EDGE_SETTINGS,
    ...{ stdin: { contents, resolveDir: `${root}/src` }, write: false, metafile: true },
    ...{ format: 'iife', globalName: 'headgate' },
  });
  return { code: outputFiles[0]!.text, inputs: Object.keys(Object.values(metafile.outputs)[0]!.inputs) };
}

describe('the bundle for edge runtimes', () => {
  for (const [title, [contents, limit]] of Object.entries(LIMITS))
    it(`${title}: at most ${limit} kB gzipped, without a client that connects`, async () => {
      const { code, inputs } = await bundle(contents);
      expect(gzipSync(code, { level: 9 }).length / 1000).to.be.below(limit);
      expect(code).to.not.match(/(from|require\(|import\() ?["'`]node:/);
      expect(inputs.filter((path) => /ioredis|node-redis|sqlite|postgres/.test(path))).to.deep.equal([]);
    });

  describe('in a context with the globals of the web only', () => {
    let rest: RestServer;
    useRest((started) => (rest = started));

    it('limits by Redis over HTTP, in memory and over the web', async () => {
      const { code } = await bundle(
        `export { createLimiter } from './index.js'; export { rateLimit } from './web.js'; export { redisStore, upstashRedis } from './upstash.js';`,
      );
      const globals = Object.fromEntries(WEB.map((name) => [name, globalThis[name]]));
      // The timers of this runtime keep no process alive.
      const setTimeout = (start: () => void, ms: number) => globalThis.setTimeout(start, ms).unref();
      const context = createContext({
        ...globals,
        setTimeout,
        url: rest.url,
        token: rest.token,
        prefix: freshPrefix(),
      });
      const run = (program: string): Promise<string> =>
        runInContext(
          `(async () => JSON.stringify(await (async () => {${program}})()))()`,
          context,
        ) as Promise<string>;
      runInContext(code, context);
      const output = await run(`
        const { createLimiter, rateLimit, redisStore, upstashRedis } = headgate;
        const store = redisStore(upstashRedis({ url, token }), { prefix, hashKeys: 'a secret of the tests' });
        const timeouts = { timeout: '10s', connectTimeout: '10s' };
        const quota = { algorithm: 'fixed-window', limit: 2, window: '1m' };
        const remote = createLimiter({ name: 'remote', store, ...quota, ...timeouts, overrides: true });
        const calendar = createLimiter({ name: 'days', algorithm: 'calendar', limit: 2, period: 'day', timeZone: 'Europe/Berlin' });
        const web = rateLimit({ name: 'web', store, ...quota, ...timeouts, clientIp: (request) => request.headers.get('ip'), partitionKey: 'a secret of the tests' })(
          () => new Response('ok'),
        );
        const keys = ['a', 'a', 'a', 'ä'.repeat(300), 'ä'.repeat(300)];
        const found = [];
        for (const key of keys) {
          const { allowed, remaining, degraded } = await remote.consume(key, { id: String(found.length) });
          found.push([allowed, remaining, degraded]);
        }
        await remote.override('a', { limit: 5 }, { for: '1m' });
        found.push((await remote.consume('a')).remaining);
        for (let i = 0; i < 3; i++) found.push((await calendar.consume('k'.repeat(500))).allowed);
        for (const ip of ['192.0.2.1', '192.0.2.1', '192.0.2.1', '2001:db8::1']) {
          const answer = await web(new Request('http://localhost/', { headers: { ip } }));
          found.push(answer.status);
        }
        await Promise.all([remote, calendar, web.limiter].map((limiter) => limiter?.close()));
        return found;`);
      expect(JSON.parse(output)).to.deep.equal([
        ...[
          [true, 1, false],
          [true, 0, false],
          [false, 0, false],
          [true, 1, false],
          [true, 0, false],
        ],
        ...[2, true, true, false, 200, 200, 429, 200],
      ]);
    });
  });
});
