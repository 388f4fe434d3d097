import type { Command } from 'commander';
import type { Decision } from '../../decision.js';
import { EXIT, usageError } from '../errors.js';
import { columns, duration, printable } from '../format.js';
import { write, writeJson, type Io } from '../io.js';
import { addLimitsOptions, addNameOption, nameOf, readLimits, type LimitsOptions } from '../limits.js';
import { addRedisOptions, withRedis, type RedisOptions } from '../redis/session.js';
import { verdictsOf, type PolicyVerdict } from '../verdicts.js';

interface Options extends RedisOptions, LimitsOptions {
  readonly cost: string;
}

export function register(program: Command, io: Io): void {
  const command = program
    .command('peek')
    .summary('what a request of a key would be answered now')
    .description(
      'Tells what a request of a key would be answered now, without charging it. Exits with 3 if it would be denied.',
    )
    .argument('<key>', 'who is limited');
  addLimitsOptions(addNameOption(command))
    .option('--cost <units>', 'what the request would cost', '1')
    .addHelpText(
      'after',
      "\nExample:\n  headgate peek user:42 --name api --policy '100/1m' --redis redis://127.0.0.1:6379",
    )
    .action(async (key: string, options: Options) => peek(key, options, io));
  addRedisOptions(command);
}

/** What is known of a key in one scope. */
interface Outlook {
  readonly name: string;
  readonly key: string;
  readonly cost: number;
  readonly allowed: boolean;
  readonly reason: string | null;
  readonly retryAfterMs: number | null;
  readonly bannedForMs: number;
  readonly policies: readonly PolicyVerdict[];
}

async function peek(key: string, options: Options, io: Io): Promise<void> {
  const name = nameOf(options);
  const limits = readLimits(options, io).get(name);
  if (!limits) {
    throw usageError(
      "peek: by which limits? Redis holds what was spent, not the limits. Write them as in the limiter: --policy '100/1m', " +
        'or --policies limits.json.',
    );
  }
  const cost = costOf(options.cost);
  await withRedis(options, io, async (session) => {
    const limiter = session.limiter(name, limits.policies, limits.shadow);
    const [decision, ban] = await Promise.all([limiter.peek(key, { cost }), session.banning(name).peek(key)]);
    const outlook = outlookOf(name, decision, ban, limits.shadow);
    if (!outlook.allowed) io.exitCode = EXIT.denied;
    await (io.json ? writeJson(io, outlook) : write(io, text(outlook, io)));
  });
}

function costOf(text: string): number {
  if (!/^\d{1,13}$/.test(text)) throw usageError('--cost: write a whole number from 0 to 1000000000000.');
  return Number(text);
}

function outlookOf(name: string, decision: Decision, ban: Decision, shadow: boolean): Outlook {
  const banned = ban.reason === 'banned';
  const { allowed, reason, retryAfterMs } = banned ? ban : decision;
  return {
    name,
    key: decision.key,
    cost: decision.cost,
    allowed: allowed || shadow,
    reason: reason ?? null,
    retryAfterMs: retryAfterMs ?? null,
    bannedForMs: banned ? (ban.retryAfterMs ?? 0) : 0,
    policies: verdictsOf(decision),
  };
}

function text(outlook: Outlook, io: Io): string {
  const { name, key, cost, allowed, reason, bannedForMs, policies } = outlook;
  const { bold, green, red } = io.colors;
  const answer = allowed ? green('allowed') : red(`denied (${reason})`);
  const lines = [`${bold(printable(key))} in ${bold(printable(name))}, a request of cost ${cost}: ${answer}`];
  if (bannedForMs > 0) lines.push(`banned for ${duration(bannedForMs)}`);
  const head = ['policy', 'algorithm', 'limit', 'remaining', 'retry after', 'reset after'];
  const rows = policies.map((verdict) => [
    verdict.shadow ? `${verdict.name} (shadow)` : verdict.name,
    verdict.algorithm,
    `${verdict.limit} per ${duration(verdict.windowMs)}`,
    String(verdict.remaining),
    verdict.allowed ? '-' : verdict.retryAfterMs === null ? 'never' : duration(verdict.retryAfterMs),
    verdict.resetAfterMs === 0 ? '-' : duration(verdict.resetAfterMs),
  ]);
  return `${lines.join('\n')}\n\n${columns(io, head, rows)}`;
}
