// Root hooks: tests must leave nothing behind, neither in this process nor on the servers of the whole run.
import { config } from 'chai';
import type { Redis } from 'ioredis';
import type { RootHookObject, Suite, Test } from 'mocha';
import { runningServers, type TestServer } from './servers.js';

// Chai's proxies are two thirds of the time of an expectation, and find only misspelt assertions, as the compiler does.
config.useProxy = false;

/** URLs of running servers, for the tests only: processes started by tests do not see these variables. */
export const serverUrls = { redis: process.env['REDIS_URL'], valkey: process.env['VALKEY_URL'] };
delete process.env['REDIS_URL'];
delete process.env['VALKEY_URL'];

const clients: Redis[] = [];
const started: TestServer[] = [];

/**
 * Shares a server with the whole run. Each top-level suite finds the server empty, and every key must have a TTL.
 *
 * @param client a client for the hooks, which disconnect it at the end
 * @param server the server to stop at the end
 */
export function share(client: Redis, server?: TestServer): void {
  clients.push(client);
  if (server) started.push(server);
}

let expectKeysWithoutTtl = false;

/** For tests that write keys without a TTL on purpose: switches the check off for the current test. */
export function allowKeysWithoutTtl() {
  expectKeysWithoutTtl = true;
}

let running: Mocha.Runnable | undefined;

/** For tests that are limited by the processor: the least time that the current test may take, ms. */
export function allowTime(ms: number) {
  if (running && running.timeout() < ms) running.timeout(ms);
}

// A promise is used because Mocha's own listener reports each rejection a second time.
const unhandled = new Map<Promise<unknown>, unknown>();
process.on('unhandledRejection', (reason, promise) => unhandled.set(promise, reason));

export const mochaHooks: RootHookObject = {
  beforeAll(this: Mocha.Context) {
    const root = this.test?.parent;
    for (const suite of root?.suites ?? []) suite.afterAll('empty the servers', emptyServers);
    for (const test of testsOf(root)) checkAfterwards(test);
  },
};

/** Ends the shared servers and clients. Anything that still keeps the process alive is a leak. */
export async function mochaGlobalTeardown() {
  exitAfter(10_000);
  for (const client of clients) client.disconnect();
  for (const server of started) await server.stop();
  checkRejections();
  const running = [...runningServers.values()];
  if (running.length > 0) throw new Error(`The tests have left servers running: ${running.join(', ')}`);
}

function exitAfter(ms: number) {
  const timer = setTimeout(() => {
    console.error(`The tests have left open: ${process.getActiveResourcesInfo().join(', ')}`);
    process.on('exit', () => (process.exitCode = 1));
    process.exit();
  }, ms);
  timer.unref();
}

function testsOf(suite: Suite | undefined): Test[] {
  return suite ? [...suite.tests, ...suite.suites.flatMap(testsOf)] : [];
}

// The checks are a part of the test and not a hook, because a failed hook would end the whole run.
function checkAfterwards(test: Test) {
  const { fn } = test;
  if (!fn) return;
  if (fn.length > 0) throw new Error(`${test.fullTitle()}: return a promise instead of taking a callback.`);
  test.fn = async function (this: Mocha.Context) {
    expectKeysWithoutTtl = false;
    running = this.runnable();
    try {
      await (fn as Mocha.AsyncFunc).call(this);
    } finally {
      // A new timeout after the end of the test would start the test's timer again.
      running = undefined;
    }
    await removeKeysWithoutTtl();
    checkRejections();
  };
}

function checkRejections() {
  const reasons = [...unhandled.values()];
  unhandled.clear();
  if (reasons.length > 0) throw new AggregateError(reasons, `Unhandled: ${reasons.map(String).join(', ')}`);
}

const removeScript = `
  local found, cursor = {}, '0'
  repeat
    local page = redis.call('SCAN', cursor, 'COUNT', 1000)
    cursor = page[1]
    for _, key in ipairs(page[2]) do
      if redis.call('PTTL', key) == -1 then found[#found + 1] = key end
    end
  until cursor == '0'
  for _, key in ipairs(found) do redis.call('DEL', key) end
  return found
`;

/** Reports keys without a TTL unless the test expects them, and removes them before the next test. */
async function removeKeysWithoutTtl() {
  const keys = (await Promise.all(clients.map((client) => client.eval(removeScript, 0)))).flat();
  if (keys.length > 0 && !expectKeysWithoutTtl)
    throw new Error(`Keys without a TTL: ${JSON.stringify(keys)}`);
}

async function emptyServers() {
  for (const client of clients) await client.flushall();
}
