// Bundles worker.mjs as Cloudflare's tools do, and asks each of its paths three times on Cloudflare's own runtime. Prints the failures.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { build } from 'esbuild';
import { Miniflare } from 'miniflare';

/** The modules of Node that the runtime has are imported, also by code that requires them. */
const nodeModules = {
  name: 'modules of Node',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node:/ }, ({ kind, path }) =>
      kind === 'require-call' ? { path, namespace: 'required' } : { path, external: true },
    );
    onLoad({ filter: /.*/, namespace: 'required' }, ({ path }) => ({
      contents: `import found from '${path}'; module.exports = found;`,
    }));
  },
};

await build({
  ...{
    entryPoints: ['worker.mjs'],
    outfile: 'worker.bundle.mjs',
    bundle: true,
    format: 'esm',
    logLevel: 'error',
  },
  conditions: ['workerd', 'worker'],
  plugins: [nodeModules],
});
const worker = new Miniflare({
  ...{ modules: true, scriptPath: 'worker.bundle.mjs' },
  ...{ compatibilityDate: '2026-04-01', compatibilityFlags: ['nodejs_compat'] },
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
const jobs = {
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
