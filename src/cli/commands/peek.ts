import type { HeadgateError } from '../../common/errors.js';
import { ofLimiter } from '../../limiter/decision.js';
import type { Limiter } from '../../limiter/limiter.js';
import { integer, nameOf, type CliCommand, type Options as Shared } from '../command.js';
import { EXIT, usageError } from '../errors.js';
import { columns, duration, noteText, printable, utc } from '../format.js';
import { warn, write, writeJson, type Io } from '../io.js';
import { keyOf, show, subjectJson, typedKey, type Subject } from '../keys.js';
import { ofDimension, ofTier, readLimits, type Limits } from '../limits.js';
import { withState } from '../open.js';
import type { State } from '../state.js';
import { cannotBan, differing, subjectIn, unknownScope } from '../scope.js';
import { verdictsOf } from '../redis/finds.js';
import { changeText, overrideJson } from './override.js';

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

/** The override that applies to a key: the key's own override, or the override of all keys. */
async function overrideOf(limiter: Limiter, key: Record<string, string>) {
  const own = await limiter.overrideOf(key);
  const found = own ?? (await limiter.overrideOf());
  return found ? { all: !own, ...overrideJson(found) } : null;
}

/** Whether the limiter still has all policies of an override. */
function fits(
  limiter: Limiter,
  key: Record<string, string>,
  { change, all }: ReturnType<typeof overrideJson> & { all: boolean },
): boolean {
  try {
    limiter.internals.operations.checkOverride(all ? undefined : key, change, {});
    return true;
  } catch (error) {
    if ((error as HeadgateError).code === 'HEADGATE_CLOSED') throw error;
    return false;
  }
}

async function peek(given: string, options: Options, io: Io): Promise<void> {
  const name = nameOf(options);
  const typed = typedKey(given, options);
  const written = readLimits(options, io).get(name);
  await withState(options, io, async (state) => {
    const { published } = state;
    warn(io, unknownScope(published, name) ?? differing(published, name));
    const subject = subjectIn(published, name, typed, io);
    const isKnown = published.scopes.has(name);
    const known = written ?? published.limitsOf(name);
    if (!known && isKnown) throw usageError(NOT_TOLD);
    const limits = known && ofTier(known, name, options.tier);
    const outlook = await outlookOf(state, name, subject, limits, options.cost, io);
    if (!outlook.stored && !isKnown) io.exitCode = EXIT.unknownScope;
    else if (outlook.allowed === false) io.exitCode = EXIT.denied;
    await (io.json
      ? writeJson(io, { name, ...subjectJson(subject), ...outlook })
      : write(
          io,
          text(`${io.colors.bold(show(subject))} in ${io.colors.bold(printable(name))}`, outlook, io),
        ));
  });
}

type Outlook = Awaited<ReturnType<typeof outlookOf>>;

/** The known facts about a key in one scope. @param limits the limits, or `undefined` if they are unknown */
async function outlookOf(
  state: State,
  name: string,
  subject: Subject,
  limits: Limits | undefined,
  cost: number,
  io: Io,
) {
  const { dimension } = subject;
  const key = keyOf(subject);
  const whole = { [dimension]: key };
  const own = limits && ofDimension(limits, dimension);
  const limiter =
    own && (own.overrides ? state.liveLimiter(name, own) : state.limiter(name, own.policies, own.shadow));
  const override = own?.overrides && limiter ? await overrideOf(limiter, whole) : null;
  const head = state.bans.head(name, key, dimension);
  const [answer, [bannedForMs = 0], [note]] = await Promise.all([
    limiter?.peek(whole, { cost }),
    state.bans.left([head]),
    state.bans.notes([head]),
  ]);
  if (override && !fits(limiter!, whole, override)) warn(io, { code: 'UNFIT_OVERRIDE', message: UNFIT });
  await limiter?.close();
  const decision = answer && ofLimiter(answer);
  // An override of another kind, such as another window, has its own policies.
  const policies = [...(limiter?.policies ?? []), ...(decision?.set.policies ?? [])];
  const found = await state.stored(name, policies, key, dimension);
  const unseen = bannedForMs > 0 ? cannotBan(state.published, name, dimension) : undefined;
  if (unseen?.code === 'NO_BAN') warn(io, unseen);
  const isBanned = bannedForMs > 0 && unseen?.code !== 'NO_BAN';
  const { allowed = null, reason = null, retryAfterMs = null } = decision ?? {};
  return {
    cost,
    // The verdict is null if the limits are unknown.
    allowed: isBanned ? (limits?.shadow ?? false) : allowed,
    reason: isBanned ? 'banned' : reason,
    retryAfterMs: isBanned ? bannedForMs : retryAfterMs,
    policies: decision ? verdictsOf(decision) : [],
    bannedForMs,
    // The author of a ban by hand, if there is a note.
    bannedBy: (bannedForMs > 0 && note?.by) || null,
    banReason: (bannedForMs > 0 && note?.reason) || null,
    override,
    // Distinguishes a mistyped scope, key or policy from a key that was never charged.
    stored: found.includes(true),
  };
}

const UNFIT =
  'the override does not fit the policies of the limiter any more, so it changes nothing: remove it, or write another one.';

const NOT_TOLD =
  "peek: by which limits? The policies of this limiter depend on the request. Write those that you mean: --policy '100/1m', " +
  'or --policies limits.json.';

function banText({ bannedForMs, bannedBy: by, banReason: reason }: Outlook): string {
  const who = by === null ? '' : ` by ${printable(by)}`;
  return `banned for ${duration(bannedForMs)}${who}${reason === null ? '' : `: ${printable(reason)}`}`;
}

function overrideText({ all, change, until, by, reason }: NonNullable<Outlook['override']>): string {
  const [whose, ends] = [
    all ? 'All keys have other limits' : 'It has limits of its own',
    until === null ? 'until they are removed' : `until ${utc(until)} (UTC)`,
  ];
  const note = noteText(by, reason);
  return `${whose} ${ends}: ${changeText(change)}${note === '' ? '' : ` (${note})`}`;
}

function text(whose: string, outlook: Outlook, io: Io): string {
  const { cost, allowed, reason, bannedForMs, stored, policies } = outlook;
  const { green, red, yellow } = io.colors;
  const unknown = yellow(stored ? 'unknown limits' : 'nothing stored');
  const answer = allowed === null ? unknown : allowed ? green('allowed') : red(`denied (${reason})`);
  const lines = [`${whose}, a request of cost ${cost}: ${answer}`];
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
