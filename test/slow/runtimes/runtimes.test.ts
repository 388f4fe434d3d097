// The built package on runtimes besides Node: Bun, Deno and the runtime of Cloudflare Workers, all from npm.
import { rmSync } from 'node:fs';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { startRest, type RestServer } from '../../support/rest-server.js';
import { servers } from '../../support/shared-servers.js';
import { getProgram, makeProject, runIn } from '../project.js';

/** The runtimes of the programs. Node proves that the program itself is right. */
const RUNTIMES = {
  Node: { program: async () => process.execPath, args: [] },
  Bun: { program: () => getProgram('bun', '1.4.5'), args: ['run'] },
  Deno: { program: () => getProgram('deno', '2.9.6'), args: ['run', '--allow-all', '--quiet'] },
};

const FRAMEWORKS = {
  ...{ express: '5.3.0', fastify: '5.12.8', hono: '4.13.19', koa: '3.3.0', connect: '3.7.0' },
  ...{ ioredis: '6.0.0', redis: '6.3.1', '@opentelemetry/api': '1.9.1', 'prom-client': '15.1.3' },
  ...{ '@nestjs/common': '11.2.10', '@nestjs/core': '11.2.10', '@nestjs/websockets': '11.2.6' },
  ...{ 'reflect-metadata': '0.2.2', rxjs: '7.8.2' },
};

/** The last that runs on Node 20. */
const WORKERS = { miniflare: '4.20260426.0', esbuild: '0.28.2', hono: '4.13.19' };

describe('on other runtimes', function () {
  this.timeout(300_000);
  let project: string;
  before(async () => {
    project = await makeProject(FRAMEWORKS, 'runtimes/load.mjs', 'runtimes/main-job.mjs');
  });
  after(() => rmSync(project, { recursive: true, force: true }));

  for (const [name, { program, args }] of Object.entries(RUNTIMES)) {
    it(`each sub-path loads on ${name}`, async () => {
      expect(await runIn(project, await program(), [...args, 'load.mjs'])).to.equal('works\n');
    });

    it(`adapters, stores and calls to others do their work on ${name}`, async () => {
      const env = { REDIS_URL: servers.redis.url, NODE_ENV: 'test' };
      expect(await runIn(project, await program(), [...args, 'main-job.mjs'], env)).to.equal('works\n');
    });
  }
});

describe('on Cloudflare Workers', function () {
  this.timeout(300_000);
  let project: string;
  let redis: Redis;
  let rest: RestServer;
  before(async () => {
    project = await makeProject(WORKERS, 'runtimes/worker.mjs', 'runtimes/serve-worker.mjs');
    redis = new Redis(servers.redis.port);
    rest = await startRest(redis);
    rest.instead = ({ commands }) =>
      commands.flat().some((word) => word.includes(':stalled')) ? 'stalled' : undefined;
  });
  after(async () => {
    await rest.close();
    redis.disconnect();
    rmSync(project, { recursive: true, force: true });
  });

  for (const [title, flags] of Object.entries({
    'with nodejs_compat': ['nodejs_compat'],
    'without Node': [],
  }))
    it(`limiters that are made while the worker loads limit its requests, ${title}`, async () => {
      await redis.flushall();
      const env = { REST_URL: rest.url, REST_TOKEN: rest.token };
      const output = await runIn(project, process.execPath, ['serve-worker.mjs', ...flags], env);
      expect(output).to.equal('works\n');
    });
});
