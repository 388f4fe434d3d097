import type { HeadgateError } from '../../common/errors.js';
import { ofLimiter, type LimiterDecision } from '../../limiter/decision.js';
import type { Limiter } from '../../limiter/limiter.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { integer, nameOf, type CliCommand, type Options as Shared } from '../command.js';
import { EXIT, usageError } from '../errors.js';
import { columns, duration, printable, utc } from '../format.js';
import { warn, write, writeJson, type Io } from '../io.js';
import { dimensionJson, keyOf, show, typedKey } from '../keys.js';
import { ofDimension, ofTier, readLimits, type Limits } from '../limits.js';
import { withState } from '../open.js';
import type { State } from '../state.js';
import { differing, subjectIn, unknownScope } from '../scope.js';
import { verdictsOf, type PolicyVerdict } from '../verdicts.js';
import { changeText, overrideJson, type OverrideJson } from './override.js';

interface Options extends Shared {
  readonly cost: number;
}

export function register(program: CliCommand, io: Io): void {
  program
    .command('peek')
    .summary('how a request of a key would be answered now')
    .description(
      'Shows how a request of a key would be answered now, without charging it. Exits with 3 if it would be denied.',
    )
    .argument('<key>', 'who is limited: an address, or any other key')
    .nameOption()
    .keyOptions()
    .limitsOptions()
    .option('--cost <units>', 'what the request would cost', integer('--cost', 0, 1e12), 1)
    .serverOptions()
    .example("peek user:42 --name api --policy '100/1m' --redis redis://127.0.0.1:6379")
    .action((given: string, options: Options) => peek(given, options, io));
}

/** What is known about a key in one scope. */
interface Outlook {
  readonly name: string;
  readonly key: string;
  /** Absent for the default dimension. */
  readonly dimension?: string;
  /** The key as it was typed. */
  readonly given: string;
  readonly cost: number;
  /** `null`: the limits are unknown. */
  readonly allowed: boolean | null;
  readonly reason: string | null;
  readonly retryAfterMs: number | null;
  readonly bannedForMs: number;
  /** Who made a ban by hand, if it was noted. */
  readonly bannedBy: string | null;
  readonly banReason: string | null;
  /** The limits that it has for a time instead of the configured ones. */
  readonly override: Exception | null;
  /** Whether the server has any state of this key that its policies or the ban read. */
  readonly stored: boolean;
  readonly policies: readonly PolicyVerdict[];
}

/** The override of a key, or of all keys. */
interface Exception extends OverrideJson {
  readonly all: boolean;
}

const UNFIT =
  'the override does not fit the policies of the limiter any more, so it changes nothing: remove it, or write another one.';

function limiterOf(state: State, name: string, limits: Limits): Limiter {
  return limits.overrides
    ? state.liveLimiter(name, limits)
    : state.limiter(name, limits.policies, limits.shadow);
}

/** The override that applies to a key: its own, or that of all keys. */
async function overrideOf(limiter: Limiter, key: Record<string, string>): Promise<Exception | null> {
  const own = await limiter.overrideOf(key);
  const found = own ?? (await limiter.overrideOf());
  return found ? { all: !own, ...overrideJson(found) } : null;
}

/** Whether an override still names policies that the limiter has. */
function fits(limiter: Limiter, { change }: Exception): boolean {
  try {
    limiter.checkOverride(undefined, change, {});
    return true;
  } catch (error) {
    if ((error as HeadgateError).code === 'HEADGATE_CLOSED') throw error;
    return false;
  }
}

