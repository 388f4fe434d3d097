import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { OVERRIDE_TAG } from '../../contract/overrides.js';
import { ofLimiter } from '../../limiter/decision.js';
import { BAN_TAG, isReset, resetKey, statePattern } from '../../stores/keys.js';
import { assemble } from '../../stores/redis/scripts.js';
import { nameOf, type CliCommand, type Options as Shared } from '../command.js';
import { usageError } from '../errors.js';
import { duration, printable, quoted } from '../format.js';
import { warn, write, writeJson, type Io } from '../io.js';
import { headsOf, show, subjectJson, typedKey, type Subject } from '../keys.js';
import { ofDimension, ofTier, policiesBy, readLimits, type Limits } from '../limits.js';
import { readOverrideOfAll } from '../limiters.js';
import { withState } from '../open.js';
import { policyNameOf } from '../redis/finds.js';
import { scan, type FoundKey } from '../redis/scan.js';
import { subjectIn, unknownScope } from '../scope.js';
import type { State } from '../state.js';

interface Options extends Shared {
  readonly scan?: boolean;
}

/** The number of keys that are reset at a time. */
const BATCH_SIZE = 500;

export function register(program: CliCommand, io: Io): void {
  program
    .command('reset')
    .summary('forget what was charged to a key')
    .description(
      'Forgets what was charged to a key in the scope of one limiter. A ban stays. The policies are those that the limiter has ' +
        'published. If there are none, the server is searched for the state of this key.',
    )
    .argument('<key>', 'whose quota is full again: an address, a network, or any other key')
    .option('--scan', 'also search the server for the state of policies that the limiter no longer has')
    .nameOption()
    .keyOptions()
    .limitsOptions()
    .serverOptions()
    .example('reset user:42 --name api --redis redis://127.0.0.1:6379')
    .action((given: string, options: Options) => reset(given, options, io));
}

async function reset(given: string, options: Options, io: Io): Promise<void> {
  const name = nameOf(options);
  const typed = typedKey(given, options);
  const limits = readLimits(options, io).get(name);
  await withState(options, io, async (state) => {
    const { published, bans } = state;
    warn(io, unknownScope(published, name));
    const subject = subjectIn(published, name, typed, io);
    const isKnown = !options.scan && published.scopes.get(name)?.length === 1;
    const found = limits ?? (isKnown ? published.limitsOf(name) : undefined);
    const policies = found
      ? await resetTiers(state, name, subject, found, options.tier)
      : await resetAll(state, name, subject);
    const left = await bans.left(headsOf(bans, name, subject));
    const longest = Math.max(...left);
    await (io.json
      ? writeJson(io, { name, ...subjectJson(subject), policies, bannedForMs: longest })
      : write(io, `${text(name, subject, policies)}${banText(name, left, longest, subject)}\n`));
  });
}

function text(name: string, subject: Subject, policies: readonly string[]): string {
  const [who, where] = [show(subject), printable(name)];
  if (policies.length === 0) return `Nothing was charged to ${who} in ${where}.`;
  return `What was charged to ${who} in ${where} is forgotten: ${policies.map((policy) => printable(policy)).join(', ')}.`;
}

/** Explains that a reset does not end bans, because some users expect that. */
function banText(
  name: string,
  left: readonly number[],
  longest: number,
  { keys, given, dimension }: Subject,
): string {
  if (longest === 0) return '';
  const banned = left.filter((ms) => ms > 0).length;
  const option = dimension === DEFAULT_DIMENSION ? '' : ` --dimension ${dimension}`;
  const who = keys.length === 1 ? 'It is still banned, for' : `${banned} of them are still banned, for up to`;
  return ` ${who} ${duration(longest)}: headgate unban ${quoted(printable(given))}${option} --name ${quoted(printable(name))} ends that.`;
}

/** Resets one tier, or all tiers and the policies for requests without a tier. @returns as `resetPolicies` */
async function resetTiers(
  state: State,
  name: string,
  subject: Subject,
  limits: Limits,
  tier: string | undefined,
): Promise<string[]> {
  const { policies, tiers } = tier === undefined ? limits : ofTier(limits, name, tier);
  const sets = tier === undefined ? [policies, ...tiers.values()] : [policies];
  const own = policiesBy(subject.dimension, sets.flat());
  const names = new Set<string>();
  for (const set of sets.map((each) => each.filter((policy) => own.includes(policy)))) {
    if (set.length === 0) continue;
    const charged = await resetPolicies(state, name, subject, { ...limits, policies: set });
    for (const policy of charged) names.add(policy);
  }
  return [...names];
}

/** @returns the names of the policies that had charges */
async function resetPolicies(
  state: State,
  name: string,
  { keys, dimension }: Subject,
  limits: Limits,
): Promise<string[]> {
  const { redis, published } = state;
  // A file does not show whether its limiters support overrides.
  const isLive = !redis || (published.scopes.get(name) ?? []).some(({ overrides }) => overrides);
  const limiter = isLive
    ? state.liveLimiter(name, ofDimension(limits, dimension))
    : state.limiter(name, limits.policies);
  const charged = new Set<string>();
  const resetOne = async (key: string): Promise<void> => {
    const whole = { [dimension]: key };
    // An override of another kind, such as another window, has its own policies.
    const inForce = isLive ? ofLimiter(await limiter.peek(whole)).set.policies : [];
    const policies = [...limiter.policies, ...inForce];
    const [, ...found] = await state.stored(name, policies, key, dimension);
    await limiter.reset(whole);
    policies.forEach((policy, i) => found[i] && charged.add(policy.name));
  };
  try {
    if (isLive) await readOverrideOfAll(limiter);
    for (let at = 0; at < keys.length; at += BATCH_SIZE) {
      await Promise.all(keys.slice(at, at + BATCH_SIZE).map(resetOne));
    }
  } finally {
    await limiter.close();
  }
  return [...charged];
}

/** Resets all policies with state, including policies that the limiter no longer has. @returns their names */
async function resetAll({ redis: session, bans }: State, name: string, subject: Subject): Promise<string[]> {
  if (!session)
    throw usageError(
      "reset: of which policies? A file does not say. Write --policy '100/1m', or --policies limits.json.",
    );
  const { keys, dimension } = subject;
  const reset = new Set<string>();
  const heads = new Set(headsOf(bans, name, subject));
  const isSole = keys.length === 1 && dimension === DEFAULT_DIMENSION;
  const pattern = statePattern(session.prefix, name, isSole ? session.hashing.text(keys[0]!) : undefined);
  for await (const page of scan(session, pattern)) {
    const isState = ({ id }: FoundKey): boolean => id !== BAN_TAG && id !== OVERRIDE_TAG;
    const states = page.filter((key) => isState(key) && !isReset(key) && heads.has(key.head));
    for (const state of states) {
      await session.run(assemble('reset', [], false), [state.redisKey, resetKey(state)], ['', '0']);
      reset.add(policyNameOf(state.id));
    }
  }
  return [...reset];
}
