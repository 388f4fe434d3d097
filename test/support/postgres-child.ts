// A process on a shared table of PostgreSQL. The process reports that it is ready, and carries out the task of each message.
import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';
import { createLimiter, type CreateLimiterOptions } from 'headgate';
import { postgresStore } from 'headgate/postgres';

/** The task of a process. With `log` it sends requests without end, and appends the answer of each admitted request to the log. */
export interface PostgresTask {
  readonly options: CreateLimiterOptions;
  readonly requests: number;
  readonly log?: string;
  /** The number of keys per dimension if requests have several dimensions. */
  readonly keys?: number;
}

const [, , url, table] = process.argv;
const pool = new Pool({ connectionString: url! });
const store = postgresStore(pool, { table: table! });

process.on('message', ({ options, requests, log, keys }: PostgresTask) => {
  const limiter = createLimiter({ onStoreError: 'throw', timeout: '1m', ...options, store });
  const key = () => {
    if (!keys) return 'key';
    const any = (kind: string) => `${kind} ${Math.floor(Math.random() * keys)}`;
    return { key: any('key'), account: any('account'), org: any('org') };
  };
  if (log === undefined) {
    void Promise.all(Array.from({ length: requests }, () => limiter.consume(key()))).then((decisions) => {
      process.send!(decisions.filter(({ allowed }) => allowed).map(({ remaining }) => remaining));
    });
    return;
  }
  const ask = async (): Promise<void> => {
    for (;;) {
      try {
        const { allowed, remaining } = await limiter.consume(key());
        if (allowed) appendFileSync(log, `${remaining}\n`);
      } catch {
        // A process that is stopped while sending the commit cannot know the outcome. A refusal must not keep timers from running.
        await sleep(1);
      }
    }
  };
  for (let i = 0; i < requests; i++) void ask();
});
process.on('disconnect', () => process.exit());
process.send!('ready');
