import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { compileChild } from '../../support/programs.js';
import { startServer, type TestServer } from '../../support/servers.js';
import { sleep } from './load.js';

interface Told {
  asked: number;
  answered: number;
  outcomes: Record<string, number>;
}

const CHILD = fileURLToPath(new URL('close-child.ts', import.meta.url));

/** Starts a child with traffic that then closes. Resolves with its report, once the child has ended by itself. */
async function closeInTraffic(server: TestServer, before: () => Promise<void>): Promise<Told> {
  const child = fork(await compileChild(CHILD), [String(server.port)], { execArgv: [] });
  const report = new Promise<Told>((resolve) =>
    child.on('message', (message) => typeof message === 'object' && resolve(message as Told)),
  );
  await once(child, 'message');
  await sleep(200);
  await before();
  child.send('close');
  const ended = once(child, 'exit');
  const result = await report;
  const timer = setTimeout(() => child.kill('SIGKILL'), 5000);
  const [code] = (await ended) as [number | null];
  clearTimeout(timer);
  assert.equal(code, 0, 'it did not end by itself');
  return result;
}

describe('close() during traffic', () => {
  let server: TestServer;
  beforeEach(async () => (server = await startServer('redis')));
  afterEach(() => server.stop());

  for (const [what, before] of Object.entries({
    'while the store is up': async () => {},
    'while the store is stalled': () => server.kill('SIGSTOP'),
    'while the store is gone': () => server.kill('SIGKILL'),
  })) {
    it(`${what}: every decision ends, and the process too`, async () => {
      const { asked, answered, outcomes } = await closeInTraffic(server, before);
      assert.ok(asked > 100 && answered >= asked, JSON.stringify({ asked, answered, outcomes }));
      assert.ok(outcomes['decided']);
      assert.deepEqual(
        Object.keys(outcomes).filter((key) => !['decided', 'degraded', 'HEADGATE_CLOSED'].includes(key)),
        [],
      );
    });
  }
});
