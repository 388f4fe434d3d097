import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { invalidOption } from '../common/errors.js';
import type {
  ChangeMessage,
  DecisionMessage,
  HealthMessage,
  OutboundMessage,
  StoreMessage,
} from '../contract/diagnostics.js';
import type { LimiterDecision } from '../limiter/decision.js';
import { DownTime } from './down-time.js';
import { gaugesOf } from './gauges.js';
import type { Sink } from './metrics.js';
import { Names } from './names.js';

/** The outcome of a request, or of the denial that a shadow prevented. */
export function outcomeOf({ shadow, decision }: DecisionMessage): string {
  const { allowed, reason, retryAfterMs } = decision;
  if (shadow && retryAfterMs !== 0) return 'shadow-denied';
  if (allowed) return 'allowed';
  return reason === 'wait-timeout' || reason === 'queue-full' || reason === 'aborted' ? reason : 'denied';
}

/** The class of an error: its code, or else its name. */
function typeOf(error: unknown): string {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
  if (typeof code === 'string') return code;
  return typeof name === 'string' ? name : '_OTHER';
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function checkNearLimit(nearLimit: unknown = 0.2): number {
  if (typeof nearLimit === 'number' && nearLimit > 0 && nearLimit < 1) return nearLimit;
  throw invalidOption('nearLimit', nearLimit, 'Pass a number above 0 and below 1.');
}

/** Reports every limiter of this process to a sink, until the returned function is called. */
export function reportTo(sink: Sink, nearLimit: number): () => void {
  const names = new Names();
  const errors = new Names();
  const bounded = (name: string | undefined): string | undefined =>
    name === undefined ? undefined : names.bounded(name);

  const onDecision = (message: DecisionMessage): void => {
    const { local, waitedMs } = message;
    const decision = message.decision as LimiterDecision;
    const { allowed, reason, degraded } = decision;
    const outcome = outcomeOf(message);
    const limiter = names.bounded(message.limiter);
    const tier = bounded(message.tier);
    if (reason === 'store-full') sink.add('store.full', 1, { limiter, outcome });
    if (local && outcome !== 'allowed') sink.add('local.denials', 1, { limiter });
    if (waitedMs !== undefined) sink.add('wait.duration', waitedMs / 1000, { limiter, outcome, tier });
    if (decision.reply.ban < 0 && !decision.subject.peek) sink.add('bans', 1, { limiter, automatic: true });
    sink.add('decisions', 1, { limiter, outcome, reason, policy: bounded(decision.policy), tier, degraded });
    const { policies } = decision.set;
    const isCharged = outcome === 'allowed' && !decision.subject.peek && !decision.repeated;
    const costs = isCharged ? decision.costs : {};
    for (const [i, verdict] of decision.policies.entries()) {
      const of = { limiter, policy: names.bounded(verdict.name), tier };
      const cost = costs[verdict.name] ?? 0;
      if (!verdict.allowed) {
        if (allowed && outcome === 'allowed') sink.add('shadow.denials', 1, of);
        continue;
      }
      if (cost > 0) sink.add('units', cost, of);
      const isNear = verdict.remaining <= policies[i]!.traits.capacity * nearLimit;
      if (isCharged && isNear) sink.add('near_limit', 1, of);
    }
  };
  const onStore = ({ durationMs, busyMs, degraded, error, ...message }: StoreMessage): void => {
    const limiter = names.bounded(message.limiter);
    const type = error === undefined ? undefined : errors.bounded(typeOf(error));
    // The caller got the error (`onStoreError: 'throw'`), so there is no decision.
    if (type !== undefined && !degraded)
      sink.add('decisions', 1, {
        ...{ limiter, outcome: 'error', reason: 'store-error', degraded: false, error: type },
      });
    sink.add('store.busy', busyMs / 1000, { limiter });
    sink.add('store.duration', durationMs / 1000, { limiter, degraded, error: type });
  };
  const onOutbound = ({ status, pauseMs, ...message }: OutboundMessage): void => {
    const limiter = names.bounded(message.limiter);
    if (status >= 400) sink.add('outbound.denials', 1, { limiter, status });
    sink.add('outbound.paused', pauseMs / 1000, { limiter });
  };
  const onChange = ({ change, by, ...message }: ChangeMessage): void => {
    const limiter = names.bounded(message.limiter);
    // Pauses and learnt margins of limitFetch are not changes by hand.
    const automatic = by?.startsWith('headgate/') ?? false;
    if (change === 'ban') sink.add('bans', 1, { limiter, automatic });
    if (!automatic) sink.add('changes', 1, { limiter, change });
  };
  const downTime = new DownTime();
  const readGauges = gaugesOf(names);
  const listeners = Object.entries({
    'headgate:decision': (message: unknown) => onDecision(message as DecisionMessage),
    'headgate:store': (message: unknown) => onStore(message as StoreMessage),
    'headgate:outbound': (message: unknown) => onOutbound(message as OutboundMessage),
    'headgate:change': (message: unknown) => onChange(message as ChangeMessage),
    'headgate:health:metrics': (message: unknown) => downTime.onHealth(message as HealthMessage),
  });
  const end = sink.observe((set) => {
    set('degraded.time', downTime.seconds, {});
    readGauges(set);
  });
  for (const [name, listener] of listeners) subscribe(name, listener);
  return () => {
    for (const [name, listener] of listeners) unsubscribe(name, listener);
    end();
  };
}
