// A process on a shared SQLite file. The process reports that it is ready. At each message it sends many requests at once, or as many as
// possible until killed.
import { appendFileSync } from 'node:fs';
import { createLimiter } from 'headgate';
import type { SqliteTask } from '../sqlite/processes.test.js';
import { storeOn } from './sqlite.js';

const store = storeOn(process.argv[2]!);

process.on('message', ({ options, requests, log, keys }: SqliteTask) => {
  const limiter = createLimiter({ onStoreError: 'throw', timeout: '1m', ...options, store });
  if (log === undefined) {
    void Promise.all(Array.from({ length: requests }, () => limiter.consume('key'))).then((decisions) => {
      process.send!(decisions.filter(({ allowed }) => allowed).map(({ remaining }) => remaining));
    });
    return;
  }
  const ask = async (): Promise<void> => {
    for (;;) {
      const at = Math.floor(Math.random() * (keys ?? 1));
      const { allowed, remaining } = await limiter.consume(keys ? `key ${at}` : 'key');
      // Every admission is written at once, so that the log outlives the process.
      if (allowed) appendFileSync(log, keys ? `${at} ${remaining}\n` : `${remaining}\n`);
    }
  };
  for (let i = 0; i < requests; i++) void ask();
});
process.on('disconnect', () => process.exit());
process.send!('ready');
