// Compiles the samples so that they run without servers, and hand their limiters and apps to the attack.
import { join } from 'node:path';
import type { Plugin } from 'esbuild';
import { root } from '../../../scripts/lib/run.mjs';
import { luaFiles } from '../../../src/stores/redis/lua-files.js';
import { compilePrograms, programDirectory } from '../../support/programs.js';
import type { Sample } from './samples.js';

/** The kinds of what a sample creates. */
export type Kind = 'express' | 'koa' | 'hono' | 'web' | 'nestjs' | 'limiter' | `${AppKind} app`;
type AppKind = 'express' | 'fastify' | 'koa' | 'hono' | 'node' | 'fetch';

/** A limiter or an app that a sample has created. */
export interface Created {
  readonly kind: Kind;
  readonly value: unknown;
}

const record = `const record = (kind, value) => { globalThis[Symbol.for('headgate attack')].push({ kind, value }); return value; };`;

/** An adapter whose limiters are recorded. */
const adapter = (path: string, kind: string): string => `
import { rateLimit as real } from '${path}';
export * from '${path}';
${record}
export const rateLimit = (options) => record('${kind}', real(options));
export default rateLimit;`;

/** A value that can be called, constructed, and read by every name. */
const ANYTHING = `
const anything = new Proxy(function () {}, {
  get: (_target, name) => (name === Symbol.toPrimitive ? () => '' : name === 'then' ? undefined : anything),
  apply: () => anything,
  construct: () => anything,
});`;

/** A module with a value for every name that a sample imports from it. */
function anyModule(path: string, found: readonly Sample[]): string {
  const imports = new RegExp(`import (?:\\w+,? ?)?(?:{([^}]*)})? from '${path}'`, 'g');
  const named = found.flatMap(({ code }) =>
    [...code.matchAll(imports)].flatMap(([, names = '']) => names.match(/\w+/g) ?? []),
  );
  const names = [...new Set(named)].filter((name) => name !== 'type');
  return `${ANYTHING}\nexport default anything;\n${names.map((name) => `export { anything as ${name} };`).join('\n')}`;
}

const memory = (...names: string[]): string =>
  `import { memoryStore } from 'headgate';\n` +
  names
    .map((name) => `export const ${name} = () => Object.assign(memoryStore(), { setup: async () => {} });`)
    .join('\n');

/** Replaced modules. The others, such as `headgate/http`, are the real ones. */
const standIns: Readonly<Record<string, string>> = {
  'headgate/express': adapter('headgate/express', 'express'),
  'headgate/compat/express-rate-limit': adapter('headgate/compat/express-rate-limit', 'express'),
  'headgate/compat/fastify-rate-limit': `
import real from 'headgate/compat/fastify-rate-limit';
const { name, length, ...marks } = Object.getOwnPropertyDescriptors(real);
export default Object.defineProperties((app, { redis, ...options }, done) => real(app, options, done), marks);`,
  'headgate/koa': adapter('headgate/koa', 'koa'),
  'headgate/hono': adapter('headgate/hono', 'hono'),
  'headgate/web': adapter('headgate/web', 'web'),
  'headgate/nestjs': `
import { RateLimitModule as Real } from 'headgate/nestjs';
export * from 'headgate/nestjs';
${record}
export class RateLimitModule extends Real {
  static forRoot(options) { record('nestjs', options); return Real.forRoot(options); }
}`,
  headgate: `
import { createLimiter as real } from 'headgate';
export * from 'headgate';
${record}
export const createLimiter = (options) => record('limiter', real(options));`,
  'headgate/redis': memory('redisStore'),
  'headgate/postgres': memory('postgresStore'),
  'headgate/sqlite': memory('sqliteStore'),
  'headgate/upstash': `${memory('redisStore')}\nexport const upstashRedis = () => ({});`,
  express: `
import real from 'express';
${record}
const express = () => Object.assign(record('express app', real()), { listen: () => ({ close() {} }) });
export default Object.assign(express, real);`,
  fastify: `
import real from 'fastify';
${record}
export default (options) => {
  const app = real(options);
  const routes = [];
  app.addHook('onRoute', ({ method, url }) => void routes.push(...[method].flat().map((each) => ({ method: each, path: url }))));
  record('fastify app', { app, routes });
  app.listen = async () => '';
  return app;
};`,
  koa: `
import Real from 'koa';
${record}
export default class Koa extends Real {
  constructor(...args) { super(...args); record('koa app', this); }
  listen() { return { close() {} }; }
}`,
  hono: `
import { Hono as Real } from 'hono';
${record}
export class Hono extends Real {
  constructor(...args) { super(...args); record('hono app', this); }
}`,
  '@hono/node-server': `
${record}
export const serve = ({ fetch }) => { record('fetch app', fetch); return { close() {} }; };`,
  'node:http': `
import http, { createServer as real } from 'node:http';
export * from 'node:http';
export default http;
${record}
export const createServer = (...args) => Object.assign(record('node app', real(...args)), { listen: () => ({ close() {} }) });`,
};

