// Bundles worker.mjs as Cloudflare's tools do, and asks each of its paths three times on Cloudflare's own runtime, with the compatibility flags
// of the command line. Prints the failures.
//   REST_URL, REST_TOKEN   a REST API that does not answer calls for keys that begin with `stalled`
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { build } from 'esbuild';
import { Miniflare } from 'miniflare';

await build({
  ...{
    entryPoints: ['worker.mjs'],
    outfile: 'worker.bundle.mjs',
    bundle: true,
    format: 'esm',
    logLevel: 'error',
  },
  conditions: ['workerd', 'worker'],
  define: {
    REST_URL: JSON.stringify(process.env.REST_URL),
    REST_TOKEN: JSON.stringify(process.env.REST_TOKEN),
  },
});
const worker = new Miniflare({
  ...{ modules: true, scriptPath: 'worker.bundle.mjs' },
  ...{ compatibilityDate: '2026-04-01', compatibilityFlags: process.argv.slice(2) },
});
await worker.ready;
const partner = createServer((_req, res) => void res.end('ok'));
await once(partner.listen(0, '127.0.0.1'), 'listening');

/** Asks three times as one client, and once as another. */
async function ask(path) {
  const headers = { 'cf-connecting-ip': '192.0.2.1', partner: `http://127.0.0.1:${partner.address().port}/` };
  const answers = [];
  for (const ip of ['192.0.2.1', '192.0.2.1', '192.0.2.1', '192.0.2.2']) {
    const answer = await worker.dispatchFetch(`http://localhost${path}`, {
      headers: { ...headers, 'cf-connecting-ip': ip },
    });
    answers.push({ status: answer.status, fields: answer.headers, text: await answer.text() });
  }
  return answers;
}

const statusesOf = (answers) => answers.map(({ status }) => status);
const limited = (path) => async () => {
  const answers = await ask(path);
  assert.deepEqual(statusesOf(answers), [200, 200, 429, 200], JSON.stringify(answers));
  assert.match(answers[0].fields.get('ratelimit'), /^"\w+";r=1;t=\d+/);
  assert.ok(Number(answers[2].fields.get('retry-after')) > 50);
};

/** Asks a limiter on Redis over HTTP once. */
async function askFor(limiter, key) {
  const answer = await worker.dispatchFetch(`http://localhost/remote?limiter=${limiter}&key=${key}`);
  const text = await answer.text();
  assert.equal(answer.status, 200, text);
  return JSON.parse(text);
}

const jobs = {
  'Redis over HTTP': limited('/remote-web'),
  'simultaneous requests': async () => {
    const keys = Array.from({ length: 30 }, (_, i) => `together-${i % 10}`);
    const answers = await Promise.all(keys.map((key) => askFor('patient', key)));
    assert.equal(answers.filter(({ allowed }) => allowed).length, 20, JSON.stringify(answers));
    assert.ok(answers.every(({ degraded }) => !degraded));
  },
  // Timers end with their request, so each request must have its own.
  'Redis that does not answer, and answers again': async () => {
    for (let i = 0; i < 3; i++)
      for (const allowed of [true, false])
        assert.deepEqual(await askFor('hasty', `stalled-${i}`), { allowed, degraded: true });
    // Some requests expire while others are answered.
    await Promise.all(
      Array.from({ length: 30 }, (_, i) => askFor('hasty', `${i % 2 ? 'stalled' : 'mixed'}-${i}`)),
    );
    for (let tries = 0; (await askFor('hasty', `again-${tries}`)).degraded; tries++) {
      assert.ok(tries < 100);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  },
  'a limiter': limited('/core'),
  'a handler': limited('/web'),
  'a handler with marked keys': limited('/marked'),
  Hono: limited('/hono'),
  // A body is read before the next request comes, so the slot is free again.
  slots: async () => assert.deepEqual(statusesOf(await ask('/slots')), [200, 200, 200, 200]),
  'a function': async () => assert.deepEqual(statusesOf(await ask('/function')), [200, 200, 429, 429]),
  'calls to others': async () => assert.deepEqual(statusesOf(await ask('/outbound')), [200, 200, 429, 429]),
};
let passed = 0;
for (const [name, run] of Object.entries(jobs)) {
  try {
    await run();
    passed++;
  } catch (error) {
    console.log(`${name}: ${error.stack}`);
  }
}
console.log(passed === Object.keys(jobs).length ? 'works' : `${passed} passed`);
await worker.dispose();
partner.close();
