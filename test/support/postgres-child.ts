// A process that shares a table of PostgreSQL. It reports that it is ready, and carries out the task of each message.
import { appendFileSync } from 'node:fs';
import { Pool } from 'pg';
import { createLimiter, type CreateLimiterOptions } from 'headgate';
import { postgresStore } from 'headgate/postgres';

/** The task of a process. With `log` it sends requests without end, and appends the answer of each admitted request to the log. */
export interface PostgresTask {
  readonly options: CreateLimiterOptions;
  readonly requests: number;
  readonly log?: string;
  /** With several dimensions, each request has one of this many keys in each of them. */
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
      const { allowed, remaining } = await limiter.consume(key());
      if (allowed) appendFileSync(log, `${remaining}\n`);
    }
  };
  for (let i = 0; i < requests; i++) void ask();
});
process.on('disconnect', () => process.exit());
process.send!('ready');
