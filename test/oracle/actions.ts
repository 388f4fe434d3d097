// The steps of a trace as calls of the real limiter, as predictions of the model, and as text.
import type { Decision, Limiter } from 'headgate';
import type { FeatureName } from '../../src/contract/together.js';
import { ofLimiter } from '../../src/limiter/decision.js';
import type { DrawnLimiter, Place, Step } from './draw.js';
import type { Handle } from './model/handle.js';
import type { LimiterModel } from './model/limiter.js';
import type { Change } from './model/overrides.js';
import type { Event } from './model/thresholds.js';
import type { Cost, Decision as Expected, Keys, LimiterDef } from './model/types.js';
import { callText } from './program.js';
import { waitingAction, type Waiting } from './waits.js';

/** A limiter of the site: the real one, and the model. */
export interface Both {
  readonly drawn: DrawnLimiter;
  readonly name: string;
  /** Another one after a restart of the process. */
  real: Limiter;
  readonly model: LimiterModel;
  /** The features that the trace has used. */
  readonly used: Set<FeatureName>;
  readonly events: Event[];
  readonly decisions: { real: Decision; handle: Handle; name: string; isReleased?: boolean }[];
}

export interface Action {
  readonly text: string;
  /** The call of a decision, as text, for a batch. */
  readonly call?: string;
  /** The features that the step uses. */
  readonly uses: readonly FeatureName[];
  /** The look that a denial is probed with. */
  readonly peek?: () => Promise<Decision>;
  /** The request, if it may wait in line. */
  readonly waiting?: Waiting;
  real(): unknown;
  model(real: unknown): unknown;
}

