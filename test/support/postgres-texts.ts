// The texts that a store sends through a pool of `pg`.
import type { Pool, PoolClient } from 'pg';

/** A text, and the process of the server that the client believes to speak to. */
export interface SentText {
  readonly text: string;
  readonly client: PoolClient;
}

/** Notes each text of a pool's clients, as wrappers of `query` for traces do. */
export function noteTexts(pool: Pool): SentText[] {
  const sent: SentText[] = [];
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown;
    client.query = ((...args: unknown[]) => {
      const [given] = args as [string | { text: string }];
      sent.push({ text: typeof given === 'string' ? given : given.text, client });
      return query(...args);
    }) as typeof client.query;
  });
  return sent;
}
