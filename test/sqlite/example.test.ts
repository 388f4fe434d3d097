// examples/cluster-sqlite.ts runs as its users run it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { TYPESCRIPT } from '../../scripts/lib/run.mjs';
import { freePort } from '../support/servers.js';
import { DatabaseSync, makeDirectory } from '../support/sqlite.js';

const root = join(import.meta.dirname, '../..');

const start = (port: number) =>
  spawn(process.execPath, [...TYPESCRIPT, 'examples/cluster-sqlite.ts'], {
    cwd: root,
    env: { ...process.env, PORT: String(port), LIMITS: join(makeDirectory(), 'limits.db') },
    stdio: ['ignore', 'pipe', 'pipe'],
  });

describe('the example cluster-sqlite', function () {
  this.timeout(60_000);

  const shares = async () => {
    const port = await freePort();
    const example = start(port);
    const ended = once(example, 'exit');
    const errors = text(example.stderr);
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
    expect(await errors).to.not.contain('Headgate');
  };

  // The example opens a path. Node 20 has no node:sqlite.
  if (DatabaseSync) it('four workers share a quota in a file', shares);
  else
    it('says on a Node without node:sqlite what it needs', async () => {
      const example = start(await freePort());
      const [errors] = await Promise.all([text(example.stderr), once(example, 'exit')]);
      expect(errors).to.contain('cannot open a path').and.contain('Use Node 22.13 or later');
    });
});
