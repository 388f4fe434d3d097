import type { Command } from 'commander';
import { BAN_TAG, isReset, resetKey, statePattern } from '../../stores/keys.js';
import { printable } from '../format.js';
import { write, writeJson, type Io } from '../io.js';
import {
  addLimitsOptions,
  addNameOption,
  nameOf,
  readLimits,
  type Limits,
  type LimitsOptions,
} from '../limits.js';
import { assemble } from '../../stores/scripts.js';
import { policyNameOf } from '../redis/layouts.js';
import { scan } from '../redis/scan.js';
import { addRedisOptions, withRedis, type RedisOptions, type Session } from '../redis/session.js';

export function register(program: Command, io: Io): void {
  const command = program
    .command('reset')
    .summary('forget what was charged to a key')
    .description(
      'Forgets what was charged to a key in the scope of one limiter; a ban stays. With the policies that is one call; without ' +
        'them the server is searched for the state of this key.',
    )
    .argument('<key>', 'whose quota is full again');
  addLimitsOptions(addNameOption(command)).action(
    async (key: string, options: RedisOptions & LimitsOptions) => {
      const name = nameOf(options);
      const limits = readLimits(options, io).get(name);
      await withRedis(options, io, async (session) => {
        const policies = limits
          ? await resetPolicies(session, name, key, limits)
          : await resetAll(session, name, key);
        await (io.json ? writeJson(io, { name, key, policies }) : write(io, text(name, key, policies)));
      });
    },
  );
  addRedisOptions(command).addHelpText(
    'after',
    '\nExample:\n  headgate reset user:42 --name api --redis redis://127.0.0.1:6379',
  );
}

function text(name: string, key: string, policies: readonly string[]): string {
  const [who, where] = [printable(key), printable(name)];
  if (policies.length === 0) return `Nothing was charged to ${who} in ${where}.\n`;
  return `What was charged to ${who} in ${where} is forgotten: ${policies.map((policy) => printable(policy)).join(', ')}.\n`;
}

/** @returns the names of the policies */
async function resetPolicies(
  session: Session,
  name: string,
  key: string,
  { policies }: Limits,
): Promise<string[]> {
  const limiter = session.limiter(name, policies);
  await limiter.reset(key);
  return limiter.policies.map((policy) => policy.name);
}

/** Of whatever policies there are, or were. @returns their names */
async function resetAll(session: Session, name: string, key: string): Promise<string[]> {
  const reset = new Set<string>();
  for await (const page of scan(session, statePattern(session.prefix, name, key))) {
    const states = page.filter((key) => key.id !== BAN_TAG && !isReset(key));
    for (const state of states) {
      await session.run(assemble('reset', [], false), [state.redisKey, resetKey(state)], ['', '0']);
      reset.add(policyNameOf(state.id));
    }
  }
  return [...reset];
}
