// Four processes that call a partner with a strict limit.
import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { startChild } from '../../support/processes.js';
import { startServer } from '../../support/servers.js';
import { StrictServer } from '../../support/strict-server.js';

describe('limitFetch in four processes', () => {
  it('exceeds a strict limit seldom, pauses in every process, and goes on when one dies', async function () {
    this.timeout(60_000);
    // The test measures the delay of calls, which is long on a busy machine.
    this.retries(3);
    const redis = await startServer('redis');
    const server = await new StrictServer(50).start();
    const children: ChildProcess[] = [];
    try {
      for (let i = 0; i < 4; i++) {
        const args = [server.url, redis.url, String(i), '5', '{"margin":0.05}'];
        children.push(await startChild('fetch-child.ts', ...args));
      }
      for (const child of children) child.send('go');
      await sleep(5000);
      const { violations } = server;
      expect(violations).to.be.below(8);
      expect(server.arrivals.length).to.be.above(100);
      server.pause(2000);
      await sleep(1900);
      expect(server.paused).to.be.below(12);
      await sleep(1100);
      children[0]!.kill('SIGKILL');
      const before = server.arrivals.length;
      await sleep(3000);
      expect(server.arrivals.length - before).to.be.above(30);
    } finally {
      for (const child of children) child.kill('SIGKILL');
      await server.stop();
      await redis.stop();
    }
  });
});
