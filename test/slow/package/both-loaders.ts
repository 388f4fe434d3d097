// A user's program that loads the packed package both ways: objects from one loader work with functions from the other.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import express from 'express';
import fastify from 'fastify';
import * as imported from 'headgate';
import * as importedExpress from 'headgate/express';
import type { Store } from 'headgate';
import type * as Required from 'headgate' with { 'resolution-mode': 'require' };
import type * as RequiredFastify from 'headgate/fastify' with { 'resolution-mode': 'require' };

const require = createRequire(import.meta.url);
const required = require('headgate') as typeof Required;
const requiredFastify = require('headgate/fastify') as typeof RequiredFastify;

const policy = { limit: 1, window: '1h' } as const;

async function exportsTheSame(path: string) {
  const byImport = (await import(path)) as Record<string, unknown>;
  const byRequire = require(path) as Record<string, unknown>;
  assert.deepEqual(namesOf(byImport), namesOf(byRequire), path);
  for (const name of namesOf(byImport)) assert.equal(byImport[name], byRequire[name], `${path} ${name}`);
}

/** The names of exports, without those that newer versions of Node add to the result of `require`. */
function namesOf(exports: Record<string, unknown>) {
  return Object.keys(exports)
    .filter((name) => name !== 'module.exports')
    .sort();
}

async function adaptersTakeLimitersOfTheOther() {
  const app = express();
  app.use(importedExpress.rateLimit({ limiter: required.createLimiter(policy) }));
  app.get('/', (req, res) => {
    res.json(req.rateLimit?.remaining);
  });
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  assert.deepEqual([(await fetch(url)).status, (await fetch(url)).status], [200, 429]);
  server.closeAllConnections();
  server.close();

  const other = fastify();
  await other.register(requiredFastify.rateLimitPlugin, { limiter: imported.createLimiter(policy) });
  other.get('/', (request) => request.rateLimit?.remaining);
  assert.deepEqual([(await other.inject('/')).statusCode, (await other.inject('/')).statusCode], [200, 429]);
  await other.close();
}

async function decideTogether() {
  const limiters = [imported.createLimiter(policy), required.createLimiter(policy)];
  for (const { consumeAll } of [imported, required]) {
    const joint = await consumeAll(limiters.map((limiter) => ({ limiter, key: 'ada' })));
    assert.equal(joint.allowed, true);
    await joint.cancel();
  }
}

function throwTheSameErrors() {
  assert.throws(() => required.createLimiter({ limit: -1, window: '1h' }), imported.HeadgateError);
  assert.throws(() => imported.createLimiter({ limit: -1, window: '1h' }), required.HeadgateError);
}

function shareNamesOfAStore() {
  const store = required.memoryStore();
  required.createLimiter({ store, name: 'api', ...policy });
  required.createLimiter({ store, ...policy });
  const code = (code: string) => (error: unknown) =>
    error instanceof imported.HeadgateError && error.code === code;
  assert.throws(() => imported.createLimiter({ store, ...policy }), code('HEADGATE_NAME_REQUIRED'));
  assert.throws(
    () => imported.createLimiter({ store, name: 'api', limit: 2, window: '1h' }),
    code('HEADGATE_POLICY_MISMATCH'),
  );
}

async function shareABreaker() {
  const down = () => Promise.reject(new Error('down'));
  const store: Store = { decide: down, adjust: down, lease: down, reset: down, ban: down };
  const one = imported.createLimiter({ store, name: 'one', ...policy });
  const other = required.createLimiter({ store, name: 'other', ...policy });
  const { degraded } = await one.consume('ada');
  assert.deepEqual([degraded, other.health.failures], [true, 1]);
}

async function main() {
  for (const path of process.argv.slice(2)) await exportsTheSame(path);
  await adaptersTakeLimitersOfTheOther();
  await decideTogether();
  throwTheSameErrors();
  shareNamesOfAStore();
  await shareABreaker();
  console.log('works');
}

void main();
