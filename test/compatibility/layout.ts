// State as one version wrote it, so that the next ones are tested against it.
import type { Redis } from 'ioredis';
import { createLimiter, type Decision, type Policy } from 'headgate';
import { redisStore } from 'headgate/redis';

/** What a Redis key holds: a string as base64, or a sorted set as members and scores. */
export interface Entry {
  readonly key: string;
  readonly string?: string;
  readonly zset?: readonly string[];
  /** ms since the epoch */
  readonly expires: number;
}

export interface Sample {
  readonly what: string;
  readonly policies: readonly Policy[];
  readonly entries: readonly Entry[];
  /** What a look at the key says so long after the state was written, ms. */
  readonly looks: readonly { readonly after: number; readonly says: Look }[];
}

type Look = Pick<Decision, 'allowed' | 'reason'> & {
  readonly policies: readonly Omit<Decision['policies'][number], 'key'>[];
};

/** When samples are written: far ahead, so that no server expires them. */
export const WRITTEN = Date.UTC(2100, 0, 1);

export const KEY = 'someone';

const BAN = { after: 2, within: '1h', for: '10m', factor: 2, max: '1h' } as const;

/** Decides on samples: by their own time, and with a ban. */
export function limiterOf(
  client: Redis,
  prefix: string,
  policies: readonly Policy[],
  clock: () => number,
  banning = true,
) {
  return createLimiter({
    name: 'compatible',
    store: redisStore(client, { prefix, clock }),
    policies,
    ...(banning && { ban: BAN }),
    onStoreError: 'throw',
    timeout: '1m',
  });
}

export async function look(limiter: ReturnType<typeof limiterOf>): Promise<Look> {
  const { allowed, reason, policies: verdicts } = await limiter.peek(KEY);
  const policies = verdicts.map(({ key: _, ...verdict }) => verdict);
  // As JSON keeps it.
  return JSON.parse(JSON.stringify({ allowed, reason, policies })) as Look;
}
