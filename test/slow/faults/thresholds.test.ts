// Law 19. Processes that charge, settle, refund and override the same keys report each threshold once, also if one of them is killed.
// HEADGATE_DECISIONS sets the size: 1000000 takes some minutes.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { expect } from 'chai';
import { createLimiter } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { killChild, startChild } from '../../support/processes.js';
import { serverKinds, servers } from '../../support/shared-servers.js';
import { clients, freshPrefix } from '../../support/stores.js';
import { THRESHOLD_OPTIONS, THRESHOLDS } from '../../support/threshold-task.js';

const DECISIONS = Number(process.env['HEADGATE_DECISIONS'] ?? 30_000);
const KEYS = Math.ceil(DECISIONS / 100);
const PROCESSES = 4;

interface Result {
  readonly reported: readonly string[];
  readonly crossed: readonly string[];
}

/** Resolves with the message at the end of a process. */
async function finished(child: ChildProcess): Promise<Result> {
  for (;;) {
    const [message] = (await once(child, 'message')) as [unknown];
    if (message !== 'half') return message as Result;
  }
}

for (const kind of serverKinds) {
  describe(`law 19, thresholds between processes, on ${kind}`, () => {
    it(`${DECISIONS} decisions, kill -9 of a process: none is reported twice, and the stream misses none`, async function () {
      this.timeout(1_800_000);
      const prefix = freshPrefix();
      const start = (count: number): Promise<ChildProcess> =>
        startChild('threshold-child.ts', ...[servers[kind].port, prefix, Math.ceil(count), KEYS].map(String));
      const share = DECISIONS / PROCESSES;
      const [victim, ...others] = await Promise.all(Array.from({ length: PROCESSES }, () => start(share)));
      const ends = others.map(finished);
      await once(victim!, 'message');
      await killChild(victim!);
      const successor = await start(share / 2);
      const results = await Promise.all([...ends, finished(successor)]);
      for (const child of [...others, successor]) {
        child.disconnect();
        await once(child, 'exit');
      }

      const store = redisStore(clients[kind], { prefix, publish: false });
      const reader = createAdmin(store).thresholds({ group: 'test' });
      const stream: string[] = [];
      for (
        let read = await reader.read({ count: 1000 });
        read.length > 0;
        read = await reader.read({ count: 1000 })
      ) {
        stream.push(...read.map(({ key, threshold, limit }) => `${key as string} ${threshold} ${limit}`));
        await reader.ack(...read);
      }
      const streamed = new Set(stream);
      expect(streamed.size, 'twice in the stream').to.equal(stream.length);
      const reported = results.flatMap((result) => result.reported);
      expect(new Set(reported).size, 'reported twice').to.equal(reported.length);
      expect(reported.filter((each) => !streamed.has(each))).to.deep.equal([]);

      /** The highest limit at which a threshold of a key was reported. */
      const highest = new Map<string, number>();
      for (const each of stream) {
        const [key, threshold, limit] = each.split(' ');
        const id = `${key} ${threshold}`;
        highest.set(id, Math.max(highest.get(id) ?? 0, Number(limit)));
      }
      const limiter = createLimiter({ ...THRESHOLD_OPTIONS, store });
      const missed: string[] = [];
      for (let i = 0; i < KEYS; i++) {
        const key = `key-${i}`;
        const { used, limit } = (await limiter.usage(key)).policies[0]!;
        // An override may end below the used units: only a charge reports.
        if (used < limit)
          for (const threshold of THRESHOLDS)
            if (used >= threshold * Math.max(limit, 240) && !highest.has(`${key} ${threshold}`))
              missed.push(key);
      }
      for (const each of results.flatMap(({ crossed }) => crossed)) {
        const [key, threshold, limit] = each.split(' ');
        if ((highest.get(`${key} ${threshold}`) ?? 0) < Number(limit)) missed.push(each);
      }
      expect(missed).to.deep.equal([]);
      expect(stream.length).to.be.above(KEYS);
      console.log(
        `      ${stream.length} thresholds in the stream, ${reported.length} reported by the processes left`,
      );
      await limiter.close();
    });
  });
}