export function actionOf(both: Both, step: Step, now: number, variable: string): Action | undefined {
  const { real, model, drawn, name, decisions } = both;
  const { def } = model;
  const dimensions = [...new Set(def.policies.flatMap(({ by, share }) => (share ? [by, share] : [by])))];
  const ownDimensions = dimensions.filter((by) => def.policies.some((policy) => policy.by === by));
  const keys = Object.fromEntries(
    dimensions.flatMap((by) => (step.keys[by] === undefined ? [] : [[by, step.keys[by]]])),
  ) as Keys;
  if (Object.keys(keys).length === 0) return undefined;
  const tierNames = [undefined, ...Object.keys(def.tiers)];
  const tier = tierNames[step.tier % tierNames.length];
  const ofTier = tier === undefined ? {} : { tier };
  const cost: Cost = step.costs
    ? Object.fromEntries(def.policies.map((policy, i) => [policy.name, step.costs![i]!]))
    : step.cost;
  const call = (method: string, ...args: unknown[]) => callText(`${name}.${method}`, args);
  const by = ownDimensions[step.pick % ownDimensions.length]!;
  const place: Place =
    step.isAll && step.pick % 3 === 0 ? undefined : keys[by] === undefined ? undefined : [by, keys[by]];
  const placeKeys = place ? { [place[0]]: place[1] } : undefined;
  switch (step.kind) {
    case 'consume':
    case 'peek': {
      const isPeek = step.kind === 'peek';
      const hasShare = def.policies.some(({ share }) => share);
      const id = !isPeek && drawn.hasIds ? step.id : undefined;
      const options = {
        ...ofTier,
        ...(cost === 1 ? {} : { cost }),
        ...(hasShare && step.weight ? { weight: step.weight } : {}),
        ...(id === undefined ? {} : { id }),
      };
      const args = Object.keys(options).length > 0 ? [keys, options] : [keys];
      return {
        uses: [
          ...(isPeek ? (['peek'] as const) : []),
          ...(tier === undefined ? [] : (['tiers'] as const)),
          ...(step.costs ? (['costs by policy'] as const) : []),
          ...('weight' in options || def.policies.some(({ weight }) => weight) ? (['weights'] as const) : []),
          ...(id === undefined ? [] : (['request ids'] as const)),
        ],
        call: call(isPeek ? 'peek' : 'consume', ...args),
        text: isPeek
          ? `show(await ${call('peek', ...args)});`
          : `const ${variable} = show(await ${call('consume', ...args)});`,
        ...(isPeek ? {} : { peek: () => real.peek(keys, withoutId(options)) }),
        real: () => (isPeek ? real.peek(keys, options) : real.consume(keys, options)),
        model: (witness) => {
          const { decision, handle } = model.decide(
            { keys, cost, isPeek, real: witness as Expected, ...options },
            now,
          );
          if (!isPeek) decisions.push({ real: witness as Decision, handle, name: variable });
          return decision;
        },
      };
    }
    case 'wait':
    case 'wrapped':
    case 'schedule': {
      // `rateLimited` takes no weight.
      const isWeighted =
        step.kind !== 'wrapped' && step.weight !== undefined && def.policies.some(({ share }) => share);
      const options = {
        ...ofTier,
        ...(cost === 1 ? {} : { cost }),
        ...(isWeighted ? { weight: step.weight } : {}),
      };
      const waiting: Waiting = { kind: step.kind, keys, options, variable };
      const action = waitingAction(both, waiting, now);
      return action && step.kind === 'wait' ? { ...action, waiting } : action;
    }
    case 'settle':
    case 'refund':
    case 'cancel':
    case 'release':
    case 'renew':
    case 'hold': {
      const made = decisions[decisions.length - 1 - (step.pick % Math.max(1, Math.min(decisions.length, 8)))];
      if (!made) return undefined;
      const { handle } = made;
      if (drawn.refunds && (step.kind === 'settle' || step.kind === 'refund' || step.kind === 'cancel'))
        return undefined;
      const units = step.kind === 'settle' ? cost : 0;
      const isSlot = step.kind === 'release' || step.kind === 'renew' || step.kind === 'hold';
      if (isSlot && !handle.parts.some(({ policy }) => policy.algorithm === 'concurrency')) return undefined;
      return {
        uses: isSlot ? [] : [step.kind],
        text:
          step.kind === 'settle'
            ? `await ${callText(`${made.name}.settle`, [cost])};`
            : isSlot
              ? `console.log(await ${made.name}.${step.kind}());`
              : `await ${made.name}.${step.kind}();`,
        real: () => {
          if (step.kind === 'settle') return made.real.settle(cost);
          return step.kind === 'hold' ? ofLimiter(made.real).hold() : made.real[step.kind as 'refund']();
        },
        model: () => {
          if (step.kind === 'renew') return handle.renew(now);
          if (step.kind === 'hold') return made.isReleased !== true && handle.hold(now);
          if (step.kind === 'release' || step.kind === 'cancel') made.isReleased = true;
          const caller = { who: made, isRepetition: made.real.repeated, reported: both.events };
          if (step.kind !== 'release') model.settle(handle, caller, units, now);
          if (step.kind === 'release') return handle.release(now);
          if (step.kind === 'cancel') handle.release(now);
          return undefined;
        },
      };
    }
    case 'giveBack':
      if (!drawn.refunds || def.policies.some(({ share }) => share)) return undefined;
      return {
        uses: ['refund'],
        text: `await ${call('refund', keys, cost, ofTier)};`,
        real: () => real.refund(keys, cost, ofTier),
        model: () => model.refund(keys, cost, tier, now),
      };
    case 'reset':
      return {
        uses: ['reset'],
        text: `await ${call('reset', keys, ofTier)};`,
        real: () => real.reset(keys, ofTier),
        model: () => model.reset(keys, tier, now),
      };
    case 'ban':
    case 'unban': {
      if (!def.ban || keys[def.ban.by] === undefined) return undefined;
      const whose = { [def.ban.by]: keys[def.ban.by]! };
      const ms = Math.max(1, step.ms);
      return step.kind === 'ban'
        ? {
            uses: ['bans by hand'],
            text: `await ${call('ban', whose, ms)};`,
            real: () => real.ban(whose, ms),
            model: () => model.ban(whose, ms, now),
          }
        : {
            uses: ['bans by hand'],
            text: `await ${call('unban', whose)};`,
            real: () => real.unban(whose),
            model: () => model.unban(whose, now),
          };
    }
    case 'override': {
      if (!drawn.overrides || (!place && !step.isAll)) return undefined;
      const change = changeOf(def, step, by, place !== undefined);
      if (!change) return undefined;
      const length = step.pick % 2 ? Math.max(1, step.ms) : undefined;
      const note = length === undefined ? {} : { for: length };
      return {
        uses: [
          !place ? 'overrides of all keys' : by === 'key' ? 'overrides of a key' : 'overrides of a dimension',
          ...(change.tier === undefined ? [] : (['overrides by tier'] as const)),
          ...(Object.values(change.policies).some((each) => each === false || each.window)
            ? (['overrides of a window'] as const)
            : []),
        ],
        text: `await ${place ? call('override', placeKeys, change.given, note) : call('overrideAll', change.given, note)};`,
        real: () =>
          place
            ? real.override(placeKeys!, change.given as never, note)
            : real.overrideAll(change.given as never, note),
        model: () => void model.override(place, change, length, now),
      };
    }
    case 'remove':
      if (!drawn.overrides) return undefined;
      return {
        uses: [],
        text: `console.log(await ${place ? call('removeOverride', placeKeys) : call('removeOverride')});`,
        real: () => (place ? real.removeOverride(placeKeys) : real.removeOverride()),
        model: () => model.override(place, undefined, undefined, now),
      };
    case 'overrideOf':
      if (!drawn.overrides) return undefined;
      return {
        uses: [],
        text: `console.log(await ${place ? call('overrideOf', placeKeys) : call('overrideOf')});`,
        real: async () => inMs(place ? await real.overrideOf(placeKeys) : await real.overrideOf()),
        model: () => model.overrideOf(place, now),
      };
    case 'usage':
      return {
        uses: ['usage'],
        text: `console.log(await ${call('usage', keys, ofTier)});`,
        real: async () => {
          const usage = await real.usage(keys, ofTier);
          return { ...usage, override: inMs(usage.override) };
        },
        model: (witness) => model.usage(keys, tier, now, witness as never),
      };
    default:
      return undefined;
  }
}

