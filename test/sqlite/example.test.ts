// examples/cluster-sqlite.ts runs as its users run it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect } from 'chai';
import { freePort } from '../support/servers.js';
import { describeSqlite, itOpens, makeDirectory } from '../support/sqlite.js';

const root = join(import.meta.dirname, '../..');

describeSqlite('the example cluster-sqlite', () => {
  itOpens('four workers share a quota in a file', async function () {
    this.timeout(60_000);
    const port = await freePort();
    const example = spawn(process.execPath, ['--import', 'tsx', 'examples/cluster-sqlite.ts'], {
      cwd: root,
      env: { ...process.env, PORT: String(port), LIMITS: join(makeDirectory(), 'limits.db') },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(example, 'exit');
    try {
      await Promise.race([once(example.stdout, 'data'), ended]);
      const answers = await Promise.all(Array.from({ length: 40 }, () => fetch(`http://127.0.0.1:${port}`)));
      const admitted = (await Promise.all(answers.filter(({ ok }) => ok).map((answer) => answer.json()))) as {
        worker: number;
        degraded: boolean;
      }[];
      expect(admitted.filter(({ degraded }) => degraded)).to.have.length(0);
      expect(admitted).to.have.length(5);
    } finally {
      example.kill('SIGTERM');
      await ended;
    }
  });
});