async function peek(given: string, options: Options, io: Io): Promise<void> {
  const name = nameOf(options);
  const typed = typedKey(given, options);
  const { dimension } = typed;
  const written = readLimits(options, io).get(name);
  const { cost } = options;
  await withState(options, io, async (state) => {
    const { published, bans } = state;
    warn(io, unknownScope(published, name) ?? differing(published, name));
    const key = keyOf(subjectIn(published, name, typed, io));
    const isKnown = published.scopes.has(name);
    const known = written ?? published.limitsOf(name);
    if (!known && isKnown) throw usageError(NOT_TOLD);
    const limits = known && ofTier(known, name, options.tier);
    const limiter = limits && limiterOf(state, name, ofDimension(limits, dimension));
    const head = bans.head(name, key, dimension);
    const override = limits?.overrides && limiter ? await overrideOf(limiter, { [dimension]: key }) : null;
    const [decision, [bannedForMs = 0], [note], found] = await Promise.all([
      limiter?.peek({ [dimension]: key }, { cost }),
      bans.left([head]),
      bans.notes([head]),
      state.stored(name, limiter?.policies ?? [], key, dimension),
    ]);
    // A mistyped scope, key or policy would otherwise look like one that was never charged.
    const stored = found.includes(true);
    const told = bannedForMs > 0 ? note : null;
    const ban = { bannedForMs, bannedBy: told?.by ?? null, banReason: told?.reason ?? null };
    const outlook: Outlook = {
      name,
      key,
      ...dimensionJson(dimension),
      given,
      cost,
      ...answerOf(decision && ofLimiter(decision), bannedForMs, limits),
      ...ban,
      override,
      stored,
    };
    if (override && !fits(limiter!, override)) warn(io, { code: 'UNFIT_OVERRIDE', message: UNFIT });
    await limiter?.close();
    if (!stored && !isKnown) io.exitCode = EXIT.unknownScope;
    else if (outlook.allowed === false) io.exitCode = EXIT.denied;
    await (io.json ? writeJson(io, outlook) : write(io, text(outlook, io)));
  });
}

const NOT_TOLD =
  "peek: by which limits? The policies of this limiter depend on the request. Write those that you mean: --policy '100/1m', " +
  'or --policies limits.json.';

type Answer = Pick<Outlook, 'allowed' | 'reason' | 'retryAfterMs' | 'policies'>;

/** @param decision absent: the limits are unknown */
function answerOf(
  decision: LimiterDecision | undefined,
  bannedForMs: number,
  limits: Limits | undefined,
): Answer {
  const policies = decision ? verdictsOf(decision) : [];
  if (bannedForMs > 0)
    return { allowed: limits?.shadow ?? false, reason: 'banned', retryAfterMs: bannedForMs, policies };
  if (!decision) return { allowed: null, reason: null, retryAfterMs: null, policies };
  const { allowed, reason = null, retryAfterMs = null } = decision;
  return { allowed, reason, retryAfterMs, policies };
}

function banText({ bannedForMs, bannedBy: by, banReason: reason }: Outlook): string {
  const who = by === null ? '' : ` by ${printable(by)}`;
  return `banned for ${duration(bannedForMs)}${who}${reason === null ? '' : `: ${printable(reason)}`}`;
}

function overrideText({ all, change, until, by, reason }: Exception): string {
  const [whose, ends] = [
    all ? 'All keys have other limits' : 'It has limits of its own',
    until === null ? 'until they are removed' : `until ${utc(until)} (UTC)`,
  ];
  const note = [by, reason].flatMap((each) => (each === null ? [] : [printable(each)])).join(': ');
  return `${whose} ${ends}: ${changeText(change)}${note === '' ? '' : ` (${note})`}`;
}

function text(outlook: Outlook, io: Io): string {
  const { name, key, dimension = DEFAULT_DIMENSION, given } = outlook;
  const { cost, allowed, reason, bannedForMs, stored, policies } = outlook;
  const { bold, green, red, yellow } = io.colors;
  const unknown = yellow(stored ? 'unknown limits' : 'nothing stored');
  const answer = allowed === null ? unknown : allowed ? green('allowed') : red(`denied (${reason})`);
  const lines = [
    `${bold(show({ given, keys: [key], dimension }))} in ${bold(printable(name))}, a request of cost ${cost}: ${answer}`,
  ];
  if (bannedForMs > 0) lines.push(banText(outlook));
  if (outlook.override) lines.push(overrideText(outlook.override));
  if (!stored) {
    lines.push(
      'Nothing is stored: the key was not charged recently, or --name, the key or the policies are not those of the limiter.',
    );
  }
  if (allowed === null)
    lines.push("The limits are unknown: write --policy '100/1m', or --policies limits.json.");
  if (policies.length === 0) return `${lines.join('\n')}\n`;
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
