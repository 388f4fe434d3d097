import type { Command } from 'commander';
import { compileBan } from '../../ban.js';
import type { Decision } from '../../decision.js';
import type { Limiter } from '../../limiter.js';
import { KeyMaker } from '../../stores/keys.js';
import { EXIT, usageError } from '../errors.js';
import { columns, duration, printable } from '../format.js';
import { write, writeJson, type Io } from '../io.js';
import { addKeyOptions, keyOf, show, type KeyOptions } from '../keys.js';
import { addLimitsOptions, addNameOption, nameOf, readLimits, type LimitsOptions } from '../limits.js';
import { Bans } from '../redis/bans.js';
import { addRedisOptions, withRedis, type RedisOptions, type Session } from '../redis/session.js';
import { verdictsOf, type PolicyVerdict } from '../verdicts.js';

interface Options extends RedisOptions, LimitsOptions, KeyOptions {
  readonly cost: string;
}

export function register(program: Command, io: Io): void {
  const command = program
    .command('peek')
    .summary('what a request of a key would be answered now')
    .description(
      'Tells what a request of a key would be answered now, without charging it. Exits with 3 if it would be denied.',
    )
    .argument('<key>', 'who is limited: an address, or any other key');
  addLimitsOptions(addKeyOptions(addNameOption(command)))
    .option('--cost <units>', 'what the request would cost', '1')
    .addHelpText(
      'after',
      "\nExample:\n  headgate peek user:42 --name api --policy '100/1m' --redis redis://127.0.0.1:6379",
    )
    .action(async (given: string, options: Options) => peek(given, options, io));
  addRedisOptions(command);
}

/** What PTTL answers where there is no key. */
const NO_KEY = -2;

/** What is known of a key in one scope. */
interface Outlook {
  readonly name: string;
  readonly key: string;
  /** The key as it was typed. */
  readonly given: string;
  readonly cost: number;
  readonly allowed: boolean;
  readonly reason: string | null;
  readonly retryAfterMs: number | null;
  readonly bannedForMs: number;
  /** Whether the server holds anything of this key that its policies or the ban read. */
  readonly stored: boolean;
  readonly policies: readonly PolicyVerdict[];
}

async function peek(given: string, options: Options, io: Io): Promise<void> {
  const name = nameOf(options);
  const key = keyOf(given, options);
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
    const bans = new Bans(session);
    const [decision, [bannedForMs = 0], stored] = await Promise.all([
      limiter.peek(key, { cost }),
      bans.left([bans.head(name, key)]),
      isStored(session, limiter, key),
    ]);
    const outlook = outlookOf(name, given, decision, { bannedForMs, stored }, limits.shadow);
    if (!outlook.allowed) io.exitCode = EXIT.denied;
    await (io.json ? writeJson(io, outlook) : write(io, text(outlook, io)));
  });
}

function costOf(text: string): number {
  if (!/^\d{1,13}$/.test(text)) throw usageError('--cost: write a whole number from 0 to 1000000000000.');
  return Number(text);
}

/** Whether anything of the key is kept: a mistyped scope, key or policy looks like one that was never charged. */
async function isStored(session: Session, { set }: Limiter, key: string): Promise<boolean> {
  const keys: string[] = [];
  new KeyMaker(session.prefix, { ...set, ban: compileBan({}) }).push(keys, key);
  const ttls = await session.ask(Promise.all(keys.map((each) => session.connection.pttl(each))));
  return ttls.some((ttl) => ttl !== NO_KEY);
}

function outlookOf(
  name: string,
  given: string,
  decision: Decision,
  { bannedForMs, stored }: Pick<Outlook, 'bannedForMs' | 'stored'>,
  shadow: boolean,
): Outlook {
  const { allowed, reason, retryAfterMs }: Partial<Decision> =
    bannedForMs > 0 ? { allowed: false, reason: 'banned', retryAfterMs: bannedForMs } : decision;
  return {
    name,
    key: decision.key,
    given,
    cost: decision.cost,
    allowed: allowed || shadow,
    reason: reason ?? null,
    retryAfterMs: retryAfterMs ?? null,
    bannedForMs,
    stored,
    policies: verdictsOf(decision),
  };
}

function text(outlook: Outlook, io: Io): string {
  const { name, key, given, cost, allowed, reason, bannedForMs, stored, policies } = outlook;
  const { bold, green, red } = io.colors;
  const answer = allowed ? green('allowed') : red(`denied (${reason})`);
  const lines = [
    `${bold(show({ given, keys: [key] }))} in ${bold(printable(name))}, a request of cost ${cost}: ${answer}`,
  ];
  if (bannedForMs > 0) lines.push(`banned for ${duration(bannedForMs)}`);
  if (!stored) {
    lines.push(
      'Nothing is stored: it was not charged lately, or --name, the key or the policies are not those of the limiter.',
    );
  }
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
