// examples/postgres.ts as its users run the example: two processes on one database.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect } from 'chai';
import { TYPESCRIPT } from '../../../scripts/lib/run.mjs';
import { startPostgres } from '../../support/postgres.js';
import { freePort } from '../../support/servers.js';

const root = join(import.meta.dirname, '../../..');

describe('the example postgres', function () {
  this.timeout(120_000);

  it('two processes share a quota', async () => {
    const server = await startPostgres();
    const processes: ChildProcess[] = [];
    const serve = async (): Promise<string> => {
      const port = await freePort();
      const example = spawn(process.execPath, [...TYPESCRIPT, 'examples/postgres.ts'], {
        cwd: root,
        env: { ...process.env, PORT: String(port), DATABASE_URL: server.url },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      processes.push(example);
      await Promise.race([once(example.stdout, 'data'), once(example, 'exit')]);
      return `http://127.0.0.1:${port}`;
    };
    try {
      const urls = await Promise.all([serve(), serve()]);
      const answers = await Promise.all(Array.from({ length: 40 }, (_, i) => fetch(urls[i % 2]!)));
      const admitted = await Promise.all(answers.filter(({ ok }) => ok).map((answer) => answer.json()));
      const by = (a: { remaining: number }, b: { remaining: number }) => b.remaining - a.remaining;
      expect((admitted as { remaining: number }[]).sort(by)).to.deep.equal(
        [4, 3, 2, 1, 0].map((remaining) => ({ remaining, degraded: false })),
      );
    } finally {
      for (const example of processes) {
        const ended = once(example, 'exit');
        example.kill('SIGTERM');
        await ended;
      }
      await server.stop();
    }
  });
});