/** An override with its times in ms. */
function inMs(override: Awaited<ReturnType<Limiter['overrideOf']>>): unknown {
  return override && { ...override, since: override.since.getTime(), until: override.until?.getTime() };
}

/** The change of a step, in the form of the model and of the program. */
function changeOf(def: LimiterDef, step: Step, by: string, isOfKey: boolean): Change | undefined {
  const own = def.policies.filter((policy) => !isOfKey || policy.by === by);
  const policy = own[step.pick % own.length]!;
  const isSole = def.policies.length === 1;
  const tiers = Object.keys(def.tiers);
  if (step.change === 'tier') {
    const sets = [def.policies, ...Object.values(def.tiers)];
    if (tiers.length === 0 || !sets.flat().every((each) => each.by === by)) return undefined;
    const tier = tiers[step.pick % tiers.length]!;
    return { given: { tier }, tier, policies: {} };
  }
  const kind = step.change;
  if (kind === 'false')
    return isSole ? undefined : { given: { [policy.name]: false }, policies: { [policy.name]: false } };
  const { limit, window } = step;
  const isOther = kind === 'window' && policy.algorithm !== 'calendar' && !policy.share;
  const fields = isOther ? { limit, window } : { limit };
  return { given: isSole ? fields : { [policy.name]: fields }, policies: { [policy.name]: fields } };
}

const withoutId = ({ id, ...options }: { id?: string }) => (void id, options);
