// State as written by a version, to test later versions against.
import type { Redis } from 'ioredis';
import { createLimiter, type Decision, type Policy } from 'headgate';
import { redisStore } from 'headgate/redis';

/** The content of a Redis key: a string as base64, or a sorted set as members and scores. */
export interface Entry {
  readonly key: string;
  readonly string?: string;
  readonly zset?: readonly string[];
  /** ms since 1970 */
  readonly expires: number;
}

export interface Sample {
  readonly what: string;
  readonly policies: readonly Policy[];
  readonly entries: readonly Entry[];
  /** The results of a look at the key, `after` ms after the state was written. */
  readonly looks: readonly { readonly after: number; readonly says: Look }[];
}

type Look = Pick<Decision, 'allowed' | 'reason'> & {
  readonly policies: readonly Omit<Decision['policies'][number], 'key'>[];
};

/** The time of the samples: far ahead, so that no server expires them. */
export const WRITTEN = Date.UTC(2100, 0, 1);

export const KEY = 'someone';

const BAN = { after: 2, within: '1h', for: '10m', factor: 2, max: '1h' } as const;

/** Decides on samples, at the samples' time and with a ban. */
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
  // The form that JSON keeps.
  return JSON.parse(JSON.stringify({ allowed, reason, policies })) as Look;
}
