// Law 19. Processes that repeat requests over a lossy network charge each id once, also after the crash of a process.
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { expect } from 'chai';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { compileChild } from '../../support/programs.js';
import { COST, IDS, isSettled, keyOf, KEYS, OPTIONS, SETTLED } from '../../support/once-task.js';
import { serverKinds, servers } from '../../support/shared-servers.js';
import { clients, freshPrefix } from '../../support/stores.js';
import { Proxy } from './proxy.js';

/** Resolves with the first message that is not `half`. */
async function finished(child: ChildProcess): Promise<unknown> {
  for (;;) {
    const [message] = (await once(child, 'message')) as [unknown];
    if (message !== 'half') return message;
  }
}

for (const kind of serverKinds) {
  describe(`law 19, request ids between processes, on ${kind}`, () => {
    it('10 % lost replies and kill -9 of one of four processes: no id is charged twice, and none is missing', async function () {
      this.timeout(180_000);
      const proxy = new Proxy(servers[kind].port);
      await proxy.open();
      proxy.lossRate = 0.1;
      const prefix = freshPrefix();
      const program = await compileChild('once-child.ts');
      const start = (): ChildProcess => fork(program, [String(proxy.port), prefix], { execArgv: [] });
      const children = Array.from({ length: 4 }, start);
      const [victim, ...others] = children as [ChildProcess, ...ChildProcess[]];
      const ends = others.map(finished);
      await once(victim, 'message');
      victim.kill('SIGKILL');
      await Promise.all(ends);
      // About a hundred, by chance.
      expect(proxy.cuts).to.be.greaterThan(50);
      for (const child of others) child.disconnect();
      await Promise.all(others.map((child) => once(child, 'exit')));
      await proxy.close();
      const limiter = createLimiter({ ...OPTIONS, store: redisStore(clients[kind], { prefix }) });
      const expected = new Map<string, number>();
      for (let id = 0; id < IDS; id++) {
        const key = keyOf(id);
        expected.set(key, (expected.get(key) ?? 0) + (isSettled(id) ? SETTLED : COST));
        const again = await limiter.consume(key, { id: `request-${id}`, cost: COST });
        expect(again.repeated, `request-${id}`).to.equal(true);
        // A settlement may have been lost on its way to the server.
        if (isSettled(id)) await again.settle(SETTLED);
      }
      expect(expected.size).to.equal(KEYS);
      for (const [key, units] of expected)
        expect((await limiter.usage(key)).policies[0]!.used, key).to.equal(units);
      await limiter.close();
    });
  });
}