/** Clients of servers, and packages that samples import and this repository does not have. */
const MISSING =
  /^(ioredis|pg|polka|restify|@hapi\/hapi|elysia|h3|h3-1|graphql-yoga|moleculer-web|@grpc\/grpc-js|serverless-http|@azure\/functions|@google-cloud\/functions-framework)$/;

const sourceOf = (path: string): string | undefined => {
  const [, name, rest = '/index'] = /^(headgate(?:-dashboard|-testing)?)(\/.*)?$/.exec(path) ?? [];
  if (!name) return undefined;
  const folder = name === 'headgate' ? 'src' : `packages/${name.slice('headgate-'.length)}/src`;
  return join(root, folder, `${rest}.ts`);
};

/** Compiles the samples. Returns each sample's file. */
export async function compileSamples(found: readonly Sample[]): Promise<readonly string[]> {
  const outdir = programDirectory();
  const samples: Plugin = {
    name: 'samples',
    setup({ onLoad, onResolve }) {
      onResolve({ filter: /^sample:/ }, ({ path }) => ({ path: path.slice(7), namespace: 'sample' }));
      onResolve({ filter: /^[^.]/ }, ({ path, importer, namespace, kind }) => {
        if (kind === 'entry-point') return undefined;
        const isSample = namespace === 'sample' || importer.includes('/examples/');
        if (isSample && MISSING.test(path)) return { path, namespace: 'missing' };
        if (isSample && path in standIns) return { path, namespace: 'stand-in' };
        const source = sourceOf(path);
        return source === undefined ? undefined : { path: source };
      });
      onLoad({ filter: /.*/, namespace: 'sample' }, ({ path }) => {
        const { code, page } = found[Number(path)]!;
        const resolveDir = join(root, page.slice(0, page.lastIndexOf('/') + 1));
        const declared = code.replace(/^declare (?:const|function) (\w+).*$/gm, 'const $1: any = anything;');
        return { contents: `${ANYTHING}\n${declared}`, loader: 'ts', resolveDir };
      });
      onLoad({ filter: /.*/, namespace: 'stand-in' }, ({ path }) => ({
        contents: standIns[path]!,
        resolveDir: root,
      }));
      onLoad({ filter: /.*/, namespace: 'missing' }, ({ path }) => ({ contents: anyModule(path, found) }));
      const lua = `export const luaFiles = ${JSON.stringify(luaFiles)};`;
      onLoad({ filter: /lua-files\.ts$/ }, () => ({ contents: lua }));
    },
  };
  await compilePrograms({
    entryPoints: found.map((_sample, i) => ({ in: `sample:${i}`, out: String(i) })),
    ...{ outdir, splitting: true, plugins: [samples] },
    tsconfigRaw: { compilerOptions: { experimentalDecorators: true } },
  });
  return found.map((_sample, i) => join(outdir, `${i}.mjs`));
}

/** Runs a sample. Returns the limiters and apps that the sample has created, and its exports. */
export async function runSample(file: string): Promise<{ created: readonly Created[]; exports: object }> {
  const created: Created[] = [];
  (globalThis as { [key: symbol]: unknown })[Symbol.for('headgate attack')] = created;
  return { exports: (await import(file)) as object, created };
}
